"""Where the records of a topic live: extents, and the fence while they are being moved."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from typing import Any, Literal

from pydantic import Field, field_serializer, field_validator

from ha_core.model.document import Document, Part

_NAME = r"^[a-zA-Z0-9._-]{1,249}$"


def legal_name(name: str) -> bool:
    """Whether Kafka takes `name` for a topic. Asked about any other name, brokers refuse the whole question."""
    return re.fullmatch(_NAME, name) is not None and name not in {".", ".."}


class Extent(Part):
    """A run of one partition's client offsets that lives in one cluster.

    Client offset `o` in `[start, end)` is offset `base + (o - start)` there; `end` None means open.
    `term` counts the stays of the writer: 0 for the first cluster, and one more at every cut, for ever.
    """

    cluster: str
    start: int = Field(ge=0)
    end: int | None = None
    base: int = Field(ge=0)
    term: int = Field(ge=0)
    ignored: bool = False
    """Readers skip it: its cluster died, and the operator chose to go on without what was not read."""
    known_end: int | None = None
    """Set while `end` is only an upper bound, because the cluster was dead at the cut: the client offset, exclusive, up
    to which it was known to have given out. None: the end is true."""
    found_end: int | None = None
    """Set when the cluster came back with less than `known_end`, or with more than has room below `end`: where its log
    ended. Nobody has accepted that yet."""
    surplus: bool | None = None
    """Set with `known_end` where the cluster died while a cut lay ahead that every gateway knew: what its log holds at
    and above `end` was never acknowledged, but for what the next extent holds as well."""


class Fence(Part):
    """A retriable refusal while an operation moves the thing."""

    operation: str


class Crossing(Part):
    """Cuts that lie ahead of the origin's log ends: the partitions still write to the origin first.

    `proposed`: not every gateway knows the cut yet, so what comes to lie at or above it waits for its answer, and no
    record is in the target. `open`: what comes to lie at or above it is written to the target.
    """

    operation: str
    state: Literal["proposed", "open"]
    partitions: tuple[int, ...] = ()
    """Those that cross over; empty: all that the map lists."""


class Topic(Document):
    """`/topics/{name}`. A topic without this document was never moved and is passed through untouched."""

    name: str = Field(pattern=_NAME)
    writer: str | None = None
    """Cluster of the partitions that `partitions` does not list, and of what concerns the topic as a whole.

    Nearly always the cluster that all of it is written in: single partitions may be elsewhere, where their last extent
    says. None while there is a fence and no map yet; the origin while all of it crosses over.
    """
    partitions: dict[int, tuple[Extent, ...]] = Field(default_factory=dict)
    fence: Fence | None = None
    transaction_fence: Fence | None = None
    """No transaction may begin to write to the topic. Those that write to it go on and end, all other produce as well.

    It stands before the fence, and makes way for it: behind a fence an open transaction could never end.
    """
    crossing: Crossing | None = None

    @property
    def mapped(self) -> bool:
        return bool(self.partitions)

    def crosses(self, partition: int) -> bool:
        """Whether the partition's cut lies ahead: it has an origin and a target then."""
        crossing = self.crossing
        if crossing is None or partition not in self.partitions:
            return False
        return not crossing.partitions or partition in crossing.partitions

    def withheld(self, partition: int) -> bool:
        """Whether nobody is led to the partition yet: it was added while others of the topic cross over, and whose it
        is turns out when that ends."""
        return self.crossing is not None and partition not in self.partitions


class LastSequences(Document):
    """`/sequences/{topic}`: what producers had appended when terms of the topic ended.

    A retry at or below the entry of its producer is a batch that an earlier term holds: it must be answered as the
    duplicate that it is, because the new cluster knows nothing of it and would append it a second time.
    """

    name: str
    partitions: dict[int, dict[int, tuple[int, int]]] = Field(default_factory=dict)
    """partition → client producer id → (epoch, last sequence)."""
    terms: dict[int, int] = Field(default_factory=dict)
    """partition → the term at whose beginning they were read: all producers of the terms before are known then.

    Missing, or of an older term, where the origin could not be asked (it was dead, or older than Kafka 2.8), or where
    there were more than are kept.
    """
    read_ms: dict[int, int] = Field(default_factory=dict)
    """partition → when they were read, milliseconds since 1970."""

    @field_serializer("partitions")
    def _in_columns(self, partitions: dict[int, dict[int, tuple[int, int]]]) -> dict[int, Any]:
        """Many producers as columns (steps between their ids, epochs, sequences): less than half as long when they are
        compressed. A few stay readable."""
        return {p: known if len(known) < _COLUMNS_FROM else _columns(known) for p, known in partitions.items()}

    @field_validator("partitions", mode="before")
    @classmethod
    def _of_columns(cls, partitions: Any) -> Any:
        if not isinstance(partitions, dict):
            return partitions
        return {p: _rows(known) if isinstance(known, list) else known for p, known in partitions.items()}


_COLUMNS_FROM = 16


def _columns(known: dict[int, tuple[int, int]]) -> list[list[int]]:
    ids = sorted(known)
    steps = [ids[0], *(later - earlier for earlier, later in pairwise(ids))]
    return [steps, [known[one][0] for one in ids], [known[one][1] for one in ids]]


def _rows(columns: list[Any]) -> dict[int, tuple[int, int]]:
    """:raises ValueError: not three columns of numbers, equally long."""
    steps, epochs, sequences = columns
    if not all(isinstance(step, int) for step in steps):
        raise ValueError("ids of producers are numbers")
    return {one: (epoch, last) for one, epoch, last in zip(accumulate(steps), epochs, sequences, strict=True)}
