"""Order of a producer's batches after one was refused here: shared by all sessions of a user.

Clients pipeline: when a batch is refused, the next ones are in flight already, and by the time they are read the reason
may be gone. The broker would answer OUT_OF_ORDER_SEQUENCE_NUMBER; librdkafka then raises its epoch and resends all
batches without an answer, also those that are in the log (KIP-360): duplicate records.

This also applies to a batch in flight across a cut: a later batch of its producer waits for it, if it comes straight to
the target, or crosses the cut while the earlier one is resent after a refusal.

Invariant: after a refused batch, the next forwarded batch of its producer for that partition is the refused one, or an
earlier one. The rule ends `FORGET_S` after its client last heard of the refusal: it has gone elsewhere. (As long as the
answer waits for late ones, the client goes on sending later batches.) Batches that were refused because they had to
wait for that one are then waited for in their turn. The rule ends at once when the client hears that a later batch is
written: it then takes the refused one for written, too.

Each user has its own `ProducerOrder`: clients choose producer ids and sequences freely, and a refused batch of one user
must not hold up another user's producer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from ha_core.plan.routing.bounded_cache import MAX_NAME
from ha_core.wire.records import Batch
from ha_core.wire.sequences import at_or_before, last_sequence

Key = tuple[bytes, int]

FORGET_S = 5.0
"""Clients retry within their `retry.backoff.max.ms` (1 s by default)."""
LOST_S = 30.0
"""Longer than a request takes: a dispatched batch that was never acknowledged is no longer waited for."""
UNTOLD_S = 120.0
"""Longer than clients wait for an answer. The end of a connection also informs its client."""
MAX_REMEMBERED = 100_000
"""Producers and partitions of one user: they come from the wire."""
MAX_UNDER_WAY = 100
"""Per producer and partition: more than a client has in flight there over several connections."""
MAX_WAITED_FOR = 8
"""Batches per producer and partition: more than a client has in flight there (5)."""


@dataclass(slots=True, eq=False)
class RefusedBatch:
    """A batch that its client has to send again.

    :ivar until: later batches wait for it until then.
    """

    epoch: int
    sequence: int
    until: float


@dataclass(slots=True, eq=False)
class Dispatch:
    """One dispatch of a batch across a cut: its client may have sent the batch over several connections.

    :ivar behind_refused: an earlier batch was refused here meanwhile. Its client may resend that one through another
        gateway, and however late this one is answered, it must not be in the target first.
    """

    dispatched_at: float
    behind_refused: bool = False


class ProducerOrder:
    """Batches that each producer of one user has to send again, by partition."""

    def __init__(self, waiting: set[ProducerOrder]) -> None:
        """:param waiting: keeps this object alive while it knows of a batch."""
        self._waiting = waiting
        self.waited_for: dict[tuple[Key, int], list[RefusedBatch]] = {}
        """Refused batches of one epoch, the earliest first. Rejecting a batch again does not release later ones: each
        must be retried, possibly over another connection."""
        self.topics: Counter[bytes] = Counter()
        """Topics of those, so that writes to other topics are not held up while many topics move for hours."""
        self._look_at = 0.0
        self.under_way: dict[tuple[Key, int], dict[tuple[int, int], Dispatch]] = {}
        """(epoch, base sequence) of a batch that crosses a cut → its last dispatch."""

    def watches(self, topics: Iterable[bytes] | None, now: float) -> bool:
        """True if batches of these topics have to be examined; None: of any topic."""
        if self.waited_for and now >= self._look_at:
            self._forget(now)
            self._look_at = now + FORGET_S
        return bool(self.topics) and (topics is None or not self.topics.keys().isdisjoint(topics))

    def refused(self, key: Key, batch: Batch, now: float) -> RefusedBatch | None:
        """Notes a batch that is in no log; its client resends it once the refusal has reached it (`delivered`)."""
        # No topic has a name above `MAX_NAME`, and 100,000 of them fill the memory.
        if not _ordered(batch) or len(key[0]) > MAX_NAME:
            return None
        producer, epoch, sequence = (key, batch.producer_id), batch.producer_epoch, batch.base_sequence
        batches = _kept(self.waited_for.get(producer, []), now)
        if batches and batches[0].epoch > epoch:
            return None
        waited_for = [
            refused_batch
            for refused_batch in batches
            if refused_batch.epoch == epoch and refused_batch.sequence != sequence
        ]
        if len(waited_for) >= MAX_WAITED_FOR:
            del waited_for[1]  # the client has the latest ones in flight now
        refused = RefusedBatch(epoch, sequence, now + UNTOLD_S)
        waited_for.insert(sum(at_or_before(refused_batch.sequence, sequence) for refused_batch in waited_for), refused)
        self._wait_for(producer, waited_for)
        if len(self.waited_for) > MAX_REMEMBERED:
            self._wait_for(next(iter(self.waited_for)), [])  # the least recent one
        for sent, dispatch in self.under_way.get(producer, {}).items():
            dispatch.behind_refused |= sent[0] == epoch and sent[1] != sequence and at_or_before(sequence, sent[1])
        return refused

    def delivered(self, refused: Iterable[RefusedBatch], now: float) -> None:
        """The client knows of the refusals, or retries because its connection ends."""
        for batch in refused:
            batch.until = now + FORGET_S

    def admit(self, key: Key, batch: Batch, now: float) -> bool:
        """True if a batch may go on; the caller forwards it, or refuses it again. False: an earlier one has to come
        first."""
        if self.waits(key, batch, now):
            return False
        # Release only the records that it holds: it may come over a connection that its client has given up, and later
        # refused batches over another one, with more in flight there.
        self._stop_waiting(key, batch)
        return True

    def waits(self, key: Key, batch: Batch, now: float) -> bool:
        """True if an earlier batch has to come first."""
        producer = (key, batch.producer_id)
        if producer not in self.waited_for or not _ordered(batch) or not (batches := self._known(producer, now)):
            return False
        return batch.producer_epoch == batches[0].epoch and not at_or_before(batch.base_sequence, batches[0].sequence)

    def taken(self, key: Key, batch: Batch) -> None:
        """A client hears that a batch is written. Earlier ones then count as written, too, even if a broker reported a
        refusal after appending one: librdkafka takes them for acknowledged, and does not resend them."""
        self._stop_waiting(key, batch)

    def _stop_waiting(self, key: Key, batch: Batch) -> None:
        """Stops waiting for the batch and for all earlier ones."""
        producer, epoch = (key, batch.producer_id), batch.producer_epoch
        batches = self.waited_for.get(producer)
        # A batch of an older epoch is for its broker to refuse: the awaited ones are still to come.
        if batches and epoch >= batches[0].epoch and _ordered(batch):
            last = last_sequence(batch.base_sequence, max(1, batch.records_count))
            self._wait_for(
                producer,
                [
                    refused_batch
                    for refused_batch in batches
                    if refused_batch.epoch == epoch and not at_or_before(refused_batch.sequence, last)
                ],
            )

    def _known(self, producer: tuple[Key, int], now: float) -> list[RefusedBatch]:
        """Batches of a producer that are waited for; drops expired ones."""
        refused = self.waited_for[producer]
        if now > refused[0].until:
            refused = _kept(refused, now)
            self._wait_for(producer, refused)
        return refused

    def _wait_for(self, producer: tuple[Key, int], refused: list[RefusedBatch]) -> None:
        topic, batches = producer[0][0], self.waited_for.pop(producer, None)
        if refused:
            self._waiting.add(self)
            self.topics[topic] += batches is None
            self.waited_for[producer] = refused
        elif batches is not None:
            self.topics[topic] -= 1
            if not self.topics[topic]:
                del self.topics[topic]

    def _forget(self, now: float) -> None:
        self.waited_for = {
            producer: kept for producer, refused in self.waited_for.items() if (kept := _kept(refused, now))
        }
        self.topics = Counter(topic for (topic, _), _ in self.waited_for)

    def forgets_all(self, now: float) -> bool:
        """Drops expired entries. True if none is left."""
        self._forget(now)
        for producer, dispatches in tuple(self.under_way.items()):
            if all(now - dispatch.dispatched_at > LOST_S for dispatch in dispatches.values()):
                del self.under_way[producer]
        return not self.waited_for and not self.under_way

    def dispatched(self, key: Key, batch: Batch, now: float) -> Dispatch:
        """The batch goes to one cluster, and possibly to another one afterwards."""
        dispatch = Dispatch(now)
        if _ordered(batch):
            self._waiting.add(self)
            producer, sent = (key, batch.producer_id), (batch.producer_epoch, batch.base_sequence)
            dispatches = self.under_way.pop(producer, {})
            dispatches.pop(sent, None)
            dispatches[sent] = dispatch
            self.under_way[producer] = dispatches
            # The latest stand last. Those that are never answered stand first, and are dropped first.
            if len(dispatches) > MAX_UNDER_WAY:
                del dispatches[next(iter(dispatches))]
            if len(self.under_way) > MAX_REMEMBERED:
                del self.under_way[next(iter(self.under_way))]
        return dispatch

    def is_under_way(self, key: Key, batch: Batch) -> bool:
        """True if it was dispatched, and has not been answered since, over any connection."""
        return (batch.producer_epoch, batch.base_sequence) in self.under_way.get((key, batch.producer_id), ())

    def answered(self, key: Key, batch: Batch, dispatch: Dispatch) -> None:
        """The batch is answered. Only its last dispatch counts: an answer to an older one ends nothing. A batch without
        an answer, because its connection broke, is settled by a retry, or forgotten."""
        if (
            self.under_way.get((key, batch.producer_id), {}).get((batch.producer_epoch, batch.base_sequence))
            is dispatch
        ):
            self._settle(key, batch)

    def _settle(self, key: Key, batch: Batch) -> None:
        dispatches = self.under_way[key, batch.producer_id]
        dispatches.pop((batch.producer_epoch, batch.base_sequence), None)
        if not dispatches:
            del self.under_way[key, batch.producer_id]

    def admit_to_target(self, key: Key, batch: Batch, now: float) -> bool:
        """True if a batch may go straight to the target. False: an earlier one is in flight across the cut.

        If this batch itself is in flight, this is a retry: the target takes the second one for a duplicate.
        """
        crossing = self._crossing(key, batch, now)
        if _earlier(crossing, batch) or any(epoch != batch.producer_epoch for epoch, _ in crossing):
            return False
        if crossing:
            self._settle(key, batch)
        return True

    def earlier_under_way(self, key: Key, batch: Batch, now: float) -> bool:
        """True if an earlier batch is in flight: it was refused, and its client has sent it again."""
        return _earlier(self._crossing(key, batch, now), batch)

    def _crossing(self, key: Key, batch: Batch, now: float) -> dict[tuple[int, int], Dispatch]:
        dispatches = self.under_way.get((key, batch.producer_id)) if self.under_way else None
        if dispatches is None:
            return {}
        for lost in [sent for sent, dispatch in dispatches.items() if now - dispatch.dispatched_at > LOST_S]:
            del dispatches[lost]
        if not dispatches:
            del self.under_way[key, batch.producer_id]
        return dispatches


class ProducerOrders:
    """The order of each user's producers."""

    def __init__(self) -> None:
        self._of_user: WeakValueDictionary[str | None, ProducerOrder] = WeakValueDictionary()
        """Held by the sessions of each user."""
        self._waiting: set[ProducerOrder] = set()
        """Orders that know of a batch: it may be retried over a connection that its client has yet to open."""
        self._look_at = 0.0

    def of(self, user: str | None, now: float = 0.0) -> ProducerOrder:
        """The order of a user's producers. Clients without a login (None) share one."""
        if now >= self._look_at:
            self._waiting -= {order for order in self._waiting if order.forgets_all(now)}
            self._look_at = now + FORGET_S
        order = self._of_user.get(user)
        if order is None:
            order = self._of_user[user] = ProducerOrder(self._waiting)
        return order


def _earlier(crossing: Iterable[tuple[int, int]], batch: Batch) -> bool:
    return any(
        epoch == batch.producer_epoch
        and sequence != batch.base_sequence
        and at_or_before(sequence, batch.base_sequence)
        for epoch, sequence in crossing
    )


def _ordered(batch: Batch) -> bool:
    return batch.magic == 2 and batch.producer_id >= 0 and batch.base_sequence >= 0


def _kept(refused: list[RefusedBatch], now: float) -> list[RefusedBatch]:
    return [batch for batch in refused if now <= batch.until]
