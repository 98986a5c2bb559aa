"""Turns a batch of one log into a batch that our own producer appends to another: only its header changes.

Key, value, headers, timestamps, compression and batch boundaries stay. The header changes: the offset and the leader
epoch, outside the checksum, and the producer, its sequence and three bits of the attributes, inside it. The checksum is
updated by arithmetic (`ha_core.wire.checksum`), so the broker still refuses a batch that was corrupt.

Not every batch can be copied like this (`raw`). From a client a broker refuses control batches, formats before 2, and
batches with gaps in their offsets, as compaction leaves them. A batch of a log with LogAppendTime has that time in the
header alone and the producer's times in the records, so the copy would show other timestamps.
"""

from struct import Struct

from ha_core.wire.checksum import crc_after_change
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.records import HEADER_BYTES, Batch

# attributes, last offset delta, timestamps of the first and of the largest record, producer id, epoch, base sequence
_CLAIMED = Struct(">hiqqqhi")
_BEFORE = Struct(">qiibI")  # base offset, length, leader epoch, magic, crc
_CLAIMED_AT = _BEFORE.size
_NO_LEADER_EPOCH = -1

COMPRESSION = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
_KEPT = COMPRESSION
"""Attributes that are kept. Timestamps become CreateTime, and the broker stamps anew if its topic says so; committed
transactional records become ordinary ones; and the copy's own cleaner decides when tombstones may go."""


def raw(batch: Batch) -> bool:
    """True if a broker accepts the batch from a client unchanged, and shows its records with the same timestamps."""
    return (
        batch.magic == 2
        and batch.records_count == batch.last_offset_delta + 1
        and not batch.attributes & (CONTROL | LOG_APPEND_TIME)
    )


def claim(buf: bytearray | memoryview, at: int, producer_id: int, epoch: int, sequence: int) -> None:
    """Gives the whole batch at `at` to this producer, in place, as an idempotent one without a transaction.

    The base offset becomes 0, as brokers expect: they would decompress and repack a compressed batch with another one.

    :raises LocalProtocolError: the batch is not of magic 2, or ends early.
    """
    if len(buf) - at < HEADER_BYTES:
        raise LocalProtocolError(f"{len(buf) - at} bytes are no batch, which has {HEADER_BYTES} before its records")
    _, length, _, magic, crc = _BEFORE.unpack_from(buf, at)
    end = at + 12 + length
    if magic != 2 or end > len(buf) or end < at + HEADER_BYTES:
        raise LocalProtocolError(f"batch of magic {magic} with {length} bytes: it cannot be copied as it is")
    stop = _CLAIMED_AT + _CLAIMED.size
    before = bytes(buf[at + _CLAIMED_AT : at + stop])
    attributes, last_delta, first_ms, largest_ms, *_ = _CLAIMED.unpack(before)
    after = _CLAIMED.pack(attributes & _KEPT, last_delta, first_ms, largest_ms, producer_id, epoch, sequence)
    _BEFORE.pack_into(
        buf, at, 0, length, _NO_LEADER_EPOCH, magic, crc_after_change(crc, before, after, end - at - stop)
    )
    buf[at + _CLAIMED_AT : at + stop] = after
