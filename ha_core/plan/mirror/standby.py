"""The map of a partition whose writer changes to the cluster of its copy: what was copied is read from the copy.

The origin's extents say which offset of the origin a client offset is, the runs of the mirror which offset of the copy
that is. Composed they are extents of the target: *copied* ones, closed, of the terms in which their records were
written. A gap between two runs is a hole, as it was in the origin.

Invariants:

- No client offset changes its record: each copied extent is the part of an extent and of a run that both have.
- What the copy has and the map has no room for stays the origin's: at most so many copied extents are kept, the newest,
  and below the first of them the origin's own extents stay, closed where it begins. A source with a million gaps makes
  no map that ZooKeeper could not hold, and loses nothing by it. They stay as well unless the runs are known to be all
  that there are.
- Records that the copy has deleted stay the origin's in the same way: a run says what was copied, and not that it is
  still there. Judged by the copy's log start alone, readers would skip records that the origin has.
- What the origin has at and above the cut, or above the last run, is in no extent: nobody ever reads it.
- What the origin has deleted, below its log's start, is in no copied extent, although the copy may have it: *earliest*
  never moves back. For a dead origin the last known log start counts, or the offset below which clients were told
  that all is deleted (`DeletedRecords`), whichever is higher.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ha_core.model import Extent, LostTail, Run
from ha_core.model.extent import Extents, check, live, log_start
from ha_core.model.producer import MAX_TERM

MAX_COPIED_EXTENTS = 2000
"""Of a partition. They compress to some ten bytes each."""


def copied_extents(
    extents: Sequence[Extent],
    source: str,
    target: str,
    runs: Sequence[Run],
    most: int | None = None,
    source_start: int = 0,
) -> Extents:
    """What of `extents` the copy has, as extents of it.

    :param extents: of a partition of the mirror's source; those of other clusters have no part in it.
    :param runs: in offsets of `source` and `target`, ascending.
    :param most: so many, the newest. Older runs are not looked at: clients may wait, and there may be millions.
    :param source_start: where the source's log starts; the copy of what lies below it was deleted with it.
    :raises ValueError: runs do not ascend.
    """
    found = list[Extent]()  # the newest first
    for part in _overlaps([one for one in extents if one.cluster == source], runs, target, source_start):
        later = found[-1] if found else None
        # Two runs touch where a copier was taken over between them and compaction took the marker; extents, where an
        # extent that was between them has aged.
        if later is not None and (part.end, part.physical_end, part.term) == (later.start, later.base, later.term):
            found[-1] = later.changed(start=part.start, base=part.base)
        elif len(found) == most:
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
    most: int = MAX_COPIED_EXTENTS,
    *,
    whole: bool,
    source_start: int = 0,
    copy_start: int = 0,
    deleted_below: int = 0,
) -> Extents:
    """The map behind the cut at `at`: the copy, and the open extent of `target`, whose log ends at `base`.

    :param most: copied extents that are kept.
    :param whole: `runs` are all that the mirror ever had, so the source has nothing below the first one.
    :param source_start: where the log of `source` starts, as far as is known.
    :param copy_start: where the log of `target` starts.
    :param deleted_below: client offset below which clients were told that all is deleted, whatever the logs have.
    :raises ValueError: `source` is not the writer; the cut lies below what is copied, or the copy's log ends below it;
        terms are used up.
    """
    current = live(extents)
    if current.cluster != source:
        raise ValueError(f"{current.cluster} is the writer, and no mirror of {source} has what it writes")
    if current.term >= MAX_TERM:
        raise ValueError(f"the partition has changed its writer {current.term} times, the most that can be counted")
    deleted = log_start(extents, source, deleted_below)
    copied = copied_extents(extents, source, target, runs, most + 1, max(source_start, deleted))
    if copied and not (copied[-1].end or 0) <= at:
        raise ValueError(f"the cut {at} lies below {copied[-1].end}, up to which records are copied")
    if copied and not (copied[-1].physical_end or 0) <= base:
        raise ValueError(f"the copy ends at {base}, and its records are said to end at {copied[-1].physical_end}")
    kept = tuple(_above(copied[max(0, len(copied) - most) :], copy_start))
    if at < current.start:
        raise ValueError(f"the cut {at} lies below {current.start}, where the stay in {source} began")
    # Of an earlier switch of a source with too many gaps: these lie in the target, and in its map, as they did.
    elsewhere = [one for one in extents if one.cluster != source]
    own = [one for one in extents if one.cluster == source] if not whole or kept != copied else []
    until = next((one.start for one in kept), (copied[-1].end or at) if copied else at)
    older = _starting_at(_below(own, until), deleted)
    below = sorted((*elsewhere, *older, *kept), key=lambda one: one.start)
    return (*below, Extent(cluster=target, start=at, end=None, base=base, term=current.term + 1))


def regained(before: Extents, tail: LostTail, partition: int, log_end: int, deleted_below: int = 0) -> Extents:
    """The map of a partition that is to go on, by force, in the cluster that its writer had left by force, before
    anybody turned its mirror round: what was mirrored is read where it came from, and no longer in the copy, which is
    dead. What lies beyond, the lost tail, stays lost.

    :param tail: of that cluster, left by the move that led the partition to its copy.
    :param log_end: of the cluster's log.
    :param deleted_below: client offset: records below it were deleted in the copy, and this log may still have them.
    :return: `before`, where the map has changed since that move, or the log is not known to have what was mirrored.
    """
    part, opened = tail.partitions.get(partition), live(before)
    if part is None or not part.below or opened.cluster != tail.target:
        return before
    if log_end < part.mirrored or part.differs_at is not None:
        return before
    first = part.below[0].start
    copied = [one for one in before[:-1] if one.copied and one.cluster == tail.target and one.start >= first]
    if not copied or (copied[-1].end or 0) > part.client:
        return before
    at = copied[0].start
    own = [_from(one, at) for one in part.below if one.end is not None and one.end > at]
    others = [one for one in before if one not in copied]
    # The beginning of the first stay may have been left to the cluster: join both, since a stay is one extent.
    for older in others:
        if own and _goes_on(older, own[0]):
            others.remove(older)
            own[0] = own[0].changed(start=older.start, base=older.base)
            break
    ours = [*own, *(one for one in others if one.cluster == tail.cluster and one.end is not None)]
    others = [one for one in others if one not in ours]
    kept = _starting_at(ours, log_start(ours, tail.cluster, deleted_below))
    after = tuple(sorted((*others, *kept), key=lambda one: one.start))
    return before if check(after) else after


def _goes_on(older: Extent, extent: Extent) -> bool:
    """Whether both belong to one stay, and the older one ends where the other begins."""
    ends = older.cluster, older.term, older.end, older.physical_end
    return ends == (extent.cluster, extent.term, extent.start, extent.base)


def _from(extent: Extent, at: int) -> Extent:
    return extent if extent.start >= at else extent.changed(start=at, base=extent.to_physical(at))


def _overlaps(extents: Sequence[Extent], runs: Sequence[Run], target: str, source_start: int) -> Iterator[Extent]:
    """From the newest on. Both ascend by the source's offsets, so both are gone through once, backwards."""
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
                    term=extent.term,
                    copied=True,
                )
            if run.source < extent.base:
                break  # the first run of this extent may begin in the one before
            at -= 1


def _above(copied: Iterable[Extent], start: int) -> Iterator[Extent]:
    """The parts of `copied` that a copy has whose log starts at `start`."""
    for extent in copied:
        if (extent.physical_end or 0) > start:
            yield _from(extent, max(extent.start, extent.extrapolate(start)))


def _below(extents: Iterable[Extent], at: int) -> Iterator[Extent]:
    """What of them lies below client offset `at`, closed there."""
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
        raise ValueError(f"the run from {run.source} on lies below the end of the one before it, {before.after}")
