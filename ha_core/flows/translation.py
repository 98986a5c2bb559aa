"""Translates a group's offset in the source into one in the target.

Two maps exist. The *exact* one are the runs of a copy (`ha_core.model.Run`), which our copier keeps: it knows for every
record where it lies. The *sampled* one are offset syncs, which MirrorMaker 2 writes every so many records: between two
of them it knows only an order.

Invariant of both: a group that goes on at the translated offset misses no record that is in the copy at or above its
offset in the source. So every doubt is settled towards lower offsets: records may come twice by the sampled map, and
never by the exact one for records that are copied.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ha_core.flows.records import OffsetSync
from ha_core.model import Run


class Translated(NamedTuple):
    """
    :ivar offset: in the target.
    :ivar precision: `exact`: the group gets each record once; `first-copied`: the copy begins above its offset;
        `first-kept`: the copy has deleted the records at its offset; `copied-end`: the records at its offset are not
        copied yet, and those that come until then are read again; `sampled`: up to the next sync records come twice.
    """

    offset: int
    precision: Literal["exact", "first-copied", "first-kept", "copied-end", "sampled"]


class Untranslated(NamedTuple):
    """:ivar reason: the fact that is missing, for people."""

    reason: str


Translation = Translated | Untranslated


class CopiedEnd(NamedTuple):
    """Where copying goes on.

    :ivar source: all committed records of the source below it are copied.
    :ivar target: the next copied record lies there or above: a takeover's marker may be there first.
    """

    source: int
    target: int


def by_runs(runs: Sequence[Run], offset: int, end: CopiedEnd | None = None, log_start: int = 0) -> Translation:
    """Translate by the exact map.

    :param runs: all runs of the copy from its first record on, ascending.
    :param offset: next offset that the group reads in the source.
    :param end: None: not known beyond the last run.
    :param log_start: of the copy. A group that goes on below it is reset by its `auto.offset.reset`, which may skip
        all of the log.
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
        # Between two runs the source has no committed record, so the group's next one begins the next run.
        return Translated(runs[at + 1].target, "exact")
    run_end = run.target + run.records
    return Translated(run_end, "exact" if offset == run.after else "copied-end")


@dataclass
class SyncStore:
    """Offset syncs of the partitions of a flow, thinned out: of syncs at a distance d below the newest one, one is kept
    for about each d/2 offsets, so a partition takes some two for each bit of its offsets.

    A sync with a lower upstream offset than an earlier one says that the source began anew, and discards the others.
    """

    _syncs: dict[tuple[str, int], list[OffsetSync]] = field(default_factory=dict)

    def add(self, sync: OffsetSync) -> None:
        """Take a sync in the order of the topic."""
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
            return Untranslated("no offset sync of the partition is known")
        if at < 0:
            return Untranslated(
                f"the oldest known offset sync is of offset {syncs[0].upstream_offset}, above the group's {offset}"
            )
        sync = syncs[at]
        if sync.upstream_offset == offset:
            return Translated(sync.downstream_offset, "exact")
        # How many of the records between the sync and the offset are in the copy is not known; the sync's own is.
        return Translated(sync.downstream_offset + 1, "sampled")

    def count(self, topic: str, partition: int) -> int:
        """Number of syncs that are kept."""
        return len(self._syncs.get((topic, partition), ()))


def _thin_out(syncs: list[OffsetSync]) -> None:
    """Drop syncs whose neighbours are close to each other, seen from the newest one."""
    newest = syncs[-1].upstream_offset
    at = len(syncs) - 2
    while at > 0:
        above, below = syncs[at + 1].upstream_offset, syncs[at - 1].upstream_offset
        if newest - below <= 2 * (newest - above):
            del syncs[at]
        at -= 1
