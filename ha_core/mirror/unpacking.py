"""Decompresses records, up to a limit that a copier can hold.

A batch of a hundred bytes may expand to gigabytes of zeros, and brokers accept it: their limit is for compressed bytes.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from struct import Struct

import snappy
import zstandard
from lz4.frame import LZ4FrameDecompressor

from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.varint import read_uvarint

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
"""Per batch. The brokers' own limit is 1 MB compressed by default; the best text expands two hundred times."""
_XERIAL = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES = 16
_SIZE = Struct(">i")


def unpack(data: bytes, compression: int, max_bytes: int = MAX_UNPACKED_BYTES) -> bytes:
    """:param compression: codec of the batch's attributes.
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
