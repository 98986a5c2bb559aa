"""What transactional producers have written through this gateway in their last transaction.

It is evidence for the end of a transaction whose topics went on elsewhere by force (`composed/end_transaction`): what
the map says is still read of its producer tells whether its records are, once it is known which they are. Another
gateway may have taken more of them. Nothing is concluded from what is missing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.session.produce.producer_order import Key
from gateway.session.request import text
from ha_core.wire.records import Batch
from ha_core.wire.sequences import last_sequence

MAX_PRODUCERS = 10_000
"""Of those that wrote last. Producer ids come from the wire."""
MAX_PARTITIONS = 1_000
"""Of one producer. Of one that writes to more nothing is known."""


@dataclass(slots=True)
class Writes:
    """Of one producer and epoch."""

    epoch: int
    last: dict[Key, int] = field(default_factory=dict)
    """(topic, partition) → the sequence of the last record."""
    too_many: bool = False
    commit_asked: bool = False
    """A commit was passed on from here: it may happen, and may have happened, whatever else is said."""
    ended: bool = False
    """Its coordinator has said so. Its client may not have heard it."""
    committed: bool = False
    """And that it is committed."""

    @property
    def by_partition(self) -> Mapping[tuple[str, int], int]:
        return {(text(topic), partition): last for (topic, partition), last in self.last.items()}


class TransactionEvidence(NamedTuple):
    """What the composed end of a transaction is told beside the request."""

    doubted: bool = False
    """Whether a topic has left the coordinator's cluster by force, or is about to."""
    writes: Writes | None = None
    """None: nothing is known."""


class Written:
    """By the producer id that clients see."""

    def __init__(self) -> None:
        self._producers: dict[int, Writes] = {}

    def wrote(self, producer_id: int, key: Key, batch: Batch) -> None:
        """The batch goes to its broker."""
        writes = self._producers.pop(producer_id, None)
        if writes is None or writes.ended or writes.epoch != batch.producer_epoch:
            writes = Writes(batch.producer_epoch)
        self._producers[producer_id] = writes
        if len(self._producers) > MAX_PRODUCERS:
            del self._producers[next(iter(self._producers))]
        writes.last[key] = last_sequence(batch.base_sequence, max(1, batch.records_count))
        if len(writes.last) > MAX_PARTITIONS:
            writes.last.clear()
            writes.too_many = True

    def of(self, producer_id: int, epoch: int) -> Writes | None:
        writes = self._producers.get(producer_id)
        return None if writes is None or writes.epoch != epoch or writes.too_many else writes

    def commit_goes_on(self, producer_id: int, epoch: int) -> None:
        """A commit is passed on to the coordinator."""
        writes = self._producers.get(producer_id)
        if writes is not None and writes.epoch == epoch:
            writes.commit_asked = True

    def ended(self, producer_id: int, *, committed: bool) -> None:
        """The coordinator has said what became of its transaction."""
        writes = self._producers.get(producer_id)
        if writes is not None:
            writes.ended, writes.committed = True, committed

    def begins(self, producer_id: int) -> None:
        """It takes something in: the transaction that has ended is not the one that it will ask about."""
        writes = self._producers.get(producer_id)
        if writes is not None and writes.ended:
            del self._producers[producer_id]
