"""Unsigned varints of 32 bits, tagged sections made of them (KIP-482), and the signed varints in records."""

from collections.abc import Mapping
from typing import Any

from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError

_MOST = 0xFFFFFFFF

MAX_TAGS = 100
"""Limit per tagged section: Kafka's longest has four. Without a bound the smallest tags are read for minutes."""


def read_uvarint(b: Any, p: int) -> tuple[int, int]:
    """(value, position after it). IndexError if the bytes end, RemoteProtocolError above 32 bits."""
    value: int = b[p]
    p += 1
    if value < 128:
        return value, p
    value &= 127
    shift = 7
    while True:
        byte: int = b[p]
        p += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise RemoteProtocolError(f"varint before byte {p} has more than 5 bytes")
    if value > _MOST:
        raise RemoteProtocolError(f"varint before byte {p} has more than 32 bits")
    return value, p


def write_uvarint(value: int) -> bytes:
    """LocalProtocolError unless 0 <= value < 2^32."""
    if 0 <= value < 128:
        return bytes((value,))
    if not 0 <= value <= _MOST:
        raise LocalProtocolError(f"varint {value}: only 0 to {_MOST} can be written")
    return _in_groups_of_seven(value)


def read_varlong(b: Any, p: int) -> tuple[int, int]:
    """(value, position after it) of a zigzag varint of 64 bits, as in records. IndexError if the bytes end,
    RemoteProtocolError above 64 bits."""
    value = shift = 0
    while True:
        byte: int = b[p]
        p += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise RemoteProtocolError(f"varint before byte {p} has more than 10 bytes")
    return (value >> 1) ^ -(value & 1), p


def write_varlong(value: int) -> bytes:
    """LocalProtocolError unless it fits into 64 bits."""
    if not -(1 << 63) <= value < 1 << 63:
        raise LocalProtocolError(f"varint {value}: it needs more than 64 bits")
    return _in_groups_of_seven(value << 1 if value >= 0 else ~value << 1 | 1)


def write_tags(tags: Mapping[int, bytes] | None) -> bytes:
    """A tagged section: count, then tag, size and bytes in ascending order of tags."""
    if not tags:
        return b"\0"
    parts = [write_uvarint(len(tags))]
    for tag in sorted(tags):
        parts += (write_uvarint(tag), write_uvarint(len(tags[tag])), tags[tag])
    return b"".join(parts)


def _in_groups_of_seven(value: int) -> bytes:
    """Seven bits a byte, the lowest first; all but the last byte have the top bit. For values from 0 on."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
