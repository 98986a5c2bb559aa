"""Batches of a producer that must not overtake one that was refused here: shared by all sessions of a gateway.

A client pipelines. When a batch is refused, the next ones are on their way already, and by the time they are read the
reason may be gone. The broker would answer OUT_OF_ORDER_SEQUENCE_NUMBER; librdkafka then raises its epoch and sends
again all that it has no answer for, also what is in the log (KIP-360): a doubled record.

The same for a batch that is on its way across a cut: a later one of its producer that comes straight to the target, or
that crosses the cut while the first is sent again after a refusal, waits for it.

Invariant: after a refused batch, the next one of its producer that is forwarded for that partition is the refused one,
or one before it. The rule ends `FORGET_S` after it was refused last: its client has gone elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ha_core.plan.remembered import MAX_NAME
from ha_core.wire.records import Batch
from ha_core.wire.sequences import at_or_before

Key = tuple[bytes, int]

FORGET_S = 5.0
"""Clients come back within their `retry.backoff.max.ms` (1 s by default)."""
LOST_S = 30.0
"""Longer than a request takes: what has departed and never arrived is not waited for any more."""
MAX_REMEMBERED = 100_000
"""Producers and partitions come from the wire."""


class _Refused(NamedTuple):
    epoch: int
    sequence: int
    at: float


class ProducerOrder:
    """The earliest batch that each producer has to send again, by partition."""

    def __init__(self) -> None:
        self.earliest: dict[tuple[Key, int], _Refused] = {}
        """Of those that were refused."""
        self._until = 0.0
        self.under_way: dict[tuple[Key, int], dict[tuple[int, int], float]] = {}
        """(epoch, base sequence) of what crosses a cut → when it departed last."""

    def watches(self, now: float) -> bool:
        """Whether any batch has to be looked at."""
        if self.earliest and now > self._until:
            self.earliest.clear()
        return bool(self.earliest)

    def refused(self, key: Key, batch: Batch, now: float) -> None:
        """The batch is in no log, and its client sends it again."""
        if not _ordered(batch) or len(key[0]) > MAX_NAME:  # no topic is called so, and a hundred thousand fill memory
            return
        place = (key, batch.producer_id)
        earliest = self.earliest.get(place)
        if (
            earliest is None
            or _expired(earliest, now)
            or earliest.epoch < batch.producer_epoch
            or (earliest.epoch == batch.producer_epoch and at_or_before(batch.base_sequence, earliest.sequence))
        ):
            if earliest is None and len(self.earliest) >= MAX_REMEMBERED:
                self.earliest = {other: at for other, at in self.earliest.items() if not _expired(at, now)}
                if len(self.earliest) >= MAX_REMEMBERED:
                    self.earliest.clear()
            self.earliest[place] = _Refused(batch.producer_epoch, batch.base_sequence, now)
            self._until = now + FORGET_S

    def admit(self, key: Key, batch: Batch, now: float) -> bool:
        """Lets a batch go on, which the caller forwards, or refuses anew. False: an earlier one has to come first."""
        earliest = self.earliest.get((key, batch.producer_id))
        if earliest is None or not _ordered(batch):
            return True
        same = earliest.epoch == batch.producer_epoch and not _expired(earliest, now)
        if same and batch.base_sequence != earliest.sequence:
            return at_or_before(batch.base_sequence, earliest.sequence)
        del self.earliest[key, batch.producer_id]
        return True

    def departed(self, key: Key, batch: Batch, now: float) -> None:
        """The batch goes to one cluster, and maybe to another one afterwards."""
        if _ordered(batch):
            if len(self.under_way) >= MAX_REMEMBERED:
                self.under_way = {
                    place: sent for place, sent in self.under_way.items() if now - max(sent.values()) <= LOST_S
                }
            place = self.under_way.setdefault((key, batch.producer_id), {})
            place[batch.producer_epoch, batch.base_sequence] = now

    def arrived(self, key: Key, batch: Batch) -> None:
        """It is answered. What never is, because its connection broke, arrives by a retry, or is forgotten."""
        place = self.under_way.get((key, batch.producer_id))
        if place is not None:
            place.pop((batch.producer_epoch, batch.base_sequence), None)
            if not place:
                del self.under_way[key, batch.producer_id]

    def admit_to_target(self, key: Key, batch: Batch, now: float) -> bool:
        """Lets a batch go straight to the target. False: one that has to come first is on its way across the cut.

        If this one itself is on its way, it is a retry: the target takes the second for the duplicate that it is.
        """
        crossing = self._crossing(key, batch, now)
        if _earlier(crossing, batch) or any(epoch != batch.producer_epoch for epoch, _ in crossing):
            return False
        if crossing:
            self.arrived(key, batch)
        return True

    def earlier_under_way(self, key: Key, batch: Batch, now: float) -> bool:
        """Whether one before this one is on its way: it was refused, and its client has sent it again."""
        return _earlier(self._crossing(key, batch, now), batch)

    def _crossing(self, key: Key, batch: Batch, now: float) -> dict[tuple[int, int], float]:
        place = self.under_way.get((key, batch.producer_id)) if self.under_way else None
        if place is None:
            return {}
        for lost in [sent for sent, at in place.items() if now - at > LOST_S]:
            del place[lost]
        if not place:
            del self.under_way[key, batch.producer_id]
        return place


def _earlier(crossing: Iterable[tuple[int, int]], batch: Batch) -> bool:
    return any(
        epoch == batch.producer_epoch
        and sequence != batch.base_sequence
        and at_or_before(sequence, batch.base_sequence)
        for epoch, sequence in crossing
    )


def _ordered(batch: Batch) -> bool:
    return batch.magic == 2 and batch.producer_id >= 0 and batch.base_sequence >= 0


def _expired(earliest: _Refused, now: float) -> bool:
    return now - earliest.at > FORGET_S
