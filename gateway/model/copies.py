"""Known copies of mirrored topics, and reads from them. Without I/O.

The copying job reports runs: source offsets and their place in the copy. With the topic's map they are extents of the
copy in client offsets (`ha_core/plan/mirror/standby`), so a reader of the copy sees the same offsets as at the source.

Invariants:

- A run never changes. A late report makes readers wait, or read from the source, and has no other effect.
- Records that the source has deleted are not read from its copy: fetches below the source's log start go to the source.
- Reports have a partition's newest runs, all from the first of them on. So there is no record between two of them;
  records below the first are read from the source.
- The absence of a record in a copy proves nothing: if a copy fails, or returns nothing, the source is read.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ha_core.model import CopiedPartition, Extent, Mirror, MirrorCopies, Topic
from ha_core.model.extent import Extents
from ha_core.plan.mirror.held_copies import client_offset
from ha_core.plan.mirror.standby import copied_extents
from ha_core.wire import ErrorCode
from ha_core.wire.records import batches, shift_batch

DOUBTED_S = 5.0
"""A copy that failed a reader is not read for this long."""

CopyKey = tuple[str, int]
"""Key of a mirror, and a partition."""


class ReportedCopy(NamedTuple):
    link: str
    copied: CopiedPartition


class Here(NamedTuple):
    """The copy has the requested record, or there is none below `physical`."""

    physical: int
    extents: Extents
    """Extents of the copy that may be read from there on."""


class Later(NamedTuple):
    """The copy has not reached the offset yet."""

    end: int
    """Log end for the reader; -1: it lies below the reader's position."""


class KnownCopy(NamedTuple):
    """Known state of a partition's copy, in client offsets.

    :ivar mirror: the mirror's key.
    :ivar cluster: the copy's cluster.
    :ivar extents: in the copy, ascending, all of them closed; at least one.
    :ivar known_below: below it, the source has no committed record that these do not hold.
    :ivar level: True if a reader ahead of it need not wait for long.
    :ivar start: the source has deleted all records below this client offset.
    """

    mirror: str
    cluster: str
    extents: Extents
    known_below: int
    level: bool
    start: int = 0

    @property
    def end(self) -> int:
        """Above the last record."""
        return self.extents[-1].end or 0

    def find(self, within: Extent, offset: int) -> Here | Later | None:
        """None: the copy cannot answer.

        :param within: the extent of the source from which client offset `offset` would be read.
        """
        # Between two extents of the source may be one of another cluster, which readers must not skip.
        end = within.end
        there = tuple(
            extent
            for extent in self.extents
            if (extent.end or 0) > within.start and (end is None or extent.start < end)
        )
        if not there or offset < max(there[0].start, self.start):
            return None
        left = tuple(extent for extent in there if (extent.end or 0) > offset)
        if left:
            return Here(left[0].to_physical(max(offset, left[0].start)), left)
        return None if end is not None else Later(offset if offset <= self.known_below else -1)


class _Translated(NamedTuple):
    report: ReportedCopy
    extents: Extents
    copy: KnownCopy | None


class Copies:
    """Copies of all mirrors; used on the event loop only."""

    def __init__(self) -> None:
        self._reports: Mapping[CopyKey, ReportedCopy] = {}
        self._known: dict[CopyKey, _Translated] = {}
        self._doubted: dict[CopyKey, float] = {}

    @property
    def reports(self) -> Mapping[CopyKey, ReportedCopy]:
        return self._reports

    def learn(self, reports: Mapping[CopyKey, ReportedCopy]) -> None:
        """Replaces all reports, as made by `merged_reports`."""
        self._reports = reports
        self._known = {key: known for key, known in self._known.items() if reports.get(key) is known.report}

    def of(self, mirror: Mirror, topic: Topic, partition: int, now: float) -> KnownCopy | None:
        """Copy of a partition that `mirror` makes, for readers."""
        key = mirror.key, partition
        report = self._reports.get(key)
        if report is None or report.link != mirror.link or topic.damaged(partition):
            return None
        if self._doubted and now < self._doubted.get(key, now):
            return None
        extents = topic.extents(partition)
        known = self._known.get(key)
        if known is None or known.report is not report or known.extents != extents:
            known = self._known[key] = _Translated(report, extents, _known(mirror, extents, report.copied))
        return known.copy

    def doubt(self, mirror: str, partition: int, now: float) -> None:
        """The copy has failed a reader."""
        if len(self._doubted) >= 10_000:
            self._doubted.clear()
        self._doubted[mirror, partition] = now + DOUBTED_S


def merged_reports(
    documents: Iterable[MirrorCopies], before: Mapping[CopyKey, ReportedCopy]
) -> dict[CopyKey, ReportedCopy]:
    """Reports of all tasks, merged; entries that are unchanged since `before` are the same objects.

    While a partition moves between tasks, two report it: the one that is further counts.
    """
    copies: dict[CopyKey, ReportedCopy] = {}
    for document in documents:
        for copied_mirror in document.mirrors:
            for partition, copied in copied_mirror.partitions.items():
                key = copied_mirror.mirror, partition
                other = copies.get(key)
                if other is None or other.link != copied_mirror.link or other.copied.end < copied.end:
                    copies[key] = ReportedCopy(copied_mirror.link, copied)
    return {key: was if (was := before.get(key)) == report else report for key, report in copies.items()}


def _known(mirror: Mirror, extents: Extents, copied_partition: CopiedPartition) -> KnownCopy | None:
    current = extents[-1] if extents else None
    if current is None or current.end is not None or current.cluster != mirror.source:
        return None
    try:
        copied = copied_extents(extents, mirror.source, mirror.target, copied_partition.runs)
    except ValueError:
        return None  # no copier reports this
    if not copied:
        return None
    end = current.extrapolate(copied_partition.end)
    start = client_offset(extents, mirror.source, copied_partition.start or 0)
    return KnownCopy(mirror.key, mirror.target, copied, end, copied_partition.level, start)


# -- answers of a copy's broker --------------------------------------------------------------------------------------


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


def translated(entry: Mapping[str, Any], read: CopyRead, conclusive: bool) -> dict[str, Any] | None:
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
