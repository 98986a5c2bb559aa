"""Where earlier terms hold batches that come again: shared by all sessions of a gateway.

A broker answers a retry with the offset that the batch has. The one that took it is not asked any more after a cut, and
no other knows the producer. Answered as a duplicate without an offset, librdkafka tells its records -1, 0, 1 …, which
are other records' offsets. So the batch is looked up in the log that holds it (`composed/recall`); until that is done
the retry is refused, and what comes after it waits for it (`ProducerOrder`). What is found never changes.

A batch that is not found in time, or not within the bounds of the look-up, is answered as a duplicate from an offset so
far below 0 that none of its records is told one that any record has.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ha_core.wire.records import Batch

MAX_WAIT_S = 5.0
"""From the first retry on: a cluster that is gone must not keep its producers waiting."""
MAX_KEPT = 10_000
UNKNOWN_OFFSET = -(1 << 31)
"""A base offset from which no client that counts on comes to an offset that a record can have: no batch has more
records than that. Kafka's own word is -1, from which librdkafka comes to 0, 1, 2 …"""


class Held(NamedTuple):
    """A batch, as its client calls it, that an earlier term holds."""

    topic: bytes
    partition: int
    producer_id: int
    epoch: int
    sequence: int
    records: int
    timestamp_ms: int


class Known(Enum):
    NOT_YET = "not yet"
    NEVER = "never"


def held(topic: bytes, partition: int, batch: Batch) -> Held:
    return Held(
        topic,
        partition,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.records_count,
        batch.base_timestamp,
    )


class Recalled:
    """Client offsets of batches that came again, as far as they were looked for."""

    def __init__(self) -> None:
        self._found: dict[Held, int | Known] = {}
        self._since: dict[Held, float] = {}

    def offset(self, wanted: Held, now: float) -> int | Known:
        """The offset of the batch's first record; NOT_YET: it has to be looked up."""
        known = self._found.get(wanted)
        if known is not None:
            return known
        if len(self._since) >= MAX_KEPT:
            self._since.clear()
        return Known.NEVER if now - self._since.setdefault(wanted, now) > MAX_WAIT_S else Known.NOT_YET

    def learn(self, wanted: Held, offset: int | None) -> None:
        """What a look-up came to; None: the batch is not there, or too far away."""
        if len(self._found) >= MAX_KEPT:
            self._found.clear()
        self._since.pop(wanted, None)
        self._found[wanted] = Known.NEVER if offset is None else offset
