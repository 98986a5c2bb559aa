"""Repoints a mirror: its source is no longer the writer, another copy of that source is. No I/O.

A topic of `S` has copies in `T` and `O`, and `T` becomes the writer. The mirror in `O` continues from `T`, from the
offset that it has reached: records that are in both copies are known from the runs of the two mirrors, which have the
offsets of `S` in common. Composed they are the runs from `T` to `O`, with which the new copier begins.

```
 S    0 ─────────────── 40 ────── 60        runs S → T, S → O
 T    0 ──── 38 ─ marker ─ 39 ─── 61        composed: T → O
 O    0 ───────── 39                        next: the offset of T with the first record that O lacks
```

Invariants:

- *Nothing is copied twice.* `O` has all committed records of `S` below its progress, and `T` has all below its own. So
  the records of `T` from `next_offset` on are exactly those that `O` lacks.
- *Nothing is mixed.* A record of `S` above the progress of `T` is a record that no client gets (a forced switch lost
  it). A copy that has one has a *surplus*, and is not repointed: below new records it would stay for ever, at an offset
  that the writer gives to another record.
- *No run changes its record.* Each composed run is the intersection of two runs.

Records of `T` outside of all runs (a lost tail of an earlier stay, records above the good part of a damaged copy) may
be copied if they lie above the offset that `O` has reached. No map leads to them in `T`, so none leads to them in `O`.
Records of `O` outside of the composed runs are its own (`Progress.base`), as in a reversed mirror
(`ha_core.mirror.reversing`).
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ha_core.mirror.progress import CopyDamagedError, Progress, ProgressBuilder, RunPage, TopicIds, Writer
from ha_core.model import Run
from ha_core.model.mirror import copied_between


class CopyState(NamedTuple):
    """How far a copy is, and all runs that its mirror ever had, oldest first."""

    progress: Progress
    runs: tuple[Run, ...]


def composed(there: Sequence[Run], here: Sequence[Run]) -> Iterator[Run]:
    """The runs from the copy of `there` to the copy of `here`: records that are in both.

    :param there: ascending, of one source; likewise `here`, of the same source.
    """
    last: Run | None = None
    at = 0
    for one in there:
        while at < len(here) and here[at].after <= one.source:
            at += 1
        for index in range(at, len(here)):
            other = here[index]
            low, high = max(one.source, other.source), min(one.after, other.after)
            if low >= high:
                break
            run = Run(one.target + low - one.source, other.target + low - other.source, high - low)
            if last is not None and (last.after, last.target + last.records) == (run.source, run.target):
                last = Run(last.source, last.target, last.records + run.records)
                continue
            if last is not None:
                yield last
            last = run
    if last is not None:
        yield last


def next_offset(runs: Sequence[Run], source: int, base: int) -> int:
    """The offset in a copy of its first record at or above source offset `source`.

    :param runs: of the copy, ascending.
    :param base: offset above all of them; the result if there is no such record.
    """
    at = bisect_right(runs, source, key=lambda run: run.after)
    return base if at == len(runs) else runs[at].target + max(0, source - runs[at].source)


class CopySurplus(NamedTuple):
    """Records of a copy that the new writer lacks.

    :ivar offset: of the first one, in the copy.
    """

    records: int
    offset: int


def surplus(writer: CopyState, other: CopyState) -> CopySurplus | None:
    """
    :param writer: the copy that becomes the writer.
    :return: None: there are none.
    """
    end = writer.progress.source
    records = copied_between(other.runs, end, other.runs[-1].after) if other.runs else 0
    return CopySurplus(records, next_offset(other.runs, end, 0)) if records else None


def only_in(writer: CopyState, other: CopyState) -> int:
    """Number of records of `other` that the writer's runs do not have, at any offset. Compaction may have removed them
    from their source before the writer's copier came there."""
    both = sum(run.records for run in composed(writer.runs, other.runs))
    return sum(run.records for run in other.runs) - both


def require_one_source(writer: Progress, other: Progress) -> None:
    """:raises CopyDamagedError: they are copies of different topics."""
    ids = writer.topics.source, other.topics.source
    if all(ids) and len({*ids}) > 1:
        raise CopyDamagedError(
            f"it is a copy of the topic with id {ids[1]}, and the new writer one of that with id {ids[0]}: their "
            "source was deleted and re-created between the two"
        )


def repointed_notes(
    writer: CopyState, other: CopyState, base: int, copier: Writer, end: int
) -> tuple[tuple[RunPage, ...], Progress]:
    """The first notes of the repointed mirror's copier, in this order, before it copies anything.

    :param writer: the copy that became the writer, with its own records from offset `base` on.
    :param other: the copy of the mirror that is repointed, which has no surplus.
    :param copier: has fenced that copy; its marker is just below `end`.
    """
    at = next_offset(writer.runs, other.progress.source, base)
    progress = Progress(
        copier,
        source=at,
        target=end,
        runs=tuple(composed(writer.runs, other.runs)),
        topics=TopicIds(writer.progress.topics.target, other.progress.topics.target),
        base=end,
        source_base=at,
    )
    return ProgressBuilder(progress).notes()
