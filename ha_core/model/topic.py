"""Where the records of a topic live: extents, and the fence while they are being moved."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Any, Literal

from pydantic import Field, field_serializer, field_validator

from ha_core.model.document import FEW_BYTES, Document, Part
from ha_core.model.extent import Extent, Extents, identity, live

_NAME = r"^[a-zA-Z0-9._-]{1,249}$"


def legal_name(name: str) -> bool:
    """Whether Kafka takes `name` for a topic. Asked about any other name, brokers refuse the whole question."""
    return re.fullmatch(_NAME, name) is not None and name not in {".", ".."}


class Fence(Part):
    """A retriable refusal while an operation moves the thing."""

    operation: str
    taken_for_dead: str | None = None
    """The cluster that the operation does without: gateways end what still waits for it there.

    A broker that is stopped, or cut off without a word, keeps its connections and answers none, so the fence would
    never be drained.
    """


class Crossing(Part):
    """Cuts that lie ahead of the origin's log ends: the partitions still write to the origin first.

    `proposed`: not every gateway knows the cut yet, so what comes to lie at or above it waits for its answer, and no
    record is in the target. `open`: what comes to lie at or above it is written to the target.
    """

    operation: str
    state: Literal["proposed", "open"]
    partitions: tuple[int, ...] = ()
    """Those that cross over; empty: all that the map lists."""


class Deletion(Part):
    """A topic that is deleted, in one cluster after the other. Gateways answer as if it were gone everywhere."""

    operation: str
    """Newest that deletes it. Another one may go on where this one could not reach a cluster."""
    since: str
    """UTC, ISO 8601."""


class Topic(Document):
    """`/topics/{name}`. A topic without this document was never moved and is passed through untouched."""

    FOLDER = "/topics"
    REPLICATED = True
    PLAIN_BYTES = FEW_BYTES

    name: str = Field(pattern=_NAME)
    writer: str | None = None
    """Cluster of the partitions that `partitions` does not list, and of what concerns the topic as a whole.

    Nearly always the cluster that all of it is written in: single partitions may be elsewhere, where their last extent
    says. None while there is a fence and no map yet; the origin while all of it crosses over.
    """
    partitions: dict[int, Extents] = {}
    fence: Fence | None = None
    transaction_fence: Fence | None = None
    """No transaction may begin to write to the topic. Those that write to it go on and end, all other produce as well.

    It stands before the fence, and makes way for it: behind a fence an open transaction could never end.
    """
    crossing: Crossing | None = None
    deletion: Deletion | None = None
    """The document has nothing else then. It goes when no cluster has the topic any more, and the name is free."""
    given_up: tuple[str, ...] | None = None
    """Clusters whose extents an operator has given up: readers get nothing that a transaction there commits later."""

    @property
    def mapped(self) -> bool:
        return bool(self.partitions)

    @property
    def fenced_by(self) -> str | None:
        """The operation whose fence stands on it, of either kind: they never stand together."""
        fence = self.fence or self.transaction_fence
        return None if fence is None else fence.operation

    @property
    def unfenced(self) -> Topic:
        return self.changed(fence=None, transaction_fence=None)

    def extents(self, partition: int) -> Extents:
        """The extents of a partition. One that the map does not list was added later: identity in the writer, term 0.

        :raises ValueError: the topic has neither this partition nor a writer.
        """
        listed = self.partitions.get(partition)
        if listed is not None:
            return listed
        if self.writer is None:
            raise ValueError(f"topic {self.name} has no map: partition {partition} is passed through untouched")
        return identity(self.writer)

    def stays(self) -> Iterator[tuple[int, Extent]]:
        """(partition, extent) of all that the map lists, in order."""
        for partition, extents in sorted(self.partitions.items()):
            yield from ((partition, extent) for extent in extents)

    def written(self, partition: int) -> Extent:
        """The extent that a producer's batch goes to first: the open one, or the origin's before its log has reached
        the cut.

        :raises ValueError: the map is damaged.
        """
        extents = self.extents(partition)
        current = live(extents)
        if not self.crosses(partition):
            return current
        if len(extents) < 2 or extents[-2].cluster == current.cluster:
            raise ValueError(f"topic {self.name} partition {partition} crosses over from nowhere: its map is damaged")
        return extents[-2]

    def damaged(self, partition: int) -> bool:
        """Whether the map does not say who writes the partition: nothing is concluded from it then."""
        try:
            self.written(partition)
        except ValueError:
            return True
        return False

    @property
    def sound(self) -> bool:
        """Whether the map says of every partition who writes it."""
        return not any(map(self.damaged, self.partitions))

    @property
    def writers(self) -> frozenset[str]:
        """The clusters that producers are led to, those of partitions that are added later too. Where a partition is
        that is damaged nobody can say."""
        return self._and_writer(self.written(p).cluster for p in self.partitions if not self.damaged(p))

    @property
    def clusters(self) -> frozenset[str]:
        """Every cluster that the map names."""
        return self._and_writer(extent.cluster for _, extent in self.stays())

    def _and_writer(self, clusters: Iterable[str]) -> frozenset[str]:
        return frozenset(filter(None, (*clusters, self.writer)))

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


def client_end(topic: Topic | None, partition: int, log_end: int) -> int:
    """The client offset of the log end of the cluster that is written first, also where it has passed the cut.

    :param topic: None, or without a map: the topic is passed through untouched.
    """
    return log_end if topic is None or not topic.mapped else topic.written(partition).extrapolate(log_end)


class LastSequences(Document):
    """`/sequences/{topic}`: what producers had appended when terms of the topic ended.

    A retry at or below the entry of its producer is a batch that an earlier term holds: it must be answered as the
    duplicate that it is, because the new cluster knows nothing of it and would append it a second time.
    """

    FOLDER = "/sequences"
    REPLICATED = True
    PLAIN_BYTES = FEW_BYTES

    name: str
    partitions: dict[int, dict[int, tuple[int, int]]] = {}
    """partition → client producer id → (epoch, last sequence)."""
    terms: dict[int, int] = {}
    """partition → the term at whose beginning they were read: all producers of the terms before are known then.

    Missing, or of an older term, where the origin could not be asked (it was dead, or older than Kafka 2.8), or where
    there were more than are kept.
    """
    read_ms: dict[int, int] = {}
    """partition → when they were read, milliseconds since 1970."""
    left_by_force: dict[str, dict[int, dict[int, tuple[int, int]]]] = {}
    """Cluster that a forced cut did without → partition → id of a transactional producer there → (epoch, last sequence)
    that is read behind the cut. What the cluster holds of a listed partition beyond that is in no extent."""

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
