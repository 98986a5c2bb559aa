"""Decides from the runs of a copy which offset syncs to emit, and when.

MirrorMaker 2 emits a sync when a copier starts, after a gap in the source, when the copy went back, and every
`offset.lag.max` records. Here the first record of each run gets a sync, since a run begins after each gap, and the
newest record gets one as often as MirrorMaker 2 would emit one. A sync is never above the records that the target has
acknowledged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ha_core.flows.records import OffsetSync
from ha_core.model import Run

MAX_STARTS = 20
"""Maximum number of runs whose first records get a sync in one look. A source with small transactions begins thousands
of runs a second, and a reader keeps only a few of their syncs."""


@dataclass
class SyncEmission:
    """Chooses the syncs of one partition.

    :ivar topic: name in the source.
    :ivar max_lag: `offset.lag.max`, in records.
    """

    topic: str
    partition: int
    max_lag: int
    _begun_at: int = -1
    """Source offset at which the newest run begins whose first record got a sync."""
    _emitted: int = -1
    """Offset in the copy of the newest sync."""

    def resume(self, last: OffsetSync, runs: Sequence[Run]) -> None:
        """Go on after the sync that an earlier worker wrote last. Readers take a lower one for a source that began
        anew, and discard all that they know.

        :param runs: as in `due`. Where they contradict the sync, it is of another copy, and `due` begins anew.
        """
        for run in runs:
            if run.source <= last.upstream_offset < run.after:
                if run.target + last.upstream_offset - run.source == last.downstream_offset:
                    self._begun_at, self._emitted = run.source, last.downstream_offset
                return

    def due(self, runs: Sequence[Run], interval_over: bool) -> list[OffsetSync]:
        """The syncs to emit now, in order.

        :param runs: newest runs that the target has acknowledged, ascending.
        :param interval_over: emit a sync of the newest record even if it is within `max_lag` of the last sync.
        """
        if not runs:
            return []
        newest = runs[-1]
        if newest.target + newest.records - 1 < self._emitted or newest.source < self._begun_at:
            self._begun_at = self._emitted = -1  # the copy was created anew, or the source began anew
        begun = [run for run in runs if run.source > self._begun_at][-MAX_STARTS:]
        syncs = [self._sync(run.source, run.target) for run in begun]
        last = newest.target + newest.records - 1
        emitted = max(self._emitted, syncs[-1].downstream_offset if syncs else -1)
        if last > emitted and (last - emitted > self.max_lag or interval_over):
            syncs += [
                self._sync(newest.after - 1 - below, last - below)
                for below in self._steps(last - max(emitted, newest.target))
            ]
        self._begun_at = newest.source
        self._emitted = syncs[-1].downstream_offset if syncs else self._emitted
        return syncs

    def _steps(self, grown: int) -> list[int]:
        """Distances below the newest record at which to emit syncs, descending.

        The distances double, because a reader such as `SyncStore` keeps only syncs at doubling distances.

        :param grown: number of records by which the run grew since the last look.
        """
        steps = [0]
        step = max(self.max_lag, 1)
        while step < grown:
            steps.append(step)
            step *= 2
        return steps[::-1]

    def _sync(self, source: int, target: int) -> OffsetSync:
        return OffsetSync(self.topic, self.partition, source, target)
