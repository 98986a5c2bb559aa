"""A batch of one log, made one that our own producer appends to another: the header changes, no record is read.

Key, value, headers, timestamps, compression and batch boundaries stay. What changes lies in the header: the offset and
the leader epoch, outside the checksum, and the producer, its sequence and three bits of the attributes, inside it. The
checksum follows by arithmetic (`ha_core.wire.checksum`), so a batch that was corrupt is refused by the broker.

Not every batch can go like this (`raw`). A broker takes from a client no control batch, no format before 2, and no
batch whose offsets have gaps, as compaction leaves them. A batch of a log with LogAppendTime keeps the time of its
append in the header alone and what its producer said in the records, so that the copy would show another time.
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
"""Of the attributes. The time is CreateTime for the broker, which stamps anew where its topic says so; a committed
transaction's records are ordinary ones; and when tombstones may go the copy's own cleaner finds out."""


def raw(batch: Batch) -> bool:
    """Whether a broker takes the batch from a client as it is, and shows its records with the times that they have."""
    return (
        batch.magic == 2
        and batch.records_count == batch.last_offset_delta + 1
        and not batch.attributes & (CONTROL | LOG_APPEND_TIME)
    )


def claim(buf: bytearray | memoryview, at: int, producer_id: int, epoch: int, sequence: int) -> None:
    """Makes the whole batch at `at` one of this producer, in place: an idempotent one without a transaction.

    The base offset becomes 0: a broker counts from there, and would unpack and pack a compressed batch of any other.

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
