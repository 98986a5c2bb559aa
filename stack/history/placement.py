"""Checks of logs: one offset per record, order, and no append to the old cluster after a cut."""

from collections import defaultdict
from collections.abc import Iterator

from stack.history.events import Acked, Delivered, Failed, Sent
from stack.history.history import History, Spot, Truth, Values
from stack.history.violation import Violation

_LOG = "log"


class ValuePlacements:
    """Offsets of each value in acknowledgements, deliveries and logs."""

    def __init__(self, history: History, truth: Truth) -> None:
        self.by_value: dict[Spot, dict[str, dict[int, str]]] = defaultdict(lambda: defaultdict(dict))
        """Partition → value → offset → first witness."""
        self.by_offset: dict[Spot, dict[int, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
        self.acknowledged_at: dict[tuple[Spot, str], int] = {}
        for spot, records in truth.records.items():
            for offset, value in records.items():
                self._see(spot, offset, value, _LOG)
        seen = (event for events in history.clients.values() for event in events)
        for event in seen:
            if isinstance(event, Acked) and event.offset >= 0:
                self.acknowledged_at.setdefault(((event.topic, event.partition), event.value), event.offset)
                self._see((event.topic, event.partition), event.offset, event.value, f"answer to {event.client}")
            elif isinstance(event, Delivered):
                who = f"delivery to {event.client}"
                self._see((event.topic, event.partition), event.offset, event.value, who)

    def _see(self, spot: Spot, offset: int, value: str, who: str) -> None:
        self.by_value[spot][value].setdefault(offset, who)
        self.by_offset[spot][offset].setdefault(value, who)


def renumbered(sightings: ValuePlacements, truth: Truth) -> Iterator[Violation]:
    """A record keeps its offset: that of the log, or else the acknowledged one, or else the first one seen."""
    for spot, values in sightings.by_value.items():
        for value, offsets in values.items():
            if len(offsets) < 2:
                continue
            right = {offset for offset, who in offsets.items() if who == _LOG} if spot in truth.complete else set()
            right = right or {sightings.acknowledged_at.get((spot, value), next(iter(offsets)))}
            for offset in sorted(offsets.keys() - right):
                text = f"{offsets[offset]} says offset {offset}, {offsets[min(right)]} says {min(right)}"
                yield Violation("renumbered", offsets[offset], *spot, value, (min(right), offset), text)


def overwritten(sightings: ValuePlacements) -> Iterator[Violation]:
    """An offset keeps its record."""
    for spot, offsets in sightings.by_offset.items():
        for offset, values in offsets.items():
            if len(values) > 1:
                text = ", ".join(f"{value} by {who}" for value, who in values.items())
                yield Violation("overwritten", next(iter(values.values())), *spot, next(iter(values)), (offset,), text)


def doubled_in_logs(history: History, truth: Truth, values: Values) -> Iterator[tuple[Violation, bool]]:
    """Values that are twice in a partition, and whether that is excused.

    It is excused for a producer without idempotence, if the record was in flight (from `Sent` to its answer) during a
    recorded fault: its library may have sent it again because the answer was lost. A cut is no fault: a fence refuses
    without appending.
    """
    on_its_way = _flights(history)
    for spot, records in truth.records.items():
        places: dict[str, list[int]] = defaultdict(list)
        for offset, value in records.items():
            places[value].append(offset)
        for value, offsets in places.items():
            if len(offsets) < 2:
                continue
            place = values.place(value)
            producer = values.producers.get(place[0]) if place else None
            since, until = on_its_way.get(value, (0.0, 0.0))
            excused = (
                producer is not None
                and not producer.idempotent
                and any(fault.t <= until and since <= fault.until for fault in history.faults)
            )
            kind = "idempotent" if producer is None or producer.idempotent else "not idempotent"
            text = f"appended {len(offsets)} times by {producer.client if producer else 'an unknown producer'} ({kind})"
            yield Violation("doubled", _LOG, *spot, value, tuple(sorted(offsets)), text), excused


def _flights(history: History) -> dict[str, tuple[float, float]]:
    flights: dict[str, tuple[float, float]] = {}
    for events in history.clients.values():
        for event in events:
            if isinstance(event, Sent):
                flights[event.value] = (event.t, float("inf"))
            elif isinstance(event, Acked | Failed):
                flights[event.value] = (flights.get(event.value, (event.t, 0.0))[0], event.t)
    return flights


def disordered(sightings: ValuePlacements, truth: Truth, values: Values) -> Iterator[Violation]:
    """Within a partition, records of an ordered producer are in the order of sending."""
    for spot, everything in sightings.by_offset.items():
        seen = {offset: tuple(there) for offset, there in everything.items()}
        if spot in truth.complete:
            seen = {offset: (value,) for offset, value in truth.records[spot].items()}
        latest: dict[str, tuple[int, int, str]] = {}
        done: set[str] = set()
        for offset, value in [(place, one) for place in sorted(seen) for one in seen[place]]:
            place = values.place(value)
            if place is None or value in done or not values.producers[place[0]].ordered:
                continue
            done.add(value)  # a second copy is a doubled record, not a disordered one
            producer, number = place
            before = latest.get(producer)
            if before is not None and number < before[0]:
                text = f"{producer} sent it before {before[2]}, which lies at {before[1]}"
                yield Violation("disordered", producer, *spot, value, (before[1], offset), text)
            else:
                latest[producer] = (number, offset, value)


def late_appends(history: History, sightings: ValuePlacements, truth: Truth) -> Iterator[tuple[Violation, bool]]:
    """Records that the old cluster appended after a cut, and whether that is excused.

    A gateway that is stopped between its last clock check and its send sends when it resumes, and brokers append it.
    That is excused if a recorded fault hit a gateway, the record was in flight then, and it was never acknowledged or
    delivered.
    """
    on_its_way = _flights(history) if truth.late else {}
    stopped = [fault for fault in history.faults if "gateway" in fault.what]
    for late in truth.late:
        dump = late.dump
        delivered = late.value in sightings.by_offset[dump.topic, dump.partition][late.offset]
        since, until = on_its_way.get(late.value, (0.0, 0.0))
        excused = not delivered and any(fault.t <= until and since <= fault.until for fault in stopped)
        text = f"{dump.cluster} holds it at its own offset {late.physical}, beyond the end of its stay as the writer"
        where = (dump.cluster, dump.topic, dump.partition)
        yield Violation("late append", *where, late.value, (late.physical,), text), excused
