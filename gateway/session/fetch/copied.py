"""Reads from the copies of mirrors: what a broker of the copy answers, in client offsets."""

from __future__ import annotations

from typing import NamedTuple

from gateway.session.request import Message
from ha_core.model import Extent
from ha_core.model.extent import Extents
from ha_core.wire import ErrorCode
from ha_core.wire.records import batches, shift_batch


class CopyRead(NamedTuple):
    """Where one partition is read in a copy.

    :ivar mirror: its key.
    :ivar within: the extent of the source that it is read in place of.
    :ivar extents: of the copy, from where it is read on.
    :ivar end: client offset of what is copied: to the reader the log ends there.
    """

    mirror: str
    cluster: str
    within: Extent
    extents: Extents
    end: int


def translated(entry: Message, read: CopyRead, conclusive: bool) -> Message | None:
    """The partition in client offsets; None: the copy fails the reader, who is to be served from the source.

    :param conclusive: if it is empty, that is because the broker has nothing to give.
    """
    if entry["error_code"] != ErrorCode.NONE:
        return None
    given = entry["records"] or b""
    records = _records(bytearray(given), read.extents)
    if not records and (given or conclusive) and not _cut_off(given):
        return None  # retention or compaction has taken it there
    return {
        "partition_index": entry["partition_index"],
        "error_code": int(ErrorCode.NONE),
        "high_watermark": read.end,
        "last_stable_offset": read.end,
        "log_start_offset": -1,
        "aborted_transactions": [],  # only what was committed is copied, outside of transactions
        "preferred_read_replica": -1,
        "records": records,
    }


def _records(buf: bytearray, extents: Extents) -> bytearray:
    """The whole batches that lie in the extents, shifted. Between them are markers of copiers that took over.

    What is kept closes up in the buffer itself: an answer may have megabytes, and nearly always all of it stays.
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
    """Whether there is not even one whole batch: the limits of the fetch were used up."""
    return bool(records) and next(batches(records, 0, len(records)), None) is None
