"""The map of a copy as a process that does not copy knows it, kept up to date from two sources. No I/O.

- *Notes* of the copy log have the whole map up to the newest progress, which may be some seconds old.
- *Reports* of the copiers (`ha_core.model.MirrorCopies`) have the newest runs only, half a second old.

A report is taken only where it goes on without a gap, so the map is never guessed: a report that begins above it waits
for the next progress. A known run never changes, with one exception: retention may take the last records of a copy away
before a progress has them. Then a later copier copies them again, and its progress replaces what was known there.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import overload

from ha_core.mirror.progress import CopyDamagedError, Progress
from ha_core.model import Run


class RunTable(Sequence[Run]):
    """Runs of a copy, ascending, in 24 bytes each: a compacted source may have millions."""

    __slots__ = ("_records", "_sources", "_targets")

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._sources, self._targets, self._records = array("q"), array("q"), array("q")
        self.extend(runs)

    def extend(self, runs: Iterable[Run]) -> None:
        if isinstance(runs, RunTable):
            self._sources.extend(runs._sources)
            self._targets.extend(runs._targets)
            self._records.extend(runs._records)
            return
        for run in runs:
            self._sources.append(run.source)
            self._targets.append(run.target)
            self._records.append(run.records)

    def find(self, source: int) -> int | None:
        """Index of the run that begins at this source offset."""
        at = bisect_left(self._sources, source)
        return at if at < len(self._sources) and self._sources[at] == source else None

    def cut(self, source: int) -> None:
        """Forget the runs that begin at this source offset or above."""
        at = bisect_left(self._sources, source)
        for column in (self._sources, self._targets, self._records):
            del column[at:]

    @property
    def bytes(self) -> int:
        """Memory of the runs."""
        return sum(column.itemsize * len(column) for column in (self._sources, self._targets, self._records))

    def __len__(self) -> int:
        return len(self._sources)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Run]: ...
    def __getitem__(self, index: int | slice) -> Run | Sequence[Run]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        return Run(self._sources[index], self._targets[index], self._records[index])


class KnownMap:
    """
    :ivar runs: all runs from the first record on.
    :ivar source: all committed records of the source below it are in the copy.
    :ivar target: the next copied record lies there or above.
    :ivar pages: number of pages that `runs` contains; pages below it are not needed any more.
    :ivar version: counts the changes.
    """

    __slots__ = ("pages", "runs", "source", "target", "version")

    def __init__(self) -> None:
        self.runs = RunTable()
        self.source = self.target = -1
        self.pages = self.version = 0

    @property
    def begun(self) -> bool:
        """Whether a progress is known."""
        return self.source >= 0

    def note(self, progress: Progress, pages: Mapping[int, Sequence[Run]]) -> None:
        """Take a newer progress.

        :param pages: runs of the pages from `self.pages` on that were written with it.
        :raises CopyDamagedError: one is missing: all notes have to be read again.
        """
        try:
            new = [pages[number] for number in range(self.pages, progress.pages)]
        except KeyError as error:
            raise CopyDamagedError(f"page {error} of the map is not in the copy log") from None
        new.append(progress.runs)
        self.version += 1
        if not self._reaches_beyond(progress):
            if first := next((runs[0] for runs in new if len(runs)), None):
                self.runs.cut(first.source)
                for runs in new:
                    self.runs.extend(runs)
            self.source, self.target = progress.source, progress.target
        elif progress.source == self.source:
            self.target = max(self.target, progress.target)
        self.pages = progress.pages

    def whole(self, runs: Iterable[Run], source: int, target: int) -> None:
        """Take a map that was read as a whole, notes and the log above them."""
        self.runs = RunTable(runs)
        self.source, self.target = source, target
        self.version += 1

    def report(self, runs: Sequence[Run], end: int) -> bool:
        """Take a copier's report. False: it begins above what is known, or contradicts it, and nothing was taken.

        :param runs: the newest ones, ascending; the target has acknowledged all of their records.
        :param end: all committed records of the source below it are in the copy.
        """
        if not self.begun:
            return False
        if end <= self.source:
            return True
        later = self._going_on(runs)
        if later is None:
            return False
        if later:
            self.runs.cut(later[0].source)
            self.runs.extend(later)
            self.target = max(self.target, later[-1].target + later[-1].records)
        self.source = end
        self.version += 1
        return True

    def _going_on(self, runs: Sequence[Run]) -> Sequence[Run] | None:
        """The part of the report that is new, from the last known run on, which may have grown."""
        last = self.runs[-1] if len(self.runs) else None
        at = len(runs) if last is None else bisect_left(runs, last.source, key=lambda run: run.source)
        if last is not None and at < len(runs) and runs[at][:2] == last[:2]:
            grown = runs[at].records - last.records
            ends_there = last.target + last.records == self.target  # else a marker lies there, and it cannot grow
            follows = at + 1 == len(runs) or runs[at + 1].target >= self.target
            return runs[at:] if (ends_there if grown > 0 else grown == 0 and follows) else None
        # The first record of a copier that has just taken over lies where its progress says.
        at = bisect_right(runs, self.target - 1, key=lambda run: run.target)
        fits = at < len(runs) and runs[at].target == self.target and runs[at].source >= self.source
        return runs[at:] if fits else None

    def _reaches_beyond(self, progress: Progress) -> bool:
        """Whether the map has all that the progress has, and may have more, by reports."""
        if progress.source > self.source:
            return False
        if not progress.runs:
            return True
        last = progress.runs[-1]
        at = self.runs.find(last.source)
        if at is None:
            return False
        run = self.runs[at]
        return run.target == last.target and run.records >= last.records
