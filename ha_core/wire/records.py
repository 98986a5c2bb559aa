"""Walks and patches record batches in place, without reading the records in them.

A batch of magic 2 begins with base offset (8 bytes), length of the rest (4), partition leader epoch (4), magic (1),
CRC-32C (4) of everything after it. So offset and epoch can change without the checksum, the producer id cannot. In
magic 0 and 1 every message, or compressed wrapper of messages, has an offset, a length and a CRC of the rest. A broker
may cut the last batch of an answer anywhere; readers drop it.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Any, NamedTuple

from ha_core.wire.checksum import crc_after_change
from ha_core.wire.errors import LocalProtocolError, RemoteProtocolError

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, timestamp of the first record, (largest
# timestamp), producer id, epoch, base sequence, count of records
_V2 = Struct(">qiibIhiq8xqhii")
_PREFIX = Struct(">qiibB")  # the part of all magics that is needed to patch them
_SHIFTED = Struct(">qii")
_LONG = Struct(">q")
_UINT = Struct(">I")

PREFIX_BYTES = _PREFIX.size
HEADER_BYTES = _V2.size
"""Header of a batch of magic 2: everything before its records."""
_SIZED_FROM = 12  # the length counts from here
_MIN_V2 = HEADER_BYTES - _SIZED_FROM
_MIN_LEGACY = 14
_CRC_AT, _PRODUCER_AT = 17, 43
_MAX_OFFSET = (1 << 63) - 1
_COMPRESSION = 0b111
IN_TRANSACTION = 0b1_0000
"""Bit of a batch's attributes."""


class Batch(NamedTuple):
    """A whole batch, from position `at` to `end`. In magic 0 and 1 fields that only v2 has are -1, last_offset_delta
    0."""

    at: int
    base_offset: int
    magic: int
    attributes: int
    last_offset_delta: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int
    end: int
    base_timestamp: int = -1
    """Timestamp of the first record in milliseconds: the producer's, or the broker's if the topic is configured so."""

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta


def batches(buf: Any, pos: int, end: int) -> Iterator[Batch]:
    """The whole batches from `pos` on, without one cut off at `end`. RemoteProtocolError for an impossible one."""
    while end - pos >= PREFIX_BYTES:
        base, length, _, magic, attributes = _PREFIX.unpack_from(buf, pos)
        _check(length, magic, pos)
        after = pos + _SIZED_FROM + length
        if after > end:
            return
        if magic == 2:
            _, _, _, _, _, attributes, delta, time, producer, epoch, sequence, count = _V2.unpack_from(buf, pos)
            if delta < 0 or count < 0:
                raise RemoteProtocolError(f"batch at byte {pos}: last offset delta {delta}, {count} records")
            yield Batch(pos, base, magic, attributes, delta, producer, epoch, sequence, count, after, time)
        else:
            yield Batch(pos, base, magic, attributes, 0, -1, -1, -1, -1, after)
        pos = after


def _check(length: int, magic: int, pos: int) -> None:
    if not 0 <= magic <= 2:
        raise RemoteProtocolError(f"batch at byte {pos}: magic {magic}, 0 to 2 are known")
    if length < (_MIN_V2 if magic == 2 else _MIN_LEGACY):
        raise RemoteProtocolError(f"batch at byte {pos}: length {length} is less than the header of magic {magic}")


def shift_batch(buf: Any, pos: int, delta: int) -> int:
    """Adds `delta` to the offset of the batch at `pos`, of which PREFIX_BYTES bytes must be there; returns its size.

    Magic 2 loses its leader epoch: clients adopt it as the partition's, and epochs of two clusters are not comparable.
    A compressed wrapper of magic 1 has relative offsets inside, so only its own changes; in magic 0 the offsets inside
    are absolute and compressed: RemoteProtocolError, as for an offset out of range.
    """
    base, length, _, magic, attributes = _PREFIX.unpack_from(buf, pos)
    if magic != 2 or length < _MIN_V2:
        _check(length, magic, pos)
        if magic == 0 and attributes & _COMPRESSION:
            raise RemoteProtocolError(f"compressed message of magic 0 at byte {pos}: its offsets cannot be shifted")
    shifted = base + delta
    if not 0 <= shifted <= _MAX_OFFSET:
        raise RemoteProtocolError(f"batch at byte {pos}: offset {base} shifted by {delta} is out of range")
    if magic == 2:
        _SHIFTED.pack_into(buf, pos, shifted, length, -1)
    else:
        _LONG.pack_into(buf, pos, shifted)
    return int(length) + _SIZED_FROM


def shift_batches(buf: bytearray | memoryview, pos: int, end: int, delta: int) -> int:
    """`shift_batch` for all from `pos` to `end`; returns their number.

    A last batch that is cut off is shifted too if its first PREFIX_BYTES bytes are there; a shorter rest stays.
    """
    count = 0
    while end - pos >= PREFIX_BYTES:
        pos += shift_batch(buf, pos, delta)
        count += 1
    return count


def shift_all(buf: bytearray, pos: int, end: int, delta: int) -> bool:
    """Like `shift_batches`, if all are of magic 2 and stay in range. False: nothing was changed."""
    shifted: list[tuple[int, int, int]] = []
    while end - pos >= PREFIX_BYTES:
        base, length, _, magic, _ = _PREFIX.unpack_from(buf, pos)
        if magic != 2 or length < _MIN_V2 or not 0 <= base + delta <= _MAX_OFFSET:
            return False
        shifted += ((pos, base + delta, length),)
        pos += length + _SIZED_FROM
    for at, base, length in shifted:
        _SHIFTED.pack_into(buf, at, base, length, -1)
    return True


def rewrite_producer_id(buf: bytearray | memoryview, at: int, new_id: int) -> bool:
    """Replaces the producer id of the batch at `at` and updates the checksum; True if it was done.

    Only its first HEADER_BYTES bytes have to be there. A batch with a wrong checksum keeps a wrong one: the broker must
    still detect it (`checksum`). False leaves every byte as it is: for a batch that is not of magic 2, and one without
    a producer id. LocalProtocolError for an id below 0 or too big.
    """
    if not 0 <= new_id <= _MAX_OFFSET:
        raise LocalProtocolError(f"producer id {new_id}: 0 to {_MAX_OFFSET} can be written")
    if len(buf) - at < HEADER_BYTES:
        return False
    _, length, _, magic, crc, _, _, _, producer_id, *_ = _V2.unpack_from(buf, at)
    if magic != 2 or length < _MIN_V2 or producer_id < 0:
        return False
    following = _SIZED_FROM + length - _PRODUCER_AT - _LONG.size
    changed = crc_after_change(crc & 0xFFFF_FFFF, _LONG.pack(producer_id), _LONG.pack(new_id), following)
    _UINT.pack_into(buf, at + _CRC_AT, changed)
    _LONG.pack_into(buf, at + _PRODUCER_AT, new_id)
    return True


def first_batch(buf: Any, pos: int, end: int, stop: int) -> Batch | None:
    """The batch at `pos` if its header is there, before `end`, and it is the only one before `stop`; else None."""
    if end - pos < HEADER_BYTES or buf[pos + 16] != 2:
        return None
    base, length, _, magic, _, attributes, last, time, producer, epoch, sequence, count = _V2.unpack_from(buf, pos)
    if pos + _SIZED_FROM + length != stop:
        return None
    return Batch(pos, base, magic, attributes, last, producer, epoch, sequence, count, stop, time)


def trim(buf: Any, pos: int, end: int, limit_offset: int) -> int:
    """Returns the new end: drops batches, including incomplete ones, that do not end below the limit.

    A batch that spans the limit is dropped whole: a cut inside a batch leaves all of it to the other side. The offset
    of a compressed message of magic 0 or 1 is that of its last record.
    """
    for batch in batches(buf, pos, end):
        if batch.last_offset >= limit_offset:
            return batch.at
        pos = batch.end
    if end - pos >= _LONG.size and _LONG.unpack_from(buf, pos)[0] >= limit_offset:
        return pos
    return end
