"""What a check found, in a form that names the record and says what is wrong with it."""

from __future__ import annotations

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
lost: acknowledged, and a reader that read everything did not get it
doubled: one value in two places of a log, or given to a reader at two offsets or twice in a row
redelivered: given to a group again although the group had committed beyond it
disordered: an ordered producer's later record lies before its earlier one in a partition
renumbered: one value was shown at different offsets
overwritten: one offset was shown with different values
late append: a cluster took a record for a partition after its stay as the writer was over
went back: a consumer's offsets fell without a seek or a new assignment
gap: a consumer jumped over a record
phantom: delivered, but never sent, or reported as certainly not appended
aborted delivered: a read_committed consumer got a record of an aborted transaction
tail delivered: a consumer got what a lost cluster alone had, when the topic had gone on at its copy
miscounted: of a lost cluster's tail another number of records is reported than its log holds
stood still: while a topic crossed over, a consumer waited too long for a record that was there
"""


@dataclass(frozen=True, slots=True)
class Violation:
    kind: Kind
    about: str
    """The group, client or cluster that shows it."""
    topic: str
    partition: int | None
    value: str | None
    offsets: tuple[int, ...]
    text: str

    def __str__(self) -> str:
        place = self.topic if self.partition is None else f"{self.topic}/{self.partition}"
        record = "" if self.value is None else f" {self.value}"
        return f"{self.kind}: {self.about} {place}{record} {list(self.offsets)}: {self.text}"
