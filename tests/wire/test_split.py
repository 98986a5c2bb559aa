"""The rest of a batch is a batch of its own: the same records, in every compression."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from ha_core.wire import RemoteProtocolError
from ha_core.wire.compression import compress, decompress
from ha_core.wire.records import batches
from ha_core.wire.split import head, tail

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
PID, EPOCH = (1 << 44) + 7, 3


def build(values: list[bytes], codec: int, sequence: int = 100, producer_id: int = PID) -> bytes:
    """A batch as kafka-python, which shares no code with the gateway, writes it."""
    builder = DefaultRecordBatchBuilder(2, codec, 0, producer_id, EPOCH, sequence, 1 << 30)
    for number, value in enumerate(values):
        key = None if number % 3 == 0 else b"k%d" % number
        builder.append(number, 1_700_000_000_000 + number * 7, key, value, [("h", b"x" * (number % 5))])
    return bytes(builder.build())


def read(batch: bytes) -> list[tuple[int, int, bytes | None, bytes, tuple[tuple[str, bytes], ...]]]:
    found = DefaultRecordBatch(bytes(batch))
    assert found.validate_crc()
    return [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in found]


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("count", [2, 3, 127, 128, 129, 5000])
def test_the_tail_holds_the_records_behind_the_cut_and_nothing_else(codec: int, count: int) -> None:
    values = [b"value %d " % n * (1 + n % 4) for n in range(count)]
    whole = build(values, codec)
    for first in {1, count // 2 or 1, count - 1}:
        rest = tail(whole, first)
        expected = [(o - first, *others) for o, *others in read(whole)[first:]]
        assert read(rest) == expected
        (batch,) = batches(rest, 0, len(rest))
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (PID, EPOCH, 100 + first)
        assert (batch.records_count, batch.last_offset_delta, batch.end) == (
            count - first,
            count - first - 1,
            len(rest),
        )
        assert batch.attributes == next(batches(whole, 0, len(whole))).attributes


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@pytest.mark.parametrize("count", [2, 3, 127, 128, 129, 5000])
def test_the_head_holds_the_records_before_the_cut_and_ends_there(codec: int, count: int) -> None:
    whole = build([b"value %d " % n * (1 + n % 4) for n in range(count)], codec)
    for below in {1, count // 2 or 1, count - 1}:
        part = head(memoryview(bytearray(whole)), below)
        assert part is not None
        assert read(part) == read(whole)[:below]
        (batch,) = batches(part, 0, len(part))
        assert (batch.base_sequence, batch.last_offset, batch.records_count) == (100, below - 1, below)
    assert head(whole, 0) is None


@given(st.lists(st.binary(max_size=300), min_size=2, max_size=60), st.sampled_from(list(CODECS.values())), st.data())
@settings(max_examples=150, deadline=None)
def test_any_split_of_any_batch_keeps_the_records_and_is_always_the_same(
    values: list[bytes], codec: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(1, len(values) - 1))
    whole = build(values, codec)
    rest = tail(memoryview(bytearray(whole)), first)
    assert [record[3] for record in read(rest)] == values[first:]
    assert rest == tail(whole, first)


def test_sequences_go_on_from_zero_after_their_highest_and_a_batch_without_one_keeps_none() -> None:
    (wrapped,) = batches(rest := tail(build([b"a", b"b", b"c"], 0, sequence=(1 << 31) - 1), 1), 0, len(rest))
    assert wrapped.base_sequence == 0
    (without,) = batches(rest := tail(build([b"a", b"b"], 0, sequence=-1, producer_id=-1), 1), 0, len(rest))
    assert (without.producer_id, without.base_sequence) == (-1, -1)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_every_damaged_batch_is_refused_with_a_protocol_error(codec: int) -> None:
    whole = build([b"some value %d" % n for n in range(20)], codec)
    assert next(batches(whole, 0, len(whole))).attributes & 7 == codec
    for at in (*range(8, 12), *range(16, len(whole))):  # the leader epoch between them means nothing yet
        damaged = bytearray(whole)
        damaged[at] ^= 0x5A
        with pytest.raises(RemoteProtocolError):
            tail(damaged, 3)
        with pytest.raises(RemoteProtocolError):
            head(damaged, 3)
    for end in range(len(whole)):
        with pytest.raises(RemoteProtocolError):
            tail(whole[:end], 3)


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@given(st.binary(max_size=200_000))
@settings(max_examples=20, deadline=None)
def test_what_was_compressed_comes_back(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("size", [40, 200_000])
def test_lz4_is_written_in_independent_blocks_because_brokers_read_no_others(size: int) -> None:
    flags = compress(CODECS["lz4"], b"ab" * (size // 2))[4]
    assert (flags >> 6, flags >> 5 & 1) == (1, 1)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@given(st.binary(max_size=300))
@settings(max_examples=30, deadline=None)
def test_noise_is_refused_or_read_but_never_crashes(codec: int, data: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        decompress(codec, data)


def test_records_that_claim_any_size_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ha_core.wire.compression.MOST_BYTES", 1 << 20)
    for codec in (1, 2, 3, 4):
        bomb = compress(codec, bytes(4 << 20))
        with pytest.raises(RemoteProtocolError):
            decompress(codec, bomb)
