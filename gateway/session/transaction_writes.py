"""Writes of transactional producers through this gateway, in their last transaction.

They are evidence for the end of a transaction whose topics moved by force (`composed/end_transaction`): the map says
which records of a producer readers still get, and these writes say which records the transaction has. Another gateway
may have forwarded more of them, so the absence of a write proves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.session.produce.producer_order import Key
from gateway.session.request import text
from ha_core.wire.records import Batch
from ha_core.wire.sequences import last_sequence

MAX_PRODUCERS = 10_000
"""Producers that wrote last; their ids come from the wire."""
MAX_PARTITIONS = 1_000
"""Bound per producer. A producer that writes to more has no evidence."""


@dataclass(slots=True)
class Writes:
    """Writes of one producer and epoch."""

    epoch: int
    last: dict[Key, int] = field(default_factory=dict)
    """(topic, partition) → the sequence of the last record."""
    too_many: bool = False
    commit_asked: bool = False
    """This gateway has forwarded a commit: it may succeed, or have succeeded, whatever other answers say."""
    ended: bool = False
    """The coordinator has reported the end. The client may not have heard it."""
    committed: bool = False
    """The coordinator has reported a commit."""

    @property
    def by_partition(self) -> Mapping[tuple[str, int], int]:
        return {(text(topic), partition): last for (topic, partition), last in self.last.items()}


class TransactionEvidence(NamedTuple):
    """Passed to the composed end of a transaction beside the request."""

    doubted: bool = False
    """True if a topic has left the coordinator's cluster by force, or is about to."""
    writes: Writes | None = None
    """None: unknown."""


class Written:
    """Writes by the producer id that clients see."""

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
        """A commit is forwarded to the coordinator."""
        writes = self._producers.get(producer_id)
        if writes is not None and writes.epoch == epoch:
            writes.commit_asked = True

    def ended(self, producer_id: int, *, committed: bool) -> None:
        """The coordinator has reported the end of the producer's transaction."""
        writes = self._producers.get(producer_id)
        if writes is not None:
            writes.ended, writes.committed = True, committed

    def begins(self, producer_id: int) -> None:
        """A new transaction of the producer begins: evidence of one that has ended no longer applies."""
        writes = self._producers.get(producer_id)
        if writes is not None and writes.ended:
            del self._producers[producer_id]
