"""Records of internal topics, compared with bytes that MirrorMaker 2 of Kafka 3.9.2 and 4.3.1 wrote."""

import pytest

from ha_core.flows.errors import FlowError
from ha_core.flows.records import Checkpoint, Heartbeat, OffsetSync, SourceOffset

Record = Heartbeat | Checkpoint | OffsetSync

WRITTEN: list[tuple[Record, str, str, str]] = [
    (
        Heartbeat("west", "a392", 1796042818508),
        "000477657374000461333932",
        "0000000001a22c7e83cc",
        "Heartbeat{sourceClusterAlias=west, targetClusterAlias=a392, timestamp=1796042818508}",
    ),
    (
        Checkpoint("billing", "a392.t", 0, 40, 1, "méta\0"),
        "000762696c6c696e670006613339322e7400000000",
        "00000000000000000028000000000000000100066dc3a9746100",
        "Checkpoint{consumerGroupId=billing, topicPartition=a392.t-0, upstreamOffset=40, downstreamOffset=1, "
        "metadata=méta\0}",
    ),
    (
        Checkpoint("billing", "a392.t", 1, 77, 57),
        "000762696c6c696e670006613339322e7400000001",
        "0000000000000000004d00000000000000390000",
        "Checkpoint{consumerGroupId=billing, topicPartition=a392.t-1, upstreamOffset=77, downstreamOffset=57, "
        "metadata=}",
    ),
    (
        OffsetSync("t", 1, 24, 21),
        "00017400000001",
        "00000000000000180000000000000015",
        "OffsetSync{topicPartition=t-1, upstreamOffset=24, downstreamOffset=21}",
    ),
]


@pytest.mark.parametrize(("record", "key", "value", "printed"), WRITTEN, ids=lambda found: type(found).__name__)
def test_records_are_kafkas_byte_for_byte_and_print_as_kafkas_formatters_do(
    record: Record, key: str, value: str, printed: str
) -> None:
    assert (record.key.hex(), record.value.hex()) == (key, value)
    assert type(record).decode(bytes.fromhex(key), bytes.fromhex(value)) == record
    assert str(record) == printed


@pytest.mark.parametrize("record", [one[0] for one in WRITTEN], ids=lambda found: type(found).__name__)
@pytest.mark.parametrize("part", ["key", "value"])
def test_a_truncated_record_is_refused_wherever_it_ends(record: Record, part: str) -> None:
    whole = {"key": record.key, "value": record.value}
    for end in range(len(whole[part])):
        cut = whole | {part: whole[part][:end]}
        with pytest.raises(FlowError, match=f"cannot be read as {record.record_name}"):
            type(record).decode(cut["key"], cut["value"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0\0"),
        (b"\0\1a\0\1b", None),
        (b"\0\1a\0\1b", b"\0\1" + bytes(8)),
        (b"\xff\xffa\0\1b", b"\0\0" + bytes(8)),
        (b"\0\1\xff\0\1b", b"\0\0" + bytes(8)),
    ],
    ids=["no-key", "no-value", "newer-version", "negative-length", "no-utf-8"],
)
def test_a_record_that_is_not_a_heartbeat_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(FlowError, match="cannot be read as heartbeat"):
        Heartbeat.decode(key, value)


def test_a_string_longer_than_kafkas_limit_is_refused() -> None:
    with pytest.raises(FlowError, match="has 32768 bytes; a string of Kafka has at most 32767"):
        _ = Checkpoint("g", "t", 0, 1, 1, "m" * 32_768).value


def test_a_source_offset_of_a_real_mirror_maker_is_read_and_written() -> None:
    key, value = b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"t"}]', b'{"offset":41}'
    offset = SourceOffset.decode(key, value)
    assert offset == SourceOffset("A", "t", 3, 41)
    assert (offset.key, offset.value) == (key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'["MirrorSourceConnector",{"cluster":"A","partition":"3","topic":"t"}]', b'{"offset":41}'),
        (b'["MirrorSourceConnector",{"cluster":"A","topic":"t"}]', b'{"offset":41}'),
        (b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"t"}]', b"null"),
        (b'["MirrorSourceConnector",{"cluster":"A","partition":3,"topic":"t"}]', None),
        (b"[]", b'{"offset":41}'),
        (b"\xff", b'{"offset":41}'),
    ],
)
def test_a_record_that_is_not_a_source_offset_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(FlowError, match="cannot be read as source offset of MirrorMaker 2"):
        SourceOffset.decode(key, value)
