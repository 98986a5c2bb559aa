"""The map of a partition whose writer changes to the cluster of its copy: readers get copied records from the copy.

The origin's extents map client offsets to the origin's offsets, and the mirror's runs map these to the copy's. Composed
they are extents of the target: closed *copied* ones, with the writer epochs in which their records were written. A gap
between two runs is a hole, as in the origin.

Invariants:

- No client offset changes its record: each copied extent is the intersection of an extent and a run.
- The origin keeps copied records that the map has no room for: only a bounded number of copied extents is kept, the
  newest, and below the first of them the origin's own extents stay, closed where it begins. So a source with a million
  gaps makes no map that exceeds ZooKeeper's limit, and loses nothing. The origin's extents also stay unless the runs
  are known to be complete.
- The origin also keeps records that the copy has deleted: a run means that they were copied, not that they are still
  there. By the copy's log start alone, readers would skip records that the origin has.
- Records of the origin at and above the cut, or above the last run, are in no extent: they are never read.
- Records that the origin has deleted, below its log start, are in no copied extent, although the copy may have them:
  *earliest* never moves back. For a dead origin the last known log start counts, or the offset below which a deletion
  was confirmed to clients (`DeletedRecords`), whichever is higher.
"""

from collections.abc import Iterable, Iterator, Sequence

from ha_core.model import Extent, LostTail, Run
from ha_core.model.extent import Extents, check, log_start, open_extent
from ha_core.model.producer import MAX_WRITER_EPOCH

MAX_COPIED_EXTENTS = 2000
"""Per partition. They compress to some ten bytes each."""


def copied_extents(
    extents: Sequence[Extent],
    source: str,
    target: str,
    runs: Sequence[Run],
    max_extents: int | None = None,
    source_start: int = 0,
) -> Extents:
    """The copied part of `extents`, as extents of the copy.

    :param extents: of a partition of the mirror's source; those of other clusters are ignored.
    :param runs: in offsets of `source` and `target`, ascending.
    :param max_extents: number of extents, the newest. Older runs are not read: clients may wait, and there may be
        millions.
    :param source_start: log start of the source; copied records below it count as deleted.
    :raises ValueError: runs do not ascend.
    """
    found = list[Extent]()  # newest first
    for part in _overlaps([extent for extent in extents if extent.cluster == source], runs, target, source_start):
        later = found[-1] if found else None
        # Two runs touch if a takeover came between them and compaction deleted its marker; two extents touch if an
        # extent between them has aged.
        if later is not None and (part.end, part.physical_end, part.writer_epoch) == (
            later.start,
            later.base,
            later.writer_epoch,
        ):
            found[-1] = later.changed(start=part.start, base=part.base)
        elif len(found) == max_extents:
            break
        else:
            found.append(part)
    return tuple(reversed(found))


def switched(
    extents: Extents,
    source: str,
    target: str,
    runs: Sequence[Run],
    at: int,
    base: int,
    max_extents: int = MAX_COPIED_EXTENTS,
    *,
    whole: bool,
    source_start: int = 0,
    copy_start: int = 0,
    deleted_below: int = 0,
) -> Extents:
    """The map after the cut at `at`: the copy, and the open extent of `target`, whose log ends at `base`.

    :param max_extents: copied extents to keep.
    :param whole: `runs` are all that the mirror ever had, so the source has no record below the first one.
    :param source_start: known log start of `source`.
    :param copy_start: log start of `target`.
    :param deleted_below: client offset below which a deletion was confirmed to clients, even if logs still have more.
    :raises ValueError: `source` is not the writer; the cut is below copied records, or the copy's log ends below them;
        writer epochs are used up.
    """
    current = open_extent(extents)
    if current.cluster != source:
        raise ValueError(f"{current.cluster} is the writer, and a mirror of {source} has none of its records")
    if current.writer_epoch >= MAX_WRITER_EPOCH:
        raise ValueError(
            f"the partition has changed its writer {current.writer_epoch} times, the most that can be counted"
        )
    deleted = log_start(extents, source, deleted_below)
    copied = copied_extents(extents, source, target, runs, max_extents + 1, max(source_start, deleted))
    if copied and not (copied[-1].end or 0) <= at:
        raise ValueError(f"the cut {at} is below {copied[-1].end}, up to which records are copied")
    if copied and not (copied[-1].physical_end or 0) <= base:
        raise ValueError(f"the copy ends at {base}, but by its runs its records end at {copied[-1].physical_end}")
    kept = tuple(_above(copied[max(0, len(copied) - max_extents) :], copy_start))
    if at < current.start:
        raise ValueError(f"the cut {at} is below {current.start}, where the stay in {source} began")
    # Other clusters' extents, such as the target's from an earlier switch of a source with too many gaps, stay.
    elsewhere = [one for one in extents if one.cluster != source]
    own = [one for one in extents if one.cluster == source] if not whole or kept != copied else []
    until = next((one.start for one in kept), (copied[-1].end or at) if copied else at)
    older = _starting_at(_below(own, until), deleted)
    below = sorted((*elsewhere, *older, *kept), key=lambda extent: extent.start)
    return (*below, Extent(cluster=target, start=at, end=None, base=base, writer_epoch=current.writer_epoch + 1))


def regained(before: Extents, tail: LostTail, partition: int, log_end: int, deleted_below: int = 0) -> Extents:
    """The map of a partition that returns, by force, to the cluster that its writer had left by force, before its
    mirror was reversed: readers get mirrored records from their source, no longer from the copy, which is dead. Records
    beyond, the lost tail, stay lost.

    :param tail: of that cluster, left by the move of the partition to its copy.
    :param log_end: log end in that cluster.
    :param deleted_below: client offset below which records were deleted in the copy; this log may still have them.
    :return: `before`, if the map has changed since that move, or the log may lack mirrored records.
    """
    part, opened = tail.partitions.get(partition), open_extent(before)
    if part is None or not part.below or opened.cluster != tail.target:
        return before
    if log_end < part.mirrored or part.differs_at is not None:
        return before
    first = part.below[0].start
    copied = [
        extent for extent in before[:-1] if extent.copied and extent.cluster == tail.target and extent.start >= first
    ]
    if not copied or (copied[-1].end or 0) > part.client:
        return before
    at = copied[0].start
    own = [_from(extent, at) for extent in part.below if extent.end is not None and extent.end > at]
    others = [extent for extent in before if extent not in copied]
    # The cluster may have kept the beginning of the first stay: join both, since a stay is one extent.
    for older in others:
        if own and _goes_on(older, own[0]):
            others.remove(older)
            own[0] = own[0].changed(start=older.start, base=older.base)
            break
    ours = [*own, *(extent for extent in others if extent.cluster == tail.cluster and extent.end is not None)]
    others = [extent for extent in others if extent not in ours]
    kept = _starting_at(ours, log_start(ours, tail.cluster, deleted_below))
    after = tuple(sorted((*others, *kept), key=lambda extent: extent.start))
    return before if check(after) else after


def _goes_on(older: Extent, extent: Extent) -> bool:
    """Whether both are of one stay, and the older one ends where the other begins."""
    ends = older.cluster, older.writer_epoch, older.end, older.physical_end
    return ends == (extent.cluster, extent.writer_epoch, extent.start, extent.base)


def _from(extent: Extent, at: int) -> Extent:
    return extent if extent.start >= at else extent.changed(start=at, base=extent.to_physical(at))


def _overlaps(extents: Sequence[Extent], runs: Sequence[Run], target: str, source_start: int) -> Iterator[Extent]:
    """Overlaps of extents and runs, newest first. Both ascend by source offsets, so one pass backwards finds them."""
    at = len(runs) - 1
    for extent in reversed(extents):
        end = extent.physical_end
        while at >= 0 and end is not None and runs[at].source >= end:
            at -= 1
        while at >= 0 and runs[at].after > max(extent.base, source_start):
            run = runs[at]
            if at:
                _require_ascending(runs[at - 1], run)
            low, high = max(extent.base, run.source, source_start), run.after if end is None else min(end, run.after)
            if low < high:
                yield Extent(
                    cluster=target,
                    start=extent.extrapolate(low),
                    end=extent.extrapolate(high),
                    base=run.target + low - run.source,
                    writer_epoch=extent.writer_epoch,
                    copied=True,
                )
            if run.source < extent.base:
                break  # the first run of this extent may begin in the one before
            at -= 1


def _above(copied: Iterable[Extent], start: int) -> Iterator[Extent]:
    """The parts of `copied` at and above the copy's log start `start`."""
    for extent in copied:
        if (extent.physical_end or 0) > start:
            yield _from(extent, max(extent.start, extent.extrapolate(start)))


def _below(extents: Iterable[Extent], at: int) -> Iterator[Extent]:
    """The parts of `extents` below client offset `at`, closed there."""
    for extent in extents:
        if extent.start < at:
            yield extent if extent.end is not None and extent.end <= at else extent.changed(end=at)


def _starting_at(extents: Iterable[Extent], start: int) -> Iterator[Extent]:
    """The parts of `extents`, all closed and of one cluster, at and above its offset `start`."""
    for extent in extents:
        if (extent.physical_end or 0) > start:
            above = extent.base >= start
            yield extent if above else extent.changed(start=extent.extrapolate(start), base=start)


def _require_ascending(before: Run, run: Run) -> None:
    if run.source < before.after or run.target < before.target + before.records:
        raise ValueError(f"the run from {run.source} on begins below {before.after}, the end of the run before it")
