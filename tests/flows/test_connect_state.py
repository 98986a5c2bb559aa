"""Connect's records of source offsets, read and written."""

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


def test_names_are_those_of_a_dedicated_mirror_maker() -> None:
    """`MirrorMakerConfig.workerConfig` of 3.9.2 and 4.3.1 has these, with any separator."""
    assert (STATE.offsets_topic, STATE.group) == ("mm2-offsets.A.internal", "A-mm2")


def test_the_last_record_of_a_key_counts() -> None:
    records = [record("t", 5), record("u", 7), record("t", 9)]
    assert STATE.newest(records) == {("t", 0): 9, ("u", 0): 7}


def test_a_partition_whose_offset_was_deleted_or_reset_begins_anew() -> None:
    deleted, _ = record("t", 5)
    assert STATE.newest([record("t", 5), (deleted, None), record("u", 5), record("u", -1)]) == {}


def test_records_of_other_connectors_and_clusters_are_left_out() -> None:
    heartbeat = b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]', b'{"offset":0}'
    others = [heartbeat, record("t", 5, cluster="C"), record("t", 5, connector="mine"), (None, b"x"), (b"\xff", b"x")]
    assert STATE.newest(others) == {}


def test_a_key_that_connect_would_not_find_is_left_out() -> None:
    assert (
        STATE.newest([(b'["MirrorSourceConnector", {"cluster":"A","partition":0,"topic":"t"}]', b'{"offset":5}')]) == {}
    )


def test_an_offset_that_cannot_be_read_is_an_error() -> None:
    key, _ = record("t", 5)
    with pytest.raises(FlowError, match="is no source offset of MirrorMaker 2"):
        STATE.newest([(key, b'{"offset":"5"}')])


def test_mirror_maker_goes_on_at_the_next_offset_that_was_not_copied() -> None:
    """It seeks to the offset after the one that it reads."""
    assert STATE.source_offset(("t", 2), 42) == SourceOffset("A", "t", 2, 41)
    assert STATE.source_offset(("t", 2), 0) is None
