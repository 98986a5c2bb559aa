"""Copy positions that the mirror job reports to gateways: the runs and the end of each partition's copy.

A known run never changes. So an old document is never wrong: a gateway that has one serves new records a little later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from pydantic import Field

from ha_core.model.document import Part
from ha_core.model.mirror import Run
from ha_core.model.mirror_job import SlotDocument


class CopiedPartition(Part):
    """Offsets are the source's."""

    end: int = Field(ge=0)
    """The copy has all committed records below it, acknowledged by all in-sync replicas."""
    level: bool
    """The copy has nearly caught up with the source: a reader ahead of it does not wait for long."""
    steps: tuple[int, ...] = ()
    """The newest runs as deltas, three numbers for each (`runs`), which keeps long lists short as text."""
    start: int | None = None
    """Log start of the source: records below it are deleted there, even if the copy has them; None: 0."""

    @classmethod
    def of(cls, end: int, level: bool, runs: Iterable[Run], start: int | None = None) -> Self:
        """:param runs: ascending."""
        steps, source, target = list[int](), 0, 0
        for run in runs:
            steps += (run.source - source, run.target - target, run.records)
            source, target = run.after, run.target + run.records
        return cls(end=end, level=level, steps=tuple(steps), start=start or None)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Decoded `steps`: distance from the end of the run before, in source and in copy, and number of records."""
        runs, source, target = list[Run](), 0, 0
        for at in range(0, len(self.steps) - 2, 3):
            run = Run(source + self.steps[at], target + self.steps[at + 1], self.steps[at + 2])
            source, target = run.after, run.target + run.records
            runs.append(run)
        return tuple(runs)


class CopiedMirror(Part):
    """The partitions of one mirror that a slot copies."""

    mirror: str
    """Key of the mirror."""
    link: str
    partitions: dict[int, CopiedPartition]


class MirrorCopies(SlotDocument):
    """`/mirror_copies/{slot}`, ephemeral: positions of the copies that the slot's task appends to. Bounded: gateways
    read partitions that are left out from their source."""

    FOLDER = "/mirror_copies"

    mirrors: tuple[CopiedMirror, ...] = ()
