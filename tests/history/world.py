"""A small world that makes clean histories: producers, clusters, cuts and groups that behave."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import strategies as st

from stack.history.events import (
    Acked,
    Assigned,
    ClientStarted,
    ClientStopped,
    Committed,
    Delivered,
    Event,
    Isolation,
    Positioned,
    Revoked,
    Sent,
    TransactionEnded,
)
from stack.history.history import History, HistoryCut, LogDump, rebuild_stays

TOPIC = "orders"
CLUSTERS = ("east", "west", "north")


@dataclass
class World:
    """One topic; time is a counter that every event moves on."""

    random: Random
    partitions: int = 2
    now: float = 1000.0
    events: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    cuts: list[HistoryCut] = field(default_factory=list)
    logs: dict[tuple[str, int], dict[int, str]] = field(default_factory=lambda: defaultdict(dict))
    ends: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    writer: str = CLUSTERS[0]

    def tick(self) -> float:
        self.now += 0.01
        return self.now

    def write(self, event: Event) -> None:
        self.events[event.client].append(event)

    def producer(self, name: str, *, idempotent: bool = True) -> None:
        self.write(
            ClientStarted(
                name,
                self.tick(),
                "producer",
                "model",
                (TOPIC,),
                idempotent=idempotent,
                ordered=idempotent,
                value_prefix=f"{name}-",
            )
        )

    def _physical_base(self, partition: int) -> tuple[int, int]:
        """(client offset, physical offset) where the writer's stay begins."""
        found = rebuild_stays(self.cuts, TOPIC, partition)
        return (found[-1].start, found[-1].base) if found else (0, 0)

    def append(self, value: str, partition: int) -> int:
        """The client offset of a record appended to the writer."""
        end = self.ends[self.writer, partition]
        self.logs[self.writer, partition][end] = value
        self.ends[self.writer, partition] = end + 1
        start, base = self._physical_base(partition)
        return start + end - base

    def produce(self, name: str, count: int, *, transaction: int | None = None, commit: bool = True) -> list[str]:
        """Sends, appends and acknowledges; with a transaction also its marker and its end."""
        values = []
        number = sum(isinstance(event, Sent) for event in self.events[name])
        touched = set()
        for index in range(number, number + count):
            value, partition = f"{name}-{index}", self.random.randrange(self.partitions)
            touched.add(partition)
            values.append(value)
            self.write(Sent(name, self.tick(), TOPIC, value, transaction=transaction))
            offset = self.append(value, partition)
            self.write(Acked(name, self.tick(), TOPIC, partition, offset, value, transaction))
        if transaction is not None:
            for partition in touched:
                self.ends[self.writer, partition] += 1
            self.write(TransactionEnded(name, self.tick(), transaction, "committed" if commit else "aborted"))
        return values

    def cut(self, target: str, hole: int = 0) -> None:
        """Every partition changes its writer; `hole` client offsets are skipped, as a forced move does."""
        for partition in range(self.partitions):
            start, base = self._physical_base(partition)
            origin_end = self.ends[self.writer, partition]
            cut = start + origin_end - base + hole
            target_base = self.ends[target, partition]
            self.cuts.append(HistoryCut(TOPIC, partition, cut, self.writer, target, origin_end, target_base))
        self.writer = target

    def records(self, partition: int) -> dict[int, str]:
        """Client offset → value, over all clusters."""
        found = rebuild_stays(self.cuts, TOPIC, partition)
        if not found:
            return dict(self.logs[self.writer, partition])
        return {
            stay.start + physical - stay.base: value
            for stay in found
            for physical, value in self.logs[stay.cluster, partition].items()
            if stay.holds(physical)
        }

    def consume(
        self,
        group: str,
        *,
        members: int = 1,
        isolation: Isolation = "read_uncommitted",
        lag: int = 0,
        seek: bool = False,
    ) -> None:
        """Members take over from each other in the middle; each goes on where the group has committed.

        The first ones deliver `lag` records that they do not commit. With `seek` the last one starts over at the end.
        """
        aborted = {
            (event.client, event.transaction)
            for events in self.events.values()
            for event in events
            if isinstance(event, TransactionEnded) and event.outcome == "aborted"
        }
        unread = {
            event.value
            for events in self.events.values()
            for event in events
            if isinstance(event, Sent) and (event.client, event.transaction) in aborted
        }
        readable = {
            p: [
                (offset, value)
                for offset, value in sorted(self.records(p).items())
                if isolation == "read_uncommitted" or value not in unread
            ]
            for p in range(self.partitions)
        }
        spots = tuple((TOPIC, partition) for partition in range(self.partitions))
        committed = dict.fromkeys(readable, 0)
        for member in range(1, members + 1):
            name = f"{group}-reader-{member}"
            self.write(
                ClientStarted(name, self.tick(), "consumer", "model", (TOPIC,), group=group, isolation=isolation)
            )
            self.write(Assigned(name, self.tick(), spots, group))
            last = member == members
            for partition, records in readable.items():
                mine = [record for record in records if record[0] >= committed[partition]]
                if not last:
                    mine = mine[: self.random.randint(0, len(mine))]
                for offset, value in mine:
                    self.write(Delivered(name, self.tick(), TOPIC, partition, offset, value, group))
                safe = mine if last else mine[: max(0, len(mine) - lag)]
                if safe:
                    committed[partition] = safe[-1][0] + 1
                    self.write(Committed(name, self.tick(), group, TOPIC, partition, committed[partition]))
                if last and seek:
                    self.write(Positioned(name, self.tick(), TOPIC, partition, "beginning"))
                    for offset, value in mine:
                        self.write(Delivered(name, self.tick(), TOPIC, partition, offset, value, group))
            self.write(Revoked(name, self.tick(), spots, group))
            self.write(ClientStopped(name, self.tick()))

    def dumps(self) -> tuple[LogDump, ...]:
        return tuple(
            LogDump(cluster, TOPIC, partition, 0, self.ends[cluster, partition], dict(self.logs[cluster, partition]))
            for cluster in CLUSTERS
            for partition in range(self.partitions)
        )

    def history(self, *, logs: bool = True) -> History:
        clients = {name: tuple(events) for name, events in self.events.items()}
        return History(clients, tuple(self.cuts), (), self.dumps() if logs else ())


@st.composite
def worlds(draw: st.DrawFn, *, transactions: bool = True, least_sent: int = 0) -> World:
    """Worlds with moves there and back, holes, transactions, two kinds of producers, and readers of both levels."""
    world = World(draw(st.randoms(use_true_random=False)), partitions=draw(st.integers(1, 3)))
    world.producer("java")
    world.producer("plain", idempotent=False)
    if transactions:
        world.producer("tx")
    world.produce("java", least_sent)
    world.produce("plain", least_sent)
    number = 0
    for _ in range(draw(st.integers(0, 4))):
        world.produce("java", draw(st.integers(0, 6)))
        world.produce("plain", draw(st.integers(0, 4)))
        if transactions:
            number += 1
            world.produce("tx", draw(st.integers(1, 3)), transaction=number, commit=draw(st.booleans()))
        if draw(st.booleans()):
            target = draw(st.sampled_from([name for name in CLUSTERS if name != world.writer]))
            world.cut(target, hole=draw(st.sampled_from([0, 0, 3])))
    world.produce("java", least_sent)
    lag = draw(st.integers(0, 3))
    world.consume("billing", members=draw(st.integers(1, 3)), lag=lag, seek=draw(st.booleans()))
    world.consume("audit", isolation="read_committed")
    return world


def rewrite(history: History, client: str, old: Event, *new: Event) -> History:
    """The history with one event of a client replaced by others."""
    events = history.clients[client]
    index = next(i for i, event in enumerate(events) if event is old)
    return replace(history, clients={**history.clients, client: (*events[:index], *new, *events[index + 1 :])})
