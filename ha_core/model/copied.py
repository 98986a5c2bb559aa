"""What the job that copies mirrors tells gateways: what of each partition lies in its copy, as far as is known by now.

A run never changes once it is known. So whoever goes by an old document reads nothing wrong, and what the document does
not say yet is read a little later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from pydantic import Field

from ha_core.model.document import Part
from ha_core.model.mirror import Run
from ha_core.model.mirror_job import OfSlot


class CopiedPartition(Part):
    """Offsets are the source's."""

    end: int = Field(ge=0)
    """What is committed below it is in the copy, acknowledged by all in-sync replicas."""
    level: bool
    """The copy is about as far as the source: who is ahead of it need not wait for long."""
    steps: tuple[int, ...] = ()
    """The newest runs: three numbers for each, see `runs`. Long lists of them are short as text."""
    start: int | None = None
    """Log start of the source: records below it were deleted there, even if the copy has them; None: 0."""

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
        """How far behind the end of the one before each begins, in source and copy, and how many records it has."""
        found, source, target = list[Run](), 0, 0
        for at in range(0, len(self.steps) - 2, 3):
            run = Run(source + self.steps[at], target + self.steps[at + 1], self.steps[at + 2])
            source, target = run.after, run.target + run.records
            found.append(run)
        return tuple(found)


class CopiedMirror(Part):
    """Of one mirror what a slot copies."""

    mirror: str
    """Its key."""
    link: str
    partitions: dict[int, CopiedPartition]


class MirrorCopies(OfSlot):
    """`/mirror_copies/{slot}`, ephemeral: what lies in the copies that the slot's task appends to. Bounded: partitions
    that are left out are read from their source."""

    FOLDER = "/mirror_copies"

    mirrors: tuple[CopiedMirror, ...] = ()
