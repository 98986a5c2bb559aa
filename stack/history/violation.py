"""A violation that a check has found: its kind, its record and its details."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "lost",
    "doubled",
    "redelivered",
    "disordered",
    "renumbered",
    "overwritten",
    "late append",
    "went back",
    "gap",
    "phantom",
    "aborted delivered",
    "tail delivered",
    "miscounted",
    "stood still",
]
"""
lost: acknowledged, and not delivered to a reader that read everything
doubled: one value at two offsets of a log, or delivered to a reader at two offsets or twice in a row
redelivered: given to a group again although the group had committed beyond it
disordered: an ordered producer's later record is below its earlier one in a partition
renumbered: one value was shown at different offsets
overwritten: one offset was shown with different values
late append: a cluster appended a record to a partition after its extent had ended
went back: a consumer's offsets fell without a seek or a new assignment
gap: a consumer skipped a record
phantom: delivered, but never sent, or reported as certainly not appended
aborted delivered: a read_committed consumer got a record of an aborted transaction
tail delivered: a consumer got a record of the lost tail after its topic had gone on at the copy
miscounted: the reported number of lost records differs from the lost cluster's log
stood still: while a topic was crossing, a consumer waited too long for an available record
"""


@dataclass(frozen=True, slots=True)
class Violation:
    kind: Kind
    about: str
    """The group, client or cluster with the violation."""
    topic: str
    partition: int | None
    value: str | None
    offsets: tuple[int, ...]
    text: str

    def __str__(self) -> str:
        place = self.topic if self.partition is None else f"{self.topic}/{self.partition}"
        record = "" if self.value is None else f" {self.value}"
        return f"{self.kind}: {self.about} {place}{record} {list(self.offsets)}: {self.text}"
