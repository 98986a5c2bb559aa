"""Reading and writing Connect's records of source offsets."""

import pytest

from ha_core.flows.connect_state import ConnectState
from ha_core.flows.errors import FlowError
from ha_core.flows.records import SourceOffset

STATE = ConnectState.dedicated("A")


def record(
    topic: str, offset: int, cluster: str = "A", connector: str = "MirrorSourceConnector"
) -> tuple[bytes, bytes]:
    written = SourceOffset(cluster, topic, 0, offset, connector)
    return written.key, written.value


def test_dedicated_mode_has_mirror_makers_topic_and_group() -> None:
    """`MirrorMakerConfig.workerConfig` of 3.9.2 and 4.3.1 has these names, whatever the separator is."""
    assert (STATE.offsets_topic, STATE.group) == ("mm2-offsets.A.internal", "A-mm2")


def test_the_last_record_of_a_key_counts() -> None:
    records = [record("t", 5), record("u", 7), record("t", 9)]
    assert STATE.newest(records) == {("t", 0): 9, ("u", 0): 7}


def test_a_partition_whose_offset_was_deleted_or_reset_is_missing() -> None:
    deleted, _ = record("t", 5)
    assert STATE.newest([record("t", 5), (deleted, None), record("u", 5), record("u", -1)]) == {}


def test_records_of_other_connectors_and_clusters_are_ignored() -> None:
    heartbeat = b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]', b'{"offset":0}'
    others = [heartbeat, record("t", 5, cluster="C"), record("t", 5, connector="mine"), (None, b"x"), (b"\xff", b"x")]
    assert STATE.newest(others) == {}


def test_a_key_that_connect_would_not_find_is_ignored() -> None:
    assert (
        STATE.newest([(b'["MirrorSourceConnector", {"cluster":"A","partition":0,"topic":"t"}]', b'{"offset":5}')]) == {}
    )


def test_an_offset_that_cannot_be_read_is_an_error() -> None:
    key, _ = record("t", 5)
    with pytest.raises(FlowError, match="cannot be read as source offset of MirrorMaker 2"):
        STATE.newest([(key, b'{"offset":"5"}')])


def test_the_written_offset_is_one_below_the_next_record_to_copy() -> None:
    """MirrorMaker 2 seeks to the offset above the one that it reads."""
    assert STATE.source_offset(("t", 2), 42) == SourceOffset("A", "t", 2, 41)
    assert STATE.source_offset(("t", 2), 0) is None
