"""Converts batches that brokers refuse into batches that they accept: the slow way, record by record.

Key, value and headers are moved as bytes and never decoded. A batch with gaps (compaction) becomes one batch per run of
consecutive offsets; LogAppendTime becomes the timestamp of each record; messages of formats 0 and 1 become records. The
compression is kept.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterable, Iterator
from struct import Struct
from typing import NamedTuple

import google_crc32c
import snappy
import zstandard
from lz4.frame import LZ4FrameDecompressor

from ha_core.mirror.progress import Copied
from ha_core.wire.copied_batch import COMPRESSION, LOG_APPEND_TIME
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.records import HEADER_BYTES, Batch
from ha_core.wire.sequences import last_sequence
from ha_core.wire.varint import read_uvarint, read_varlong, write_varlong

_LONG = Struct(">q")
# attributes, last offset delta, timestamps of the first and of the largest record, producer id, epoch, sequence, count
_COVERED = Struct(">hiqqqhii")
_HEADER = Struct(">qiibI")
_FIRST_MS_AT, _LARGEST_MS_AT = 27, 35

PIECE_BYTES = 4 * 1024 * 1024
"""Approximate bytes of records per new batch, however many the original had."""
_PACK = {1: "gzip_encode", 2: "snappy_encode", 3: "lz4_encode", 4: "zstd_encode"}
"""By codec of the attributes, in `kafka.codec`."""
MAX_UNPACKED_BYTES = 256 * 1024 * 1024
"""Per batch. The brokers' own limit is 1 MB compressed by default; the best text expands two hundred times."""
_XERIAL = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES = 16
_SIZE = Struct(">i")


class Record(NamedTuple):
    offset: int
    time_ms: int
    rest: bytes
    """Key, value and headers, encoded as in a record of format 2."""

    @classmethod
    def of(cls, offset: int, time_ms: int, key: bytes | None, value: bytes | None) -> Record:
        """A record without headers."""
        return cls(offset, time_ms, _sized(key) + _sized(value) + b"\0")


class Fields(NamedTuple):
    """Key, value and headers of a record."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes | None, bytes | None], ...]


def split(buf: bytearray | memoryview, batch: Batch, start: int) -> Iterator[tuple[Copied, memoryview]]:
    """The records of a batch from offset `start` on, in batches without gaps, oldest first.

    :raises RemoteProtocolError: the batch cannot be read.
    """
    runs = _runs(record for record in read_records(buf, batch) if record.offset >= start)
    run = next(runs, None)
    while run is not None:
        following = next(runs, None)
        first, last = run[0].offset, run[-1].offset
        sequence = -1
        if batch.producer_id >= 0:
            # Records that compaction removed after the last one were the producer's as well.
            until = batch.last_offset if following is None else last
            sequence = last_sequence(batch.base_sequence, until - batch.base_offset + 1)
        copied = Copied(first, len(run), batch.producer_id, batch.producer_epoch, sequence)
        yield copied, memoryview(pack(run, batch.attributes & COMPRESSION))
        run = following


def read_records(buf: bytes | bytearray | memoryview, batch: Batch) -> Iterator[Record]:
    """All records of a batch of any format.

    :raises RemoteProtocolError: the batch cannot be read, or does not fit into memory bounds.
    """
    data = memoryview(buf)[batch.at : batch.end]
    try:
        yield from (_records if batch.magic == 2 else _legacy)(data, batch)
    except MemoryError:
        raise  # no fault of the batch
    except Exception as error:  # codecs of five libraries raise anything
        why = error if isinstance(error, RemoteProtocolError) else repr(error)
        raise RemoteProtocolError(f"the batch at offset {batch.base_offset} cannot be read: {why}") from error


def fields(rest: bytes) -> Fields:
    """Decodes the `rest` of a record."""
    key, at = _unsized(rest, 0)
    value, at = _unsized(rest, at)
    count, at = read_varlong(rest, at)
    headers = []
    for _ in range(count):
        name, at = _unsized(rest, at)
        text, at = _unsized(rest, at)
        headers.append((name, text))
    return Fields(key, value, tuple(headers))


def _unsized(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = read_varlong(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _runs(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Records with consecutive offsets, at most about `PIECE_BYTES` together."""
    run: list[Record] = []
    size = 0
    for record in records:
        if run and (record.offset != run[-1].offset + 1 or size >= PIECE_BYTES):
            yield run
            run, size = [], 0
        run.append(record)
        size += len(record.rest)
    if run:
        yield run


def _records(data: memoryview, batch: Batch) -> Iterator[Record]:
    (first_ms,), (largest_ms,) = _LONG.unpack_from(data, _FIRST_MS_AT), _LONG.unpack_from(data, _LARGEST_MS_AT)
    body = memoryview(unpack(bytes(data[HEADER_BYTES:]), batch.attributes & COMPRESSION))
    at = 0
    for _ in range(batch.records_count):
        size, at = read_varlong(body, at)
        end = at + size
        time, at = read_varlong(body, at + 1)  # skips the attributes, which are unused
        delta, at = read_varlong(body, at)
        if not at <= end <= len(body):
            raise RemoteProtocolError(f"record {delta} of {size} bytes in a batch of {len(body)}")
        stamped = largest_ms if batch.attributes & LOG_APPEND_TIME else first_ms + time
        yield Record(batch.base_offset + delta, stamped, bytes(body[at:end]))
        at = end


# kafka-python imports all of itself with any part of it, a fifth of a command's start-up time. A forced switch waits
# for that, and needs neither old formats nor compression.


def _legacy(data: memoryview, batch: Batch) -> Iterator[Record]:
    from kafka.record.legacy_records import LegacyRecordBatch

    for one in LegacyRecordBatch(bytearray(data), batch.magic):
        yield Record.of(one.offset, -1 if one.timestamp is None else one.timestamp, one.key, one.value)


def _sized(data: bytes | None) -> bytes:
    return write_varlong(-1) if data is None else write_varlong(len(data)) + data


def _compressed(body: bytes, compression: int) -> bytes:
    if not compression:
        return body
    from kafka import codec

    packed: bytes = getattr(codec, _PACK[compression])(body)
    return packed


def pack(run: list[Record], compression: int) -> bytearray:
    """A batch of these records, which have consecutive offsets, without a producer."""
    first = run[0]
    body = bytearray()
    for index, one in enumerate(run):
        record = b"\0" + write_varlong(one.time_ms - first.time_ms) + write_varlong(index) + one.rest
        body += write_varlong(len(record)) + record
    packed = _compressed(bytes(body), compression)
    largest_ms = max(one.time_ms for one in run)
    covered = _COVERED.pack(compression, len(run) - 1, first.time_ms, largest_ms, -1, -1, -1, len(run)) + packed
    head = _HEADER.pack(0, len(covered) + 9, -1, 2, google_crc32c.value(covered))
    return bytearray(head + covered)


def unpack(data: bytes, compression: int, max_bytes: int = MAX_UNPACKED_BYTES) -> bytes:
    """Decompresses records, up to a limit that a copier can hold. A batch of a hundred bytes may expand to gigabytes of
    zeros, and brokers accept it: their limit is for compressed bytes.

    :param compression: codec of the batch's attributes.
    :raises RemoteProtocolError: more than the limit. Errors of the codecs are raised unchanged.
    """
    body = _UNPACK[compression](data, max_bytes + 1)
    if body is None or len(body) > max_bytes:
        raise RemoteProtocolError(f"it holds more than {max_bytes >> 20} MiB unpacked")
    return body


def _gzip(data: bytes, at_most: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as reader:
        return reader.read(at_most)


def _lz4(data: bytes, at_most: int) -> bytes:
    reader = LZ4FrameDecompressor()
    body: bytes = reader.decompress(data, max_length=at_most)
    if len(body) < at_most and not reader.eof:
        raise EOFError("the lz4 frame ends in the middle")
    return body


def _zstd(data: bytes, at_most: int) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
        return b"".join(_pieces(reader.read, at_most))


def _pieces(read: Callable[[int], bytes], at_most: int) -> Iterator[bytes]:
    while at_most > 0 and (piece := read(min(at_most, 1 << 20))):
        at_most -= len(piece)
        yield piece


def _snappy(data: bytes, at_most: int) -> bytes | None:
    """Java's clients write blocks, each with its size before it; librdkafka writes one without. None: the declared
    sizes, at the beginning of each block, are too large.
    """
    blocks = list(_blocks(data)) if data.startswith(_XERIAL) else [data]
    if sum(read_uvarint(block, 0)[0] for block in blocks) >= at_most:
        return None
    return b"".join(map(snappy.uncompress, blocks))


def _blocks(data: bytes) -> Iterator[bytes]:
    at = _XERIAL_HEADER_BYTES
    while at < len(data):
        (size,) = _SIZE.unpack_from(data, at)
        if not 0 < size <= len(data) - at - _SIZE.size:
            raise EOFError(f"a snappy block of {size} bytes")
        at += _SIZE.size
        yield data[at : at + size]
        at += size


def _plain(data: bytes, at_most: int) -> bytes:
    return data[:at_most]


_UNPACK: dict[int, Callable[[bytes, int], bytes | None]] = {0: _plain, 1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
"""By codec of the attributes. None returns more than requested."""
