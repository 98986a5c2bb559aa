"""Checks of deliveries: everything acknowledged, once, in order, without gaps."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from stack.history.events import (
    Acked,
    Assigned,
    ClientStarted,
    Committed,
    Delivered,
    Event,
    Failed,
    Positioned,
    Revoked,
)
from stack.history.history import History, HistoryCut, Spot, Truth, Values, rebuild_stays
from stack.history.violation import Violation

Redelivery = Literal["uncommitted", "never"]
"""Records that a group may get again at their offset in a new assignment: uncommitted ones, or none."""

_MAX_NAMED = 20


def acknowledged(history: History, values: Values) -> dict[str, Acked]:
    """Records that must not be lost: acknowledged, and committed if they are in a transaction."""
    return {
        event.value: event
        for events in history.clients.values()
        for event in events
        if isinstance(event, Acked) and values.outcome(event.value) in (None, "committed")
    }


def readers_of(history: History) -> dict[str, list[ClientStarted]]:
    """Consumers by group; one without a group is a reader of its own name."""
    readers: dict[str, list[ClientStarted]] = defaultdict(list)
    for name, started in history.started().items():
        if started.role == "consumer":
            readers[started.group or name].append(started)
    return dict(readers)


def lost(
    history: History, promised: dict[str, Acked], readers: Collection[str], values: Values, truth: Truth
) -> Iterator[Violation]:
    """Acknowledged ⊆ delivered, for each of `readers` (which must have read their topics from start to end)."""
    known = readers_of(history)
    in_logs = {(spot, value): offset for spot, records in truth.records.items() for offset, value in records.items()}
    for reader in readers:
        topics = {topic for started in known[reader] for topic in started.topics}
        members = {started.client for started in known[reader]}
        got = {e.value for name in members for e in history.clients[name] if isinstance(e, Delivered)}
        for value, ack in promised.items():
            if ack.topic in topics and value not in got:
                where = in_logs.get(((ack.topic, ack.partition), value))
                text = "acknowledged and not delivered; " + (
                    f"the logs hold it at {where}" if where is not None else "no dumped log holds it"
                )
                yield Violation("lost", reader, ack.topic, ack.partition, value, (ack.offset,), text)
    shortened = {(dump.topic, dump.partition) for dump in history.logs if dump.start > 0}
    for value, ack in promised.items():
        spot = (ack.topic, ack.partition)
        if spot in truth.complete - shortened and (spot, value) not in in_logs:
            yield Violation("lost", "log", *spot, value, (ack.offset,), "acknowledged, and in no cluster's log")


def phantoms(history: History, values: Values) -> Iterator[Violation]:
    """Every delivered record was sent, and its producer was not told that it was certainly not appended."""
    refused = {
        event.value: event.error
        for events in history.clients.values()
        for event in events
        if isinstance(event, Failed) and event.definite
    }
    for name, events in history.clients.items():
        for event in events:
            if not isinstance(event, Delivered):
                continue
            if event.value in refused:
                text = f"its producer was told that it was not appended: {refused[event.value]}"
            elif not values.may_exist(event.value):
                text = "no producer of this history sent it"
            else:
                continue
            yield Violation("phantom", name, event.topic, event.partition, event.value, (event.offset,), text)


@dataclass
class _Assignment:
    number: int
    committed: int


class GroupWalk:
    """One reader's deliveries in order of time, compared with its earlier deliveries and commits."""

    def __init__(self, reader: str, redelivery: Redelivery, truth: Truth) -> None:
        self.reader = reader
        self.redelivery = redelivery
        self.truth = truth
        self.repeated = 0
        """Legal redeliveries."""
        self._seen: dict[tuple[Spot, str], tuple[int, str, int]] = {}
        self._committed: dict[Spot, int] = {}
        self._assignments: dict[tuple[str, Spot], _Assignment] = {}

    def walk(self, events: list[Event]) -> Iterator[Violation]:
        for event in events:
            if isinstance(event, Committed):
                spot = (event.topic, event.partition)
                self._committed[spot] = max(event.offset, self._committed.get(spot, 0))
            elif isinstance(event, Assigned):
                for spot in event.partitions:
                    self._new_assignment(event.client, spot, self._committed.get(spot, 0))
            elif isinstance(event, Positioned):
                self._new_assignment(event.client, (event.topic, event.partition), -1)
            elif isinstance(event, Delivered):
                yield from self._deliver(event)

    def _new_assignment(self, client: str, spot: Spot, committed: int) -> None:
        before = self._assignments.get((client, spot))
        self._assignments[client, spot] = _Assignment(before.number + 1 if before else 1, committed)

    def _deliver(self, event: Delivered) -> Iterator[Violation]:
        spot = (event.topic, event.partition)
        now = self._assignments.setdefault((event.client, spot), _Assignment(0, 0))
        before = self._seen.get((spot, event.value))
        if before is None:
            self._seen[spot, event.value] = (event.offset, event.client, now.number)
            return
        offset, client, number = before
        if offset != event.offset:
            held = self.truth.records[spot] if spot in self.truth.complete else {}
            if held.get(offset) == event.value == held.get(event.offset):
                return  # the log holds it twice: reported, or excused, by that check
            text = f"{client} got it at {offset}, {event.client} at {event.offset}"
            yield Violation("doubled", self.reader, *spot, event.value, (offset, event.offset), text)
        elif now.committed < 0:
            self._seen[spot, event.value] = (event.offset, event.client, now.number)  # after a seek
        elif (client, number) == (event.client, now.number):
            text = f"{event.client} got it twice without a new assignment"
            yield Violation("doubled", self.reader, *spot, event.value, (offset,), text)
        elif self.redelivery == "never" or event.offset < now.committed:
            text = f"{client} got it before; {event.client} was assigned when {now.committed} was committed"
            yield Violation("redelivered", self.reader, *spot, event.value, (offset,), text)
        else:
            self.repeated += 1
            self._seen[spot, event.value] = (event.offset, event.client, now.number)


def walk_consumer(history: History, name: str, values: Values, truth: Truth) -> Iterator[Violation]:
    """One consumer: offsets rise, none is skipped, no record of an aborted transaction is delivered."""
    committed_only = history.started()[name].isolation == "read_committed"
    legal = Gaps(history, values, truth)
    position: dict[Spot, int] = {}
    for event in history.clients[name]:
        if isinstance(event, Assigned | Revoked):
            for spot in event.partitions:
                position.pop(spot, None)
        elif isinstance(event, Positioned):
            position.pop((event.topic, event.partition), None)
        elif isinstance(event, Delivered):
            spot = (event.topic, event.partition)
            last = position.get(spot)
            position[spot] = event.offset
            if committed_only and values.outcome(event.value) == "aborted":
                text = "its transaction was aborted"
                yield Violation("aborted delivered", name, *spot, event.value, (event.offset,), text)
            if last is None:
                continue
            if event.offset <= last:
                text = f"offset {event.offset} after {last} without a seek or a new assignment"
                yield Violation("went back", name, *spot, event.value, (last, event.offset), text)
            elif event.offset > last + 1 and (missing := legal.missing(spot, last + 1, event.offset, committed_only)):
                named, more = missing[:_MAX_NAMED], len(missing) - _MAX_NAMED
                text = f"from {last} to {event.offset}" + (f", {more} more" if more > 0 else "")
                yield Violation("gap", name, *spot, None, tuple(named), text)


class Gaps:
    """Offsets that a consumer must not skip.

    Legal gaps are holes between two extents, transaction markers, and aborted records for read_committed. If the
    logs are known, all their records must be delivered; otherwise every offset, unless the topic had transactions.
    """

    def __init__(self, history: History, values: Values, truth: Truth) -> None:
        self._cuts: tuple[HistoryCut, ...] = history.cuts
        self._values = values
        self._truth = truth
        self._marked = values.transactional_topics()
        self._offsets = {spot: sorted(truth.records.get(spot, ())) for spot in truth.complete}

    def missing(self, spot: Spot, start: int, end: int, committed_only: bool) -> list[int]:
        """Offsets in `[start, end)` that should have been delivered."""
        if spot in self._offsets:
            offsets, records = self._offsets[spot], self._truth.records[spot]
            held = offsets[bisect_left(offsets, start) : bisect_left(offsets, end)]
            if not committed_only:
                return held
            return [offset for offset in held if self._values.outcome(records[offset]) not in ("aborted", "unknown")]
        if spot[0] in self._marked:
            return []
        spans = [(start, end)]
        found = rebuild_stays(self._cuts, *spot)
        for left, right in pairwise(found):
            hole = (left.end if left.end is not None else right.start, right.start)
            spans = [piece for span in spans for piece in _without(span, hole)]
        return [offset for low, high in spans for offset in range(low, min(high, low + 10_000))]


def _without(span: tuple[int, int], hole: tuple[int, int]) -> Iterator[tuple[int, int]]:
    for low, high in ((span[0], min(span[1], hole[0])), (max(span[0], hole[1]), span[1])):
        if low < high:
            yield low, high
