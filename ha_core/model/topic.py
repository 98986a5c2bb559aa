"""Topics that were moved: their map, fence, crossing and deletion, the records that clients have deleted, and the last
sequences at their cuts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Any, Literal

from pydantic import Field, field_serializer, field_validator

from ha_core.model.document import FEW_BYTES, Document, Part
from ha_core.model.extent import Extent, Extents, identity, open_extent

Refused = Literal["", "asked", "away"]
_NAME = r"^[a-zA-Z0-9._-]{1,249}$"


def legal_name(name: str) -> bool:
    """Whether Kafka accepts `name` for a topic. Brokers refuse a whole request that has any other name."""
    return re.fullmatch(_NAME, name) is not None and name not in {".", ".."}


class Fence(Part):
    """A retriable refusal while an operation moves a topic or group."""

    operation: str
    taken_for_dead: str | None = None
    """The cluster that the operation goes on without: gateways abort requests that still wait for it.

    A broker that is stopped, or silently cut off, keeps its connections and does not answer, so the fence would never
    drain.
    """


class Crossing(Part):
    """Cuts ahead of the origin's log ends: gateways still write to the origin first.

    `proposed`: not every gateway has the cut yet, so batches that land at or above it wait for their answer, and no
    record is in the target. `open`: batches that land at or above it are written to the target.
    """

    operation: str
    state: Literal["proposed", "open"]
    partitions: tuple[int, ...] = ()
    """Partitions that cross; empty: all of the map."""


class Deletion(Part):
    """Tombstone of a topic that is deleted in one cluster after the other. To clients it is gone at once."""

    operation: str
    """Newest operation that deletes it. Another one may continue if this one could not reach a cluster."""
    since: str
    """UTC, ISO 8601."""


class Topic(Document):
    """`/topics/{name}`. A topic without this document was never moved; gateways pass it through untouched."""

    FOLDER = "/topics"
    REPLICATED = True
    PLAIN_BYTES = FEW_BYTES

    name: str = Field(pattern=_NAME)
    writer: str | None = None
    """Cluster of the partitions that `partitions` does not list, and of requests about the topic as a whole.

    Nearly always the writer of all partitions; single partitions may have another one, the cluster of their last
    extent. None while there is a fence and no map yet; the origin while the whole topic crosses.
    """
    partitions: dict[int, Extents] = {}
    fence: Fence | None = None
    transaction_fence: Fence | None = None
    """No transaction may begin to write to the topic. Open ones continue and end; other produce is not affected.

    It comes before the fence, which replaces it: under a fence an open transaction could never end.
    """
    crossing: Crossing | None = None
    deletion: Deletion | None = None
    """The document has no other field then. It is removed, and the name free, once no cluster has the topic."""
    given_up: tuple[str, ...] | None = None
    """Clusters whose extents an operator has given up: readers get no records of transactions that commit later."""

    @property
    def mapped(self) -> bool:
        return bool(self.partitions)

    @property
    def fenced_by(self) -> str | None:
        """The operation with a fence on it, of either kind; a topic never has both."""
        fence = self.fence or self.transaction_fence
        return None if fence is None else fence.operation

    @property
    def unfenced(self) -> Topic:
        return self.changed(fence=None, transaction_fence=None)

    def extents(self, partition: int) -> Extents:
        """The extents of a partition. A partition outside the map was added later: identity in the writer, epoch 0.

        :raises ValueError: the topic has neither this partition nor a writer.
        """
        listed = self.partitions.get(partition)
        if listed is not None:
            return listed
        if self.writer is None:
            raise ValueError(f"topic {self.name} has no map: partition {partition} is passed through untouched")
        return identity(self.writer)

    def all_extents(self) -> Iterator[tuple[int, Extent]]:
        """(partition, extent) of the whole map, in order."""
        for partition, extents in sorted(self.partitions.items()):
            yield from ((partition, extent) for extent in extents)

    def written(self, partition: int) -> Extent:
        """The extent that a producer's batch goes to first: the open one, or the origin's until it reaches the cut.

        :raises ValueError: the map is damaged.
        """
        extents = self.extents(partition)
        current = open_extent(extents)
        if not self.crosses(partition):
            return current
        if len(extents) < 2 or extents[-2].cluster == current.cluster:
            raise ValueError(f"topic {self.name} partition {partition} crosses but has no origin: its map is damaged")
        return extents[-2]

    def damaged(self, partition: int) -> bool:
        """Whether the map has no valid writer for the partition: callers conclude nothing from it then."""
        try:
            self.written(partition)
        except ValueError:
            return True
        return False

    @property
    def sound(self) -> bool:
        """Whether the map has a valid writer for every partition."""
        return not any(map(self.damaged, self.partitions))

    @property
    def writers(self) -> frozenset[str]:
        """The clusters that producers are routed to, also for partitions added later. Leaves out damaged partitions."""
        return self._and_writer(self.written(p).cluster for p in self.partitions if not self.damaged(p))

    @property
    def clusters(self) -> frozenset[str]:
        """Every cluster that the map names."""
        return self._and_writer(extent.cluster for _, extent in self.all_extents())

    def _and_writer(self, clusters: Iterable[str]) -> frozenset[str]:
        return frozenset(filter(None, (*clusters, self.writer)))

    def crosses(self, partition: int) -> bool:
        """Whether the partition's cut lies ahead; it has an origin and a target then."""
        crossing = self.crossing
        if crossing is None or partition not in self.partitions:
            return False
        return not crossing.partitions or partition in crossing.partitions

    def withheld(self, partition: int) -> bool:
        """Whether no client is routed to the partition yet: it was added during a crossing, whose end decides its
        writer."""
        return self.crossing is not None and partition not in self.partitions


def client_end(topic: Topic | None, partition: int, log_end: int) -> int:
    """The client offset of the log end of the cluster that is written first, even if it is above the cut.

    :param topic: None, or without a map: passed through untouched.
    """
    return log_end if topic is None or not topic.mapped else topic.written(partition).extrapolate(log_end)


class LastSequences(Document):
    """`/sequences/{topic}`: last sequences of producers at the ends of the topic's writer epochs.

    A retry at or below its producer's entry is a batch that an earlier epoch holds. Gateways must answer it as a
    duplicate, because the new cluster does not know it and would append it a second time.
    """

    FOLDER = "/sequences"
    REPLICATED = True
    PLAIN_BYTES = FEW_BYTES

    name: str
    partitions: dict[int, dict[int, tuple[int, int]]] = {}
    """partition → client producer id → (epoch, last sequence)."""
    terms: dict[int, int] = {}
    """partition → writer epoch at whose start they were read: all producers of earlier epochs are known then.

    Missing, or an older epoch, if the origin could not be asked (it was dead, or older than Kafka 2.8), or if there
    were too many to keep.
    """
    read_ms: dict[int, int] = {}
    """partition → when they were read, milliseconds since 1970."""
    left_by_force: dict[str, dict[int, dict[int, tuple[int, int]]]] = {}
    """Cluster taken for dead by a forced cut → partition → id of a transactional producer there → (epoch, last
    sequence) up to which readers get its records after the cut. Later ones of a listed partition are in no extent."""

    @field_serializer("partitions")
    def _in_columns(self, partitions: dict[int, dict[int, tuple[int, int]]]) -> dict[int, Any]:
        """Many producers as columns (differences of their ids, epochs, sequences), which compress to less than half
        the length. A few stay readable."""
        return {p: last if len(last) < _COLUMNS_FROM else _columns(last) for p, last in partitions.items()}

    @field_validator("partitions", mode="before")
    @classmethod
    def _of_columns(cls, partitions: Any) -> Any:
        if not isinstance(partitions, dict):
            return partitions
        return {p: _rows(last) if isinstance(last, list) else last for p, last in partitions.items()}


_COLUMNS_FROM = 16


def _columns(last: dict[int, tuple[int, int]]) -> list[list[int]]:
    ids = sorted(last)
    steps = [ids[0], *(later - earlier for earlier, later in pairwise(ids))]
    return [steps, [last[id_][0] for id_ in ids], [last[id_][1] for id_ in ids]]


def _rows(columns: list[Any]) -> dict[int, tuple[int, int]]:
    """:raises ValueError: not three columns of numbers, equally long."""
    steps, epochs, sequences = columns
    if not all(isinstance(step, int) for step in steps):
        raise ValueError("ids of producers are numbers")
    return {id_: (epoch, last) for id_, epoch, last in zip(accumulate(steps), epochs, sequences, strict=True)}


class DeletionRequest(Document):
    """`/deletion_requests/{topic}`: exists until the topic is deleted or the client has its refusal.

    A gateway stores it, and an orphan recovery carries it out.
    """

    FOLDER = "/deletion_requests"

    name: str
    user: str
    """The user who requested the deletion and has the right to it."""
    gateway: str
    at: str
    """UTC, ISO 8601."""
    refused: Refused = ""
    """`asked`: the deletion is not possible. `away`: a cluster does not answer. Empty: still to be done."""
    why: str = ""


class DeletedRecords(Document):
    """`/deleted_records/{topic}`: written before a gateway confirms a deletion to the client, read at each cut.

    A copy of the topic may hold the records until its own retention deletes them.
    """

    FOLDER = "/deleted_records"
    PLAIN_BYTES = FEW_BYTES

    name: str = Field(min_length=1)
    below: dict[int, int] = {}
    """partition → client offset below which no record is served again, in any cluster that the partition moves to."""
