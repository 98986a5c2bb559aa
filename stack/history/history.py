"""A whole history: the events of all clients, the cuts of partitions, and the clusters' logs at the end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stack.history.events import ClientStarted, Event, Sent, TransactionEnded, read_events

Spot = tuple[str, int]
"""A partition: (topic, partition)."""


@dataclass(frozen=True, slots=True)
class HistoryCut:
    """One partition changed its writer.

    `cut` is a client offset. `origin_end` is the end of the origin's log when its last extent ended, `target_base`
    the end of the target's log when its extent began; both are physical offsets.
    """

    topic: str
    partition: int
    cut: int
    origin: str
    target: str
    origin_end: int
    target_base: int
    ahead: bool = False
    """The origin's log ran into the cut: its records above the cut are surplus, the target's copies count."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An injected fault from `t` to `until`: answers of requests in flight may have been lost."""

    t: float
    until: float
    what: str


@dataclass(frozen=True, slots=True)
class LogDump:
    """One partition read from one cluster, aborted records included: physical offset → value."""

    cluster: str
    topic: str
    partition: int
    start: int
    end: int
    records: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Stay:
    """Client offsets `[start, end)` are in `cluster` from `base`; `end` None is open."""

    cluster: str
    start: int
    end: int | None
    base: int
    surplus: bool = False
    """The cluster may hold records above the end."""

    def holds(self, physical: int) -> bool:
        return physical >= self.base and (self.end is None or physical < self.base + self.end - self.start)


@dataclass(frozen=True)
class History:
    """Input of the checks; `clients` maps a client's name to its events in the order in which it wrote them."""

    clients: Mapping[str, tuple[Event, ...]]
    cuts: tuple[HistoryCut, ...] = ()
    """In the order in which they were made."""
    faults: tuple[Fault, ...] = ()
    logs: tuple[LogDump, ...] = ()

    def started(self) -> dict[str, ClientStarted]:
        """Every client's first line."""
        return {
            name: first
            for name, events in self.clients.items()
            if (first := next((event for event in events if isinstance(event, ClientStarted)), None)) is not None
        }

    def with_evidence(
        self, cuts: Iterable[HistoryCut] = (), faults: Iterable[Fault] = (), logs: Iterable[LogDump] = ()
    ) -> History:
        return History(self.clients, (*self.cuts, *cuts), (*self.faults, *faults), (*self.logs, *logs))


def read_histories(paths: Iterable[Path]) -> History:
    """The clients' files as one history; raises HistoryError."""
    clients: dict[str, list[Event]] = {}
    for path in paths:
        for event in read_events(path):
            clients.setdefault(event.client, []).append(event)
    return History({name: tuple(events) for name, events in clients.items()})


def rebuild_stays(cuts: Iterable[HistoryCut], topic: str, partition: int) -> tuple[Stay, ...]:
    """Extents of one partition, rebuilt from its cuts; empty if it was never moved."""
    found: list[Stay] = []
    for cut in cuts:
        if (cut.topic, cut.partition) != (topic, partition):
            continue
        if not found:
            found.append(Stay(cut.origin, 0, None, 0))
        last = found.pop()
        found.append(Stay(last.cluster, last.start, last.start + cut.origin_end - last.base, last.base, cut.ahead))
        found.append(Stay(cut.target, cut.cut, None, cut.target_base))
    return tuple(found)


class Values:
    """Producer, sequence and transaction outcome of each value."""

    def __init__(self, history: History) -> None:
        self._order: dict[str, tuple[str, int]] = {}
        self._transaction: dict[str, tuple[str, int]] = {}
        self._outcome: dict[tuple[str, int], str] = {}
        self.producers = {name: started for name, started in history.started().items() if started.role == "producer"}
        for name, events in history.clients.items():
            number = 0
            for event in events:
                if isinstance(event, Sent):
                    self._order.setdefault(event.value, (name, number))
                    number += 1
                    if event.transaction is not None:
                        self._transaction[event.value] = (name, event.transaction)
                elif isinstance(event, TransactionEnded):
                    self._outcome[name, event.transaction] = event.outcome

    def place(self, value: str) -> tuple[str, int] | None:
        """(producer, number of values that it sent before)."""
        return self._order.get(value)

    def may_exist(self, value: str) -> bool:
        """Whether a producer sent it, or may have."""
        return value in self._order or any(
            not started.lists_sends and started.value_prefix and value.startswith(started.value_prefix)
            for started in self.producers.values()
        )

    def outcome(self, value: str) -> str | None:
        """Outcome of its transaction: committed, aborted, unknown; None without one."""
        transaction = self._transaction.get(value)
        return None if transaction is None else self._outcome.get(transaction, "unknown")

    def transactional_topics(self) -> set[str]:
        """Topics whose logs may have transaction markers."""
        clients = {client for client, _ in self._transaction.values()}
        return {topic for client in clients for topic in self.producers[client].topics}


@dataclass(frozen=True, slots=True)
class Late:
    """A record that a cluster appended above the end of its extent."""

    dump: LogDump
    physical: int
    """Its physical offset."""
    offset: int
    """The client offset that a gateway that does not know the cut would report for it."""
    value: str


@dataclass(frozen=True)
class Truth:
    """The clusters' logs, in client offsets."""

    records: Mapping[Spot, Mapping[int, str]] = field(default_factory=dict)
    """Per partition: client offset → value."""
    late: tuple[Late, ...] = ()
    """Records from before the first extent do not count, nor does surplus: an acknowledged record without another copy
    is lost."""
    complete: frozenset[Spot] = frozenset()
    """Partitions with a log dump of every cluster that ever held them."""

    @classmethod
    def of(cls, history: History) -> Truth:
        records: dict[Spot, dict[int, str]] = {}
        late: list[Late] = []
        dumped: dict[Spot, set[str]] = {}
        for dump in history.logs:
            spot = (dump.topic, dump.partition)
            found = rebuild_stays(history.cuts, *spot)
            dumped.setdefault(spot, set()).add(dump.cluster)
            here = records.setdefault(spot, {})
            mine = sorted((stay for stay in found if stay.cluster == dump.cluster), key=lambda stay: stay.base)
            bases = [stay.base for stay in mine]
            for physical, value in dump.records.items():
                if not found:
                    here[physical] = value
                    continue
                # an extent without records shares its base with the next one in the same cluster
                position = bisect_right(bases, physical) - 1
                if position < 0:
                    continue
                stay = mine[position]
                offset = stay.start + physical - stay.base
                if stay.holds(physical):
                    here[offset] = value
                elif not stay.surplus:
                    late.append(Late(dump, physical, offset, value))
        complete = {
            spot
            for spot, clusters in dumped.items()
            if {stay.cluster for stay in rebuild_stays(history.cuts, *spot)} <= clusters
        }
        return cls(records, tuple(late), frozenset(complete))
