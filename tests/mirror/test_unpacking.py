"""Decompression is bounded before any memory is used, for every codec."""

import tracemalloc

import pytest
from kafka import codec

from ha_core.mirror import split
from ha_core.mirror.progress import Copied
from ha_core.mirror.split import MAX_UNPACKED_BYTES, Record, pack, unpack
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.records import batches

PACKED = {
    1: codec.gzip_encode,
    2: codec.snappy_encode,
    3: codec.lz4_encode,
    4: codec.zstd_encode,
}
EACH = pytest.mark.parametrize("compression", PACKED)
TEXT = b"some records, one after the other; " * 5000


@EACH
def test_records_within_the_limit_are_unpacked(compression: int) -> None:
    packed = PACKED[compression](TEXT)
    assert unpack(packed, compression) == TEXT
    assert unpack(packed, compression, len(TEXT)) == TEXT
    assert unpack(PACKED[compression](b""), compression) == b""


def test_one_block_of_snappy_is_unpacked() -> None:
    assert unpack(codec.snappy_encode(TEXT, xerial_compatible=False), 2) == TEXT


@EACH
def test_records_above_the_limit_are_refused(compression: int) -> None:
    with pytest.raises(RemoteProtocolError, match="more than 0 MiB unpacked"):
        unpack(PACKED[compression](TEXT), compression, len(TEXT) - 1)


@EACH
def test_truncated_data_are_an_error(compression: int) -> None:
    packed = PACKED[compression](TEXT)
    with pytest.raises(Exception, match=r"."):
        assert unpack(packed[:-20], compression) == TEXT


def test_a_batch_of_zeros_costs_no_more_than_the_limit() -> None:
    # Given a gigabyte that is compressed to some kilobytes
    packed = codec.zstd_encode(bytes(1 << 30))
    # When it is unpacked
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match="more than 256 MiB"):
            unpack(packed, 4)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Then the decompressed data never existed
    assert peak <= 3 * MAX_UNPACKED_BYTES


def batch_of(values: list[bytes]) -> bytearray:
    return pack([Record.of(offset, 1_700_000_000_000, None, value) for offset, value in enumerate(values)], 4)


def test_highly_compressed_records_are_split_into_batches_of_a_few_megabytes() -> None:
    # Given a batch of 20 MB of records
    data = batch_of([b"x" * 1_000_000] * 20)
    (batch,) = batches(data, 0, len(data))
    # When it is split
    found = [(copied, bytes(piece)) for copied, piece in split.split(data, batch, 0)]
    # Then no piece has more records than fit, and together they have all, in order
    assert [copied for copied, _ in found] == [Copied(5 * n, 5, -1, -1, -1) for n in range(4)]
    assert [
        record.offset for _, piece in found for record in split.read_records(piece, next(batches(piece, 0, len(piece))))
    ]


def test_too_large_batch_is_reported_with_its_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split.unpack, "__defaults__", (1_000_000,))
    data = batch_of([b"x" * 500_000] * 3)
    (batch,) = batches(data, 0, len(data))
    with pytest.raises(RemoteProtocolError, match="the batch at offset 0 cannot be read: it holds more than 0 MiB"):
        list(split.split(data, batch, 0))
