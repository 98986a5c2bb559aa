"""Reads from copies of mirrors: translates the answer of a copy's broker to client offsets."""

from __future__ import annotations

from typing import NamedTuple

from gateway.session.request import Message
from ha_core.model import Extent
from ha_core.model.extent import Extents
from ha_core.wire import ErrorCode
from ha_core.wire.records import batches, shift_batch


class CopyRead(NamedTuple):
    """Place in a copy from which one partition is read.

    :ivar mirror: the mirror's key.
    :ivar within: the extent of the source that the copy stands for.
    :ivar extents: extents of the copy, from the position on.
    :ivar end: client offset of the copy's end: for the reader the log ends there.
    """

    mirror: str
    cluster: str
    within: Extent
    extents: Extents
    end: int


def translated(entry: Message, read: CopyRead, conclusive: bool) -> Message | None:
    """The partition in client offsets; None: the copy cannot serve the reader, and the source has to.

    :param conclusive: if it is empty, that is because the broker has no records.
    """
    if entry["error_code"] != ErrorCode.NONE:
        return None
    given = entry["records"] or b""
    records = _records(bytearray(given), read.extents)
    if not records and (given or conclusive) and not _cut_off(given):
        return None  # retention or compaction has removed it there
    return {
        "partition_index": entry["partition_index"],
        "error_code": int(ErrorCode.NONE),
        "high_watermark": read.end,
        "last_stable_offset": read.end,
        "log_start_offset": -1,
        "aborted_transactions": [],  # only committed records are copied, outside of transactions
        "preferred_read_replica": -1,
        "records": records,
    }


def _records(buf: bytearray, extents: Extents) -> bytearray:
    """The complete batches within the extents, shifted. Markers of copiers that took over lie between them.

    The batches are moved together in the same buffer: an answer may have megabytes, and nearly always all of it stays.
    """
    kept, left = 0, iter(extents)
    extent = next(left, None)
    for batch in batches(buf, 0, len(buf)):
        while extent is not None and batch.base_offset >= (extent.physical_end or 0):
            extent = next(left, None)
        if extent is None or batch.last_offset >= (extent.physical_end or 0):
            break
        if batch.base_offset >= extent.base:
            shift_batch(buf, batch.at, extent.shift)
            size = batch.end - batch.at
            if kept < batch.at:
                buf[kept : kept + size] = buf[batch.at : batch.end]
            kept += size
        elif batch.last_offset >= extent.base:
            break
    del buf[kept:]
    return buf


def _cut_off(records: bytes | bytearray) -> bool:
    """True if there is not one complete batch: the limits of the fetch were used up."""
    return bool(records) and next(batches(records, 0, len(records)), None) is None
