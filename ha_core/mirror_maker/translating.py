"""Translates groups' offsets by the exact map of each copy.

The copier's newest runs are in memory and suffice for groups near the end. For a group further back, all runs are read
once from the copy log and kept; newer runs are added to them. If MirrorMaker 2 copied before, the map begins at the
handover, and MirrorMaker 2's offset syncs translate offsets below it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ha_core.flows.translation import SyncStore, Translated, Translation, Untranslated, by_runs
from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import CopyCoverage
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId
from ha_core.model import Run

_MAX_RUNS = 2_000_000
"""Maximum number of kept runs of all copies together, about 200 MB. The runs that were read longest ago go first."""


@dataclass
class ExactMaps:
    """
    :ivar newest: how far each of this worker's copies is, with its newest runs.
    :ivar earlier: reads the flow's offset syncs, for copies that MirrorMaker 2 began.
    """

    target: Admin
    newest: Callable[[], Mapping[CopyId, CopyCoverage]]
    earlier: Callable[[], SyncStore]
    _syncs: SyncStore | None = None
    _whole: dict[CopyId, list[Run]] = field(default_factory=dict)

    def translate(self, wanted: Mapping[CopyPartition, Iterable[int]]) -> dict[tuple[CopyId, int], Translation]:
        """
        :param wanted: copy → source offsets.
        :returns: (copy, source offset) → translation. Copies that are not being made now are missing.
        :raises KafkaAdminError: the copy log cannot be read.
        :raises CopyDamagedError: a note in it cannot be read.
        """
        newest = self.newest()
        lacking = [
            copy
            for copy, offsets in wanted.items()
            if (known := newest.get(copy.id))
            and known.runs
            and min(offsets) < known.runs[0].source
            and not self._reaches(copy.id, known.runs)
        ]
        for id_, notes in (self.target.notes_of(lacking) if lacking else {}).items():
            self._keep(id_, list(notes.runs))
        translated: dict[tuple[CopyId, int], Translation] = {}
        for copy, offsets in wanted.items():
            known = newest.get(copy.id)
            if known is None:
                continue
            for offset in offsets:
                translated[copy.id, offset] = self._translated(copy, known, offset)
        return translated

    def _translated(self, copy: CopyPartition, known: CopyCoverage, offset: int) -> Translation:
        found = self._by_runs(copy.id, known, offset)
        if not isinstance(found, Translated):
            return found
        if found.precision == "first-copied" and offset < known.source_base:
            if self._syncs is None:
                self._syncs = self.earlier()
            return self._syncs.translate(*copy.source_key, offset)
        if found.precision == "copied-end" and offset <= known.end:
            return Translated(found.offset, "exact")  # the source has no committed record in between, only markers
        return found

    def _by_runs(self, id_: CopyId, known: CopyCoverage, offset: int) -> Translation:
        recent = known.runs
        if not recent:
            # Nothing is copied yet, so the first copied record will be the group's first one.
            return Translated(known.target, "first-copied" if offset < known.source_base else "copied-end")
        if offset >= recent[0].source:
            return by_runs(recent, offset)
        runs = self._joined(id_, recent)
        if runs is None:
            return Untranslated("the copier has not written the copy's whole map yet")
        return by_runs(runs, offset)

    def _reaches(self, id_: CopyId, recent: tuple[Run, ...]) -> bool:
        return self._joined(id_, recent) is not None

    def _joined(self, id_: CopyId, recent: tuple[Run, ...]) -> list[Run] | None:
        """All runs of a copy; None: runs between the kept ones and the recent ones are missing."""
        whole = self._whole.get(id_)
        if whole is None or whole[-1].source < recent[0].source:
            return None
        while whole and whole[-1].source >= recent[0].source:
            whole.pop()
        whole += recent
        return whole

    def _keep(self, id_: CopyId, runs: list[Run]) -> None:
        self._whole.pop(id_, None)
        if not runs:
            return
        self._whole[id_] = runs
        while len(self._whole) > 1 and sum(map(len, self._whole.values())) > _MAX_RUNS:
            del self._whole[next(iter(self._whole))]
