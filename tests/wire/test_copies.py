"""Batches as a mirror appends them: another producer, unchanged records, and a checksum as valid as before."""

from struct import pack, unpack_from

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from ha_core.wire.copied_batch import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, claim, raw
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.records import Batch, batches
from tests.wire.samples import batch, legacy


def only(data: bytes) -> Batch:
    (found,) = batches(data, 0, len(data))
    return found


def with_attributes(data: bytes, attributes: int) -> bytes:
    covered = pack(">h", attributes) + data[23:]
    return data[:17] + pack(">I", google_crc32c.value(covered)) + covered


def real(codec: int, transactional: bool = False) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, transactional, 7, 1, 40, 1 << 20)
    for index, (key, value) in enumerate([(b"k", b"v" * 100), (None, b""), (b"gone", None)]):
        builder.append(index, 1_700_000_000_000 + index, key, value, [("h", b"1"), ("h", None)])
    return bytes(builder.build())


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4], ids=["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("transactional", [False, True])
def test_a_copied_batch_has_the_same_records_and_another_producer(codec: int, transactional: bool) -> None:
    # Given a batch at offset 500 of its log
    source = pack(">q", 500) + real(codec, transactional)[8:]
    copy = bytearray(source)
    # When it is claimed
    claim(copy, 0, 90_000, 12, 333)
    # Then a client reads the same records with the same times
    theirs, ours = DefaultRecordBatch(source), DefaultRecordBatch(bytes(copy))
    assert ours.validate_crc()
    assert [(r.key, r.value, r.headers, r.timestamp, r.timestamp_type) for r in ours] == [
        (r.key, r.value, r.headers, r.timestamp, r.timestamp_type) for r in theirs
    ]
    # And the batch is another producer's, outside of any transaction
    found = only(bytes(copy))
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.base_offset) == (90_000, 12, 333, 0)
    assert ours.compression_type == theirs.compression_type
    assert not ours.is_transactional


@given(
    attributes=st.sampled_from([0, TRANSACTIONAL, DELETE_HORIZON, TRANSACTIONAL | DELETE_HORIZON | 4]),
    body=st.binary(max_size=300),
    ids=st.tuples(st.integers(0, 1 << 62), st.integers(0, 32_767), st.integers(0, (1 << 31) - 1)),
)
def test_checksum_is_updated_for_any_batch(attributes: int, body: bytes, ids: tuple[int, int, int]) -> None:
    copy = bytearray(with_attributes(batch(100, 10, producer=7, sequence=5, body=body), attributes))
    claim(copy, 0, *ids)
    assert unpack_from(">I", copy, 17)[0] == google_crc32c.value(bytes(copy[21:]))
    assert only(bytes(copy)).attributes == attributes & 7


def test_a_corrupt_batch_stays_corrupt_for_the_broker_to_see() -> None:
    copy = bytearray(batch(100, 10))
    copy[-1] ^= 1
    claim(copy, 0, 9, 0, 0)
    assert unpack_from(">I", copy, 17)[0] != google_crc32c.value(bytes(copy[21:]))


def test_other_bytes_of_the_buffer_stay() -> None:
    first, second = batch(0, 3), batch(3, 2)
    buf = bytearray(b"ab" + first + second)
    claim(buf, 2, 9, 0, 0)
    assert buf[:2] == b"ab"
    assert buf[2 + len(first) :] == second


@pytest.mark.parametrize(
    "data",
    [
        with_attributes(batch(5, 1), CONTROL | TRANSACTIONAL),
        with_attributes(batch(5, 3), LOG_APPEND_TIME),
        legacy(5, 1),
        batch(5, 3)[:23] + pack(">i", 7) + batch(5, 3)[27:],
    ],
    ids=["control batch", "time of the append", "old format", "gaps inside"],
)
def test_batches_that_a_broker_refuses_or_alters_are_not_copied_raw(data: bytes) -> None:
    assert not raw(only(data))
    assert raw(only(batch(5, 3)))


@pytest.mark.parametrize("data", [b"", batch(0, 1)[:40], batch(0, 1)[:-1], legacy(0, 1, body=b"x" * 99)])
def test_incomplete_batch_is_refused(data: bytes) -> None:
    with pytest.raises(LocalProtocolError):
        claim(bytearray(data), 0, 1, 0, 0)
