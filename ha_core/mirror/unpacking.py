"""Compressed records as they were, and never more of them than a copier has room for.

A batch of a hundred bytes may hold gigabytes of zeros, and brokers take it: their limit is for what is compressed.
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
"""Of one batch. Broker's own limit is 1 MB compressed, so this is text at its best two hundred times over."""
_XERIAL = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES = 16
_SIZE = Struct(">i")


def unpack(data: bytes, compression: int, max_bytes: int = MAX_UNPACKED_BYTES) -> bytes:
    """:param compression: of the batch's attributes.
    :raises RemoteProtocolError: it holds more. What the codecs raise is raised as it is.
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
    """Java's clients write blocks, each with its size before it; librdkafka one without. None: too much is declared, by
    the number with which each block begins.
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
"""By the codec of the attributes. None gives more than it is asked for."""
