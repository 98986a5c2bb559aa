"""A part of a record batch as a batch of its own: the rest from one of its records on, or what lies before it."""

from __future__ import annotations

from struct import Struct
from typing import Any

import google_crc32c

from ha_core.wire.compression import compress, decompress
from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError
from ha_core.wire.sequences import MODULUS

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, base and max timestamp, producer id,
# epoch, base sequence, count of records
_HEADER = Struct(">qiibIhiqqqhii")
_CRC_FROM = 21
_SIZED_FROM = 12
_CODEC = 0b111


def tail(batch: Any, first: int) -> bytes:
    """The records of `batch` (magic 2, whole) from its record number `first` on, 0 < first < count.

    Same producer, epoch, timestamps and codec; the sequence is that of the first record kept, so that whoever splits
    the same batch at the same record makes what a broker takes for a duplicate. Offsets begin at 0, as clients write
    them.

    :raises RemoteProtocolError: the batch is damaged.
    """
    view = memoryview(batch)
    (_, _, epoch, _, _, attributes, _, base_time, _, producer, producer_epoch, sequence, count) = _whole(view)
    if not 0 < first < count:
        raise LocalProtocolError(f"record {first} of {count}: nothing to split there")
    codec = attributes & _CODEC
    kept, max_time = _kept(decompress(codec, view[_HEADER.size :]), count, first, base_time)
    records = compress(codec, kept)
    left = count - first
    header = _HEADER.pack(
        0,
        _HEADER.size - _SIZED_FROM + len(records),
        epoch,
        2,
        0,
        attributes,
        left - 1,
        base_time,
        max_time,
        producer,
        producer_epoch,
        sequence if sequence < 0 else (sequence + first) % MODULUS,
        left,
    )
    made = bytearray(header + records)
    made[_CRC_FROM - 4 : _CRC_FROM] = google_crc32c.value(bytes(made[_CRC_FROM:])).to_bytes(4, "big")
    return bytes(made)


def head(batch: Any, below: int) -> bytes | None:
    """The records of `batch` (magic 2, whole) whose offset delta is less than `below`; None if there is none.

    Offsets, producer, sequence, timestamps and codec stay, and its last offset is the one before the split: whoever
    reads it goes on there. Compaction may have taken records out of the batch.

    :raises RemoteProtocolError: the batch is damaged.
    """
    view = memoryview(batch)
    fields = list(_whole(view))
    attributes, count = fields[5], fields[12]
    records = decompress(attributes & _CODEC, view[_HEADER.size :])
    kept, end = 0, 0
    try:
        for number in range(count):
            length, body = _read_varint(records, end)
            delta, _ = _read_varint(records, _read_varint(records, body + 1)[1])
            if length < 1 or body + length > len(records):
                raise RemoteProtocolError(f"record {number} of {length} bytes at byte {end} of {len(records)}")
            if delta >= below:
                break
            kept, end = kept + 1, body + length
    except IndexError as error:
        raise RemoteProtocolError(f"records end inside a record behind byte {end}") from error
    if not kept:
        return None
    part = compress(attributes & _CODEC, records[:end])
    fields[1], fields[6], fields[12] = _HEADER.size - _SIZED_FROM + len(part), below - 1, kept
    made = bytearray(_HEADER.pack(*fields) + part)
    made[_CRC_FROM - 4 : _CRC_FROM] = google_crc32c.value(bytes(made[_CRC_FROM:])).to_bytes(4, "big")
    return bytes(made)


def _whole(view: memoryview) -> tuple[int, ...]:
    """The fields of a batch's header. :raises RemoteProtocolError: it is not whole, not of magic 2, or damaged."""
    if len(view) < _HEADER.size:
        raise RemoteProtocolError(f"a batch of {len(view)} bytes has no header")
    fields = _HEADER.unpack_from(view)
    length, magic, crc = fields[1], fields[3], fields[4]
    if magic != 2 or len(view) != _SIZED_FROM + length:
        raise RemoteProtocolError(f"a batch of magic {magic} and length {length} in {len(view)} bytes")
    if google_crc32c.value(bytes(view[_CRC_FROM:])) != crc:
        raise RemoteProtocolError("a batch whose checksum does not match its records")
    return fields


def _kept(records: bytes, count: int, first: int, base_time: int) -> tuple[bytes, int]:
    """(the records from `first` on with offset deltas from 0, their largest timestamp)."""
    out = bytearray()
    max_time = -1
    at = 0
    try:
        for number in range(count):
            length, body = _read_varint(records, at)
            end = body + length
            if length < 1 or end > len(records):
                raise RemoteProtocolError(f"record {number} of {length} bytes at byte {at} of {len(records)}")
            if number >= first:
                time_delta, offset_at = _read_varint(records, body + 1)
                delta, rest = _read_varint(records, offset_at)
                if delta != number:
                    raise RemoteProtocolError(f"record {number} has offset delta {delta}")
                moved = records[body:offset_at] + _varint(number - first) + records[rest:end]
                out += _varint(len(moved)) + moved
                max_time = max(max_time, base_time + time_delta)
            at = end
    except IndexError as error:
        raise RemoteProtocolError(f"records end inside a record at byte {at}") from error
    if at != len(records):
        raise RemoteProtocolError(f"{len(records) - at} bytes behind the last of {count} records")
    return bytes(out), max_time


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint of up to 64 bits, and the position behind it. IndexError where the bytes end."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise RemoteProtocolError(f"varint before byte {at} has more than 10 bytes")


def _varint(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)
