"""Offsets of retried batches that earlier writer epochs hold: shared by all sessions of a gateway.

A broker answers a retry with the batch's offset. After a cut, the origin is no longer asked, and no other broker knows
the producer. So the gateway looks the batch up in the log that holds it (`composed/duplicate_lookup`). Until then the
retry is refused, and later batches wait for it (`ProducerOrder`). A batch that is not found in time, or not within the
bounds of the look-up, is answered as a duplicate at `UNKNOWN_OFFSET`.
"""

from enum import Enum
from typing import NamedTuple

from gateway.session.produce.producer_order import Key
from ha_core.model import LastSequences
from ha_core.model.producer import is_gateway_id
from ha_core.wire.records import Batch
from ha_core.wire.sequences import at_or_before, last_sequence

MAX_WAIT_S = 5.0
"""Time from the first retry: a cluster that is gone must not keep its producers waiting."""
MAX_REMEMBERED = 10_000
UNKNOWN_OFFSET = -(1 << 31)
"""Low enough that a client that counts a batch's records from here never reaches a real offset. With -1, Kafka's own
value, librdkafka reports the offsets -1, 0, 1 …"""


class EarlierBatch(NamedTuple):
    """A batch, in its client's terms, that an earlier writer epoch holds."""

    topic: bytes
    partition: int
    producer_id: int
    epoch: int
    sequence: int
    records: int
    timestamp_ms: int


class Missing(Enum):
    """Reason for a missing offset."""

    NOT_YET = "not yet"
    NEVER = "never"


class DuplicateOffsets:
    """Client offsets of retried batches that were looked up."""

    def __init__(self) -> None:
        self._found: dict[EarlierBatch, int | Missing] = {}
        self._since: dict[EarlierBatch, float] = {}

    def offset(self, wanted: EarlierBatch, now: float) -> int | Missing:
        """Offset of the batch's first record; NOT_YET: it has to be looked up."""
        if wanted in self._found:
            return self._found[wanted]
        if len(self._since) >= MAX_REMEMBERED:
            self._since.clear()
        return Missing.NEVER if now - self._since.setdefault(wanted, now) > MAX_WAIT_S else Missing.NOT_YET

    def learn(self, wanted: EarlierBatch, offset: int | None) -> None:
        """Result of a look-up; None: the batch is not there, or beyond the bounds."""
        if len(self._found) >= MAX_REMEMBERED:
            self._found.clear()
        self._since.pop(wanted, None)
        self._found[wanted] = Missing.NEVER if offset is None else offset


def last_of(sequences: LastSequences | None, partition: int, batch: Batch) -> tuple[int, int] | None:
    """(epoch, last sequence) of its producer in earlier writer epochs."""
    return None if sequences is None else sequences.partitions.get(partition, {}).get(batch.producer_id)


def find_held(sequences: LastSequences | None, key: Key, batch: Batch) -> EarlierBatch | None:
    """The batch, if an earlier writer epoch holds it: no cut runs through a batch."""
    last = last_of(sequences, key[1], batch) if is_gateway_id(batch.producer_id) else None
    count = max(batch.records_count, batch.last_offset_delta + 1)
    epoch, sequence = batch.producer_epoch, batch.base_sequence
    if last is None or last[0] != epoch or not at_or_before(last_sequence(sequence, count), last[1]):
        return None
    return EarlierBatch(*key, batch.producer_id, epoch, sequence, batch.records_count, batch.base_timestamp)


def is_outlived(sequences: LastSequences | None, partition: int, batch: Batch) -> bool:
    """True if its producer had begun a newer epoch in an earlier writer epoch: the batch may be written there already.
    The broker of that writer epoch would refuse it; the broker of a newer one does not know."""
    last = last_of(sequences, partition, batch)
    return last is not None and batch.producer_epoch < last[0]
