"""The records of a batch in and out of their compression: what the attributes of magic 2 name."""

from __future__ import annotations

import mmap
import struct
from typing import Any

import cramjam

from ha_core.wire.errors import RemoteProtocolError

MOST_BYTES = 256 << 20
"""Of decompressed records: a few bytes on the wire can claim any size."""

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_NAMES = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
_XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 << 10
_LENGTH = struct.Struct(">i")


def decompress(codec: int, data: Any) -> bytes:
    """:raises RemoteProtocolError: unknown codec, damaged data, or more than `MOST_BYTES`."""
    if codec == NONE:
        return bytes(data)
    if codec not in _NAMES:
        raise RemoteProtocolError(f"compression codec {codec}: 0 to {ZSTD} are known")
    if codec == SNAPPY:
        return _snappy(bytes(data))
    return _into_bounded(_NAMES[codec], bytes(data))


def compress(codec: int, data: bytes) -> bytes:
    """The same codec as clients write it: snappy in the frames of the Java client, lz4 as a standard frame."""
    if codec == NONE:
        return data
    if codec == SNAPPY:
        blocks = (bytes(cramjam.snappy.compress_raw(block)) for block in _cut(data))
        return _XERIAL + b"".join(_LENGTH.pack(len(block)) + block for block in blocks)
    if codec == LZ4:
        # Brokers and Java clients read frames of independent blocks only: others are UNKNOWN_SERVER_ERROR.
        frame = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
        frame.compress(data)
        return bytes(frame.finish())
    return bytes(getattr(cramjam, _NAMES[codec]).compress(data))


def _into_bounded(name: str, data: bytes) -> bytes:
    # Memory that is not touched costs nothing: no need to guess a size and try again.
    with mmap.mmap(-1, MOST_BYTES) as out:
        try:
            taken = getattr(cramjam, name).decompress_into(data, out)
        except cramjam.DecompressionError as error:
            raise RemoteProtocolError(f"{name} records cannot be decompressed: {error}") from error
        return out[:taken]


def _snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL[:8]):
        return _snappy_block(data, MOST_BYTES)  # librdkafka writes one block without a frame
    out = bytearray()
    at = len(_XERIAL)
    while at < len(data):
        if len(data) - at < _LENGTH.size:
            raise RemoteProtocolError("snappy records end inside a block's length")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if not 0 <= length <= len(data) - at:
            raise RemoteProtocolError(f"a snappy block of {length} bytes where {len(data) - at} are left")
        out += _snappy_block(data[at : at + length], MOST_BYTES - len(out))
        at += length
    return bytes(out)


def _snappy_block(block: bytes, most: int) -> bytes:
    try:
        if cramjam.snappy.decompress_raw_len(block) > most:
            raise RemoteProtocolError(f"snappy records of more than {MOST_BYTES} bytes")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise RemoteProtocolError(f"snappy records cannot be decompressed: {error}") from error


def _cut(data: bytes) -> list[bytes]:
    return [data[at : at + _XERIAL_BLOCK] for at in range(0, len(data), _XERIAL_BLOCK)]
