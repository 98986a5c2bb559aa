"""Batches of a producer that must not overtake one that was refused here: shared by all sessions of a user.

A client pipelines. When a batch is refused, the next ones are on their way already, and by the time they are read the
reason may be gone. The broker would answer OUT_OF_ORDER_SEQUENCE_NUMBER; librdkafka then raises its epoch and sends
again all that it has no answer for, also what is in the log (KIP-360): a doubled record.

The same for a batch that is on its way across a cut: a later one of its producer that comes straight to the target, or
that crosses the cut while the first is sent again after a refusal, waits for it.

Invariant: after a refused batch, the next one of its producer that is forwarded for that partition is the refused one,
or one before it. The rule ends `FORGET_S` after its client was told last: it has gone elsewhere. (As long as the answer
waits behind others that are late, the client goes on sending what follows.) What was refused meanwhile, because it had
to wait for that one, is then waited for in its turn. It ends at once where the client hears that a later one is
written: it takes the refused one for written, too.

Each user has a `ProducerOrder` of its own: a client writes producer ids and sequences as it likes, and a refused batch
of one user must not hold up the producer of another one.
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
"""Clients come back within their `retry.backoff.max.ms` (1 s by default)."""
LOST_S = 30.0
"""Longer than a request takes: what has departed and never arrived is not waited for any more."""
UNTOLD_S = 120.0
"""Longer than clients wait for an answer. A connection that ends tells its client as well."""
MAX_REMEMBERED = 100_000
"""Producers and partitions of one user: they come from the wire."""
MAX_UNDER_WAY = 100
"""Of one producer and partition: more than a client has on its way there by several connections."""
MAX_WAITED_FOR = 8
"""Batches of one producer and partition: more than a client has on its way there (5)."""


@dataclass(slots=True, eq=False)
class RefusedBatch:
    """A batch that its client has to send again.

    :ivar until: what follows waits for it so long.
    """

    epoch: int
    sequence: int
    until: float


@dataclass(slots=True, eq=False)
class Dispatch:
    """One of the ways on which a batch may be across a cut: its client may have sent it by several connections.

    :ivar behind_refused: one before it was refused here meanwhile. Its client may send that one by another gateway, and
        however late this one is answered, it must not be in the target first.
    """

    departed_at: float
    behind_refused: bool = False


class ProducerOrder:
    """The batches that each producer of one user has to send again, by partition."""

    def __init__(self, waiting: set[ProducerOrder]) -> None:
        """:param waiting: keeps this one while it knows of a batch."""
        self._waiting = waiting
        self.waited_for: dict[tuple[Key, int], list[RefusedBatch]] = {}
        """Those that were refused, of one epoch, the earliest first. One that is refused again ends the wait for none
        of those behind it: each of them has to come again, too, and may do so by another connection."""
        self.topics: Counter[bytes] = Counter()
        """Of those, so that what is written to others is not held up while many topics move for hours."""
        self._look_at = 0.0
        self.under_way: dict[tuple[Key, int], dict[tuple[int, int], Dispatch]] = {}
        """(epoch, base sequence) of what crosses a cut → the way by which it departed last."""

    def watches(self, topics: Iterable[bytes] | None, now: float) -> bool:
        """Whether batches of these topics have to be looked at; None: of any, as far as is known yet."""
        if self.waited_for and now >= self._look_at:
            self._forget(now)
            self._look_at = now + FORGET_S
        return bool(self.topics) and (topics is None or not self.topics.keys().isdisjoint(topics))

    def refused(self, key: Key, batch: Batch, now: float) -> RefusedBatch | None:
        """The batch is in no log, and its client sends it again when it is told so (`told`)."""
        if not _ordered(batch) or len(key[0]) > MAX_NAME:  # no topic is called so, and a hundred thousand fill memory
            return None
        place, epoch, sequence = (key, batch.producer_id), batch.producer_epoch, batch.base_sequence
        known = _kept(self.waited_for.get(place, []), now)
        if known and known[0].epoch > epoch:
            return None
        waited_for = [one for one in known if one.epoch == epoch and one.sequence != sequence]
        if len(waited_for) >= MAX_WAITED_FOR:
            del waited_for[1]  # the latest are what the client has on its way now
        refused = RefusedBatch(epoch, sequence, now + UNTOLD_S)
        waited_for.insert(sum(at_or_before(one.sequence, sequence) for one in waited_for), refused)
        self._wait_for(place, waited_for)
        if len(self.waited_for) > MAX_REMEMBERED:
            self._wait_for(next(iter(self.waited_for)), [])  # refused longest ago
        for sent, way in self.under_way.get(place, {}).items():
            way.behind_refused |= sent[0] == epoch and sent[1] != sequence and at_or_before(sequence, sent[1])
        return refused

    def told(self, refused: Iterable[RefusedBatch], now: float) -> None:
        """Their client knows, or asks again because its connection ends."""
        for one in refused:
            one.until = now + FORGET_S

    def admit(self, key: Key, batch: Batch, now: float) -> bool:
        """Lets a batch go on, which the caller forwards, or refuses anew. False: an earlier one has to come first."""
        if self.waits(key, batch, now):
            return False
        # No more than what it holds: it may come by a connection that its client has given up, and what was refused
        # behind it by another one, with more on its way there.
        self._came(key, batch)
        return True

    def waits(self, key: Key, batch: Batch, now: float) -> bool:
        """Whether an earlier one has to come first."""
        place = (key, batch.producer_id)
        if place not in self.waited_for or not _ordered(batch) or not (known := self._known(place, now)):
            return False
        return batch.producer_epoch == known[0].epoch and not at_or_before(batch.base_sequence, known[0].sequence)

    def taken(self, key: Key, batch: Batch) -> None:
        """A client is told that a batch is written. So are those before it, also where a broker said that it refused
        one that it had appended: librdkafka takes them for acknowledged then, and does not send them again."""
        self._came(key, batch)

    def _came(self, key: Key, batch: Batch) -> None:
        """Neither the batch is waited for any more, nor what comes before it."""
        place, epoch = (key, batch.producer_id), batch.producer_epoch
        known = self.waited_for.get(place)
        # Of an older epoch it is for its broker to refuse: what is waited for is still to come.
        if known and epoch >= known[0].epoch and _ordered(batch):
            last = last_sequence(batch.base_sequence, max(1, batch.records_count))
            self._wait_for(place, [one for one in known if one.epoch == epoch and not at_or_before(one.sequence, last)])

    def _known(self, place: tuple[Key, int], now: float) -> list[RefusedBatch]:
        """What is waited for of a producer; what is not any more is forgotten."""
        refused = self.waited_for[place]
        if now > refused[0].until:
            refused = _kept(refused, now)
            self._wait_for(place, refused)
        return refused

    def _wait_for(self, place: tuple[Key, int], refused: list[RefusedBatch]) -> None:
        topic, known = place[0][0], self.waited_for.pop(place, None)
        if refused:
            self._waiting.add(self)
            self.topics[topic] += known is None
            self.waited_for[place] = refused
        elif known is not None:
            self.topics[topic] -= 1
            if not self.topics[topic]:
                del self.topics[topic]

    def _forget(self, now: float) -> None:
        self.waited_for = {place: kept for place, refused in self.waited_for.items() if (kept := _kept(refused, now))}
        self.topics = Counter(topic for (topic, _), _ in self.waited_for)

    def forgets_all(self, now: float) -> bool:
        """Forgets what is not waited for any more. Whether nothing is left."""
        self._forget(now)
        for place, ways in tuple(self.under_way.items()):
            if all(now - way.departed_at > LOST_S for way in ways.values()):
                del self.under_way[place]
        return not self.waited_for and not self.under_way

    def departed(self, key: Key, batch: Batch, now: float) -> Dispatch:
        """The batch goes to one cluster, and maybe to another one afterwards."""
        way = Dispatch(now)
        if _ordered(batch):
            self._waiting.add(self)
            where, sent = (key, batch.producer_id), (batch.producer_epoch, batch.base_sequence)
            place = self.under_way.pop(where, {})
            place.pop(sent, None)
            place[sent] = way
            self.under_way[where] = place
            # The latest stand last. What is never answered stands first, and is all that goes.
            if len(place) > MAX_UNDER_WAY:
                del place[next(iter(place))]
            if len(self.under_way) > MAX_REMEMBERED:
                del self.under_way[next(iter(self.under_way))]
        return way

    def is_under_way(self, key: Key, batch: Batch) -> bool:
        """Whether it has departed, and has not been answered since, by whatever connection."""
        return (batch.producer_epoch, batch.base_sequence) in self.under_way.get((key, batch.producer_id), ())

    def arrived(self, key: Key, batch: Batch, way: Dispatch) -> None:
        """It is answered, by the way by which it departed last: what an older one says ends nothing. What is never
        answered, because its connection broke, arrives by a retry, or is forgotten."""
        if self.under_way.get((key, batch.producer_id), {}).get((batch.producer_epoch, batch.base_sequence)) is way:
            self._is_there(key, batch)

    def _is_there(self, key: Key, batch: Batch) -> None:
        place = self.under_way[key, batch.producer_id]
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
            self._is_there(key, batch)
        return True

    def earlier_under_way(self, key: Key, batch: Batch, now: float) -> bool:
        """Whether one before this one is on its way: it was refused, and its client has sent it again."""
        return _earlier(self._crossing(key, batch, now), batch)

    def _crossing(self, key: Key, batch: Batch, now: float) -> dict[tuple[int, int], Dispatch]:
        place = self.under_way.get((key, batch.producer_id)) if self.under_way else None
        if place is None:
            return {}
        for lost in [sent for sent, way in place.items() if now - way.departed_at > LOST_S]:
            del place[lost]
        if not place:
            del self.under_way[key, batch.producer_id]
        return place


class ProducerOrders:
    """The order of each user's producers."""

    def __init__(self) -> None:
        self._of_user: WeakValueDictionary[str | None, ProducerOrder] = WeakValueDictionary()
        """Held by the sessions of each user."""
        self._waiting: set[ProducerOrder] = set()
        """Those that know of a batch: it may come again by a connection that its client is yet to open."""
        self._look_at = 0.0

    def of(self, user: str | None, now: float = 0.0) -> ProducerOrder:
        """The order of a user's producers. Clients that have not logged in (None) share one."""
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
    return [one for one in refused if now <= one.until]
