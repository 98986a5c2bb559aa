"""Translates a group's offset in the source into one in the target.

Two maps exist. The *exact* map is the runs of a copy (`ha_core.model.Run`), which our copier keeps: it has the offset
of every record. The *sampled* map is the offset syncs that MirrorMaker 2 writes every so many records: between two
syncs it knows only the order of records.

Invariant of both: a group that resumes at the translated offset misses no record of the copy that is at or above the
group's offset in the source. So a doubt always makes the offset lower. With the sampled map the group may reread
records; with the exact map it rereads no record that was copied.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ha_core.flows.records import OffsetSync
from ha_core.model import Run


class Translated(NamedTuple):
    """
    :ivar offset: offset in the target.
    :ivar precision: `exact`: the group reads each record once; `first-copied`: the copy begins above the group's
        offset; `first-kept`: the copy has deleted the records at the group's offset; `copied-end`: the records at the
        group's offset are not copied yet, and it rereads those that are copied until then; `sampled`: the group rereads
        records up to the next sync.
    """

    offset: int
    precision: Literal["exact", "first-copied", "first-kept", "copied-end", "sampled"]


class Untranslated(NamedTuple):
    """:ivar reason: the missing fact, for people."""

    reason: str


Translation = Translated | Untranslated


class CopiedEnd(NamedTuple):
    """The offsets at which copying goes on.

    :ivar source: all committed records of the source below this offset are copied.
    :ivar target: the next copied record gets this offset, or a higher one if a takeover writes its marker first.
    """

    source: int
    target: int


def by_runs(runs: Sequence[Run], offset: int, end: CopiedEnd | None = None, log_start: int = 0) -> Translation:
    """Translate by the exact map.

    :param runs: all runs of the copy from its first record on, ascending.
    :param offset: next offset that the group reads in the source.
    :param end: None: no end is known above the last run.
    :param log_start: log start of the copy. A group that resumes below it is reset by its `auto.offset.reset`, which
        may skip the whole log.
    """
    return kept(_by_runs(runs, offset, end), log_start)


def kept(found: Translation, log_start: int) -> Translation:
    """A place that the copy has deleted becomes its log start."""
    if isinstance(found, Translated) and found.offset < log_start:
        return Translated(log_start, "first-kept")
    return found


def _by_runs(runs: Sequence[Run], offset: int, end: CopiedEnd | None) -> Translation:
    if not runs and end is None:
        return Untranslated("nothing is copied yet")
    if runs and offset < runs[0].source:
        return Translated(runs[0].target, "first-copied")
    if end is not None and (not runs or offset >= runs[-1].after):
        return Translated(end.target, "exact" if offset <= end.source else "copied-end")
    at = bisect_right(runs, offset, key=lambda run: run.source) - 1
    run = runs[at]
    if offset < run.after:
        return Translated(run.target + offset - run.source, "exact")
    if at + 1 < len(runs):
        # The source has no committed record between two runs, so the group's next record begins the next run.
        return Translated(runs[at + 1].target, "exact")
    run_end = run.target + run.records
    return Translated(run_end, "exact" if offset == run.after else "copied-end")


@dataclass
class SyncStore:
    """Offset syncs of the partitions of a flow, thinned out.

    At a distance of d offsets below the newest sync, the store keeps one sync per about d/2 offsets, so it keeps about
    two syncs for each bit of a partition's offsets. A sync with a lower upstream offset than an earlier one means that
    the source began anew; it discards all earlier ones.
    """

    _syncs: dict[tuple[str, int], list[OffsetSync]] = field(default_factory=dict)

    def add(self, sync: OffsetSync) -> None:
        """Add the next sync of the topic."""
        syncs = self._syncs.setdefault((sync.topic, sync.partition), [])
        if syncs and sync.upstream_offset < syncs[-1].upstream_offset:
            syncs.clear()
        elif syncs and sync.upstream_offset == syncs[-1].upstream_offset:
            syncs.pop()
        syncs.append(sync)
        _thin_out(syncs)

    def translate(self, topic: str, partition: int, offset: int) -> Translation:
        """:param offset: next offset that the group reads in the source."""
        syncs = self._syncs.get((topic, partition), [])
        at = bisect_right(syncs, offset, key=lambda sync: sync.upstream_offset) - 1
        if not syncs:
            return Untranslated("no offset sync of this partition is known")
        if at < 0:
            return Untranslated(
                f"the oldest known offset sync is for offset {syncs[0].upstream_offset}, above the group's {offset}"
            )
        sync = syncs[at]
        if sync.upstream_offset == offset:
            return Translated(sync.downstream_offset, "exact")
        # The copy has the sync's own record; how many records between it and the offset it has is unknown.
        return Translated(sync.downstream_offset + 1, "sampled")

    def count(self, topic: str, partition: int) -> int:
        """Number of syncs that are kept of a partition."""
        return len(self._syncs.get((topic, partition), ()))


def _thin_out(syncs: list[OffsetSync]) -> None:
    """Drop each sync whose neighbours are close to each other, relative to their distance from the newest one."""
    newest = syncs[-1].upstream_offset
    at = len(syncs) - 2
    while at > 0:
        above, below = syncs[at + 1].upstream_offset, syncs[at - 1].upstream_offset
        if newest - below <= 2 * (newest - above):
            del syncs[at]
        at -= 1
