"""A small world in which a topic crosses over: gateways lag and keep acknowledging, producers retry.

As in `replay`, every step is a generator that yields between its effects; a test that stops advancing it kills the
executor there. `faults` leaves out conditions of the invariant: the checker has to find each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal, NamedTuple

from ha_core.model import Extent, LastSequences, MigrateOperation, MoveRequest, MoveSet, Scope, Topic, View
from ha_core.model.extent import check, identity, open_extent
from ha_core.model.producer import FIRST_CLIENT_ID, client_id, upstream_id
from ha_core.plan.absence import crossing_without_origin as without_origin
from ha_core.plan.absence.crossing_without_origin import crossed_with
from ha_core.plan.absence.returned import confirmed, look_at, unconfirmed
from ha_core.plan.engine.revision import Documents, MoveDamagedError
from ha_core.plan.facts.clusters import Partition, PartitionEnds, ProducerFacts, Surplus
from ha_core.plan.migration.crossing import (
    finish_change,
    hold_change,
    lift_change,
    open_change,
    propose_change,
    reopen_change,
    retreat_change,
    settle_change,
    withdraw_change,
)
from ha_core.plan.migration.crossing_stages import (
    BEHIND_FENCE,
    WITHOUT_ORIGIN,
    Stage,
    Step,
    crossings,
    passed,
    plan,
    plan_without_origin,
    remaining_steps,
    stages,
)
from ha_core.plan.move.carry_over import below_cut
from ha_core.plan.move.identity_maps import pin_change, to_pin, unpin_change
from ha_core.plan.move.partitions import of_all
from tests.plan.replay import BrokenError

TOPIC, ORIGIN, TARGET = "orders", "east", "west"
PARTITIONS = (0, 1)


Shape = Literal["whole", "single", "rest"]
"""Crossing part: the whole topic; its first partition alone; or the rest of it after the second one has moved."""


class FailedError(Exception):
    """A step has failed, and the run of the executor with it."""


class Record(NamedTuple):
    producer: int
    """As the client calls it."""
    sequence: int


@dataclass
class Log:
    """One partition in one cluster: idempotent, and it never forgets."""

    records: list[tuple[int, Record]] = field(default_factory=list)
    """(the producer's id there, record)."""
    begins: list[int] = field(default_factory=list)
    """Offsets at which batches begin."""

    def append(self, producer_id: int, batch: tuple[Record, ...]) -> int:
        """The offset of the batch's first record, also if it is there already."""
        entries = [(producer_id, record) for record in batch]
        if entries[0] in self.records:
            return self.records.index(entries[0])
        self.begins.append(len(self.records))
        self.records += entries
        return self.begins[-1]

    def whole_below(self, limit: int) -> int:
        """The end of the batches that end at `limit` or before."""
        if limit >= len(self.records):
            return len(self.records)
        return max((begin for begin in self.begins if begin <= limit), default=limit)

    def last(self) -> tuple[ProducerFacts, ...]:
        found = {producer: record.sequence for producer, record in self.records}
        return tuple(ProducerFacts(producer, 0, sequence, 0) for producer, sequence in found.items())

    def surplus(self, cut: int) -> Surplus:
        first: dict[int, tuple[int, int]] = {}
        for producer, record in self.records[self.whole_below(cut) :]:
            first.setdefault(producer, (0, record.sequence))
        return Surplus(first)


@dataclass
class Flight:
    """A batch on its way. `known` is the topic as its gateway knew it when it sent the batch."""

    partition: int
    batch: tuple[Record, ...]
    known: Topic | None
    cluster: str = ORIGIN
    rest: tuple[Record, ...] = ()
    """The part of the batch for the target."""
    answer: int | None = None
    """The origin's answer, not processed yet."""


@dataclass
class Gateway:
    """Applies the state late, forwards late, and processes answers late."""

    view: View
    revision: int = 0
    flights: list[Flight] = field(default_factory=list)

    @property
    def topic(self) -> Topic | None:
        return self.view.topics.get(TOPIC)

    def drained(self) -> bool:
        """No request is in flight from before this gateway's state or, under a fence, at all."""
        now = self.topic
        if now is not None and now.fence is not None:
            return not self.flights
        return all(_way(flight.known) == _way(now) for flight in self.flights)


def _way(topic: Topic | None) -> object:
    return None if topic is None else (topic.crossing and topic.crossing.state, topic.writer, topic.partitions)


class World:
    def __init__(self, seed: int, faults: frozenset[str] = frozenset(), shape: Shape = "whole") -> None:
        self.random = Random(seed)
        self.faults = faults
        self.view = View()
        self.partitions = list(PARTITIONS)
        self.moving: tuple[int, ...] = PARTITIONS if shape == "whole" else PARTITIONS[:1]
        self.revision = 0
        self.logs = {(cluster, p): Log() for cluster in (ORIGIN, TARGET) for p in PARTITIONS}
        if shape == "rest" or seed % 2:
            # It has been there before, and records of that time are not part of it any more: base and start differ.
            for p in PARTITIONS:
                self.logs[TARGET, p].records += [(7, Record(7, n)) for n in range(3)]
            there = Extent(cluster=TARGET, start=0, end=None, base=3, writer_epoch=1)
            maps = {0: identity(ORIGIN), 1: (there,) if shape == "rest" else identity(ORIGIN)}
            self.view = replace(self.view, topics={TOPIC: Topic(name=TOPIC, writer=ORIGIN, partitions=maps)})
        self.found_map = self.view.topics.get(TOPIC)
        self.gateways = [Gateway(self.view) for _ in range(3)]
        self.waiting: dict[tuple[int, int], tuple[Record, ...]] = {}
        """(partition, producer) → the batch that it has no answer to."""
        self.next: dict[tuple[int, int], int] = {}
        self.acknowledged: dict[tuple[int, Record], int | None] = {}
        """(partition, record) → the acknowledged client offset; None: answered as a duplicate."""
        self.idle: set[int] = set()
        self.dead = False
        self.unanswered: set[tuple[int, Record]] = set()
        """(partition, record) that the origin held unacknowledged when it died: it may come twice."""
        self.locked = True
        named: dict[str, tuple[int, ...]] = {TOPIC: self.moving} if shape == "single" else {}
        scope = Scope(topics=(TOPIC,), partitions=named)
        request = MoveRequest(scope=scope, origin=ORIGIN, target=TARGET, reason="replay")
        self.operation = MigrateOperation(
            id="op-1",
            by="t",
            reason="replay",
            started="now",
            request=request,
            moves=MoveSet(topics=(TOPIC,)),
        )

    # --- steps of clients and gateways

    def tick(self) -> None:
        for gateway in self.random.sample(self.gateways, len(self.gateways)):
            event = self.random.randrange(5)
            if event == 0:
                gateway.view, gateway.revision = self.view, self.revision
            elif event in {1, 2}:
                self.send(gateway)
            elif gateway.flights:
                self.progress(gateway, self.random.choice(gateway.flights))
        self.check()

    def send(self, gateway: Gateway) -> None:
        partition = self.random.choice([p for p in self.partitions if p not in self.idle] or [PARTITIONS[0]])
        if partition in self.idle:
            return
        producer = FIRST_CLIENT_ID + self.random.randrange(2)
        place = (partition, producer)
        if any(f.partition == partition and f.batch[0].producer == producer for g in self.gateways for f in g.flights):
            return  # its answer is still awaited
        if place not in self.waiting:
            first = self.next.get(place, 0)
            self.waiting[place] = tuple(Record(producer, first + n) for n in range(self.random.randint(1, 4)))
        batch, topic = self.waiting[place], gateway.topic
        if topic is not None and topic.fence is not None:
            return
        if topic is not None and topic.withheld(partition) and "withhold" not in self.faults:
            return
        if topic is None or topic.written(partition).cluster == ORIGIN:
            if not self.dead:
                gateway.flights.append(Flight(partition, batch, topic))
            return
        held = gateway.view.sequences.get(TOPIC) or LastSequences(name=TOPIC)
        last = held.partitions.get(partition, {}).get(producer, (0, -1))[1]
        rest = tuple(record for record in batch if batch[-1].sequence > last)
        if not rest:
            self.acknowledge(partition, batch, None)
        else:
            gateway.flights.append(Flight(partition, batch, topic, cluster=TARGET, rest=rest))

    def progress(self, gateway: Gateway, flight: Flight) -> None:
        """Append the batch, or process its answer."""
        partition, producer = flight.partition, flight.batch[0].producer
        if flight.cluster == TARGET:
            assert flight.known is not None
            gateway.flights.remove(flight)
            extent = open_extent(flight.known.extents(partition))
            at = self.logs[TARGET, partition].append(upstream_id(producer, extent.writer_epoch), flight.rest)
            self.acknowledge(partition, flight.batch, extent.start + at - extent.base)
            return
        if flight.answer is None:
            flight.answer = self.logs[ORIGIN, partition].append(producer, flight.batch)
            return
        if flight.known is None or not flight.known.crosses(partition):
            gateway.flights.remove(flight)
            self.acknowledge(partition, flight.batch, flight.answer)
            return
        below = max(0, flight.known.written(partition).end - flight.answer)  # type: ignore[operator]
        if below >= len(flight.batch):
            gateway.flights.remove(flight)
            self.acknowledge(partition, flight.batch, flight.answer)
        elif flight.known.crossing is not None and flight.known.crossing.state == "open":
            flight.cluster, flight.rest = TARGET, flight.batch[below if "whole" in self.faults else 0 :]
        else:
            gateway.flights.remove(flight)

    def acknowledge(self, partition: int, batch: tuple[Record, ...], offset: int | None) -> None:
        place = (partition, batch[0].producer)
        if self.waiting.get(place) != batch:
            return  # an older answer: its producer asked again elsewhere
        del self.waiting[place]
        self.next[place] = batch[-1].sequence + 1
        for number, record in enumerate(batch):
            self.acknowledged[partition, record] = None if offset is None else offset + number

    def grow(self) -> None:
        """An operator adds a partition in both clusters, past the gateways, and producers learn of it."""
        partition = len(self.partitions)
        self.logs.update({(cluster, partition): Log() for cluster in (ORIGIN, TARGET)})
        self.partitions.append(partition)

    def kill_origin(self) -> None:
        """Requests in flight to it land or do not, without an answer."""
        self.seen = {p: self.random.randrange(len(self.logs[ORIGIN, p].records) + 1) for p in self.partitions}
        for gateway in self.gateways:
            for flight in [one for one in gateway.flights if one.cluster == ORIGIN and one.answer is None]:
                if self.random.random() < 0.5:
                    self.logs[ORIGIN, flight.partition].append(flight.batch[0].producer, flight.batch)
                gateway.flights.remove(flight)
        self.dead = True
        held = {(p, record) for p in self.partitions for _, record in self.logs[ORIGIN, p].records}
        self.unanswered = held - self.acknowledged.keys()

    def kill_gateway(self) -> None:
        """Its node vanishes; its requests in flight land or do not, without an answer."""
        gateway = self.gateways.pop()
        for flight in gateway.flights:
            if self.random.random() < 0.5 and flight.cluster == ORIGIN:
                self.logs[ORIGIN, flight.partition].append(flight.batch[0].producer, flight.batch)
            elif flight.cluster == TARGET and flight.known is not None and self.random.random() < 0.5:
                extent = open_extent(flight.known.extents(flight.partition))
                own = upstream_id(flight.batch[0].producer, extent.writer_epoch)
                self.logs[TARGET, flight.partition].append(own, flight.rest)

    def check(self, end: bool = False) -> None:
        """Acknowledged records are read once, in order and at their acknowledged offsets.

        While cuts are only proposed, a gateway that does not know them may be ahead of the map.
        """
        topic = self.view.topics.get(TOPIC)
        if not end and topic is not None and topic.crossing is not None and topic.crossing.state == "proposed":
            return
        for partition in self.partitions:
            seen = self.visible(partition)
            if self.dead:
                seen = self.told_once(partition, seen)
            at = {record: offset for offset, record in seen}
            if len(at) != len(seen):
                raise BrokenError(f"partition {partition} has a record twice")
            for producer in {record.producer for record in at}:
                sequences = [record.sequence for _, record in seen if record.producer == producer]
                if sequences != sorted(sequences):
                    raise BrokenError(f"partition {partition}: {sequences} of producer {producer} is out of order")
            for (p, record), offset in self.acknowledged.items():
                if p == partition and record not in at:
                    raise BrokenError(f"{record} was acknowledged in partition {p} and cannot be read")
                if p == partition and offset is not None and at[record] != offset:
                    raise BrokenError(f"{record} was acknowledged at {offset} and is read at {at[record]}")

    def told_once(self, partition: int, seen: list[tuple[int, Record]]) -> list[tuple[int, Record]]:
        """Without the dead origin's unacknowledged records that producers sent again to the target."""
        topic = self.view.topics.get(TOPIC)
        start = 0 if topic is None else open_extent(topic.extents(partition)).start
        newest = {record for offset, record in seen if offset >= start}
        again = {record for offset, record in seen if offset < start and record in newest}
        if not {(partition, record) for record in again} <= self.unanswered:
            raise BrokenError(f"partition {partition} has a record twice that one cluster had answered")
        return [(offset, record) for offset, record in seen if offset >= start or record not in again]

    def visible(self, partition: int) -> list[tuple[int, Record]]:
        topic = self.view.topics.get(TOPIC)
        extents = identity(ORIGIN) if topic is None else topic.extents(partition)
        found = []
        for extent in extents:
            log = self.logs[extent.cluster, partition]
            end = len(log.records)
            if extent.end is not None:
                end = log.whole_below(extent.base + extent.end - extent.start)
            found += [(extent.start + n, record) for n, (_, record) in enumerate(log.records[extent.base : end])]
        return found

    # --- steps of an executor

    def publish(self, documents: Documents) -> None:
        topics, sequences = dict(self.view.topics), dict(self.view.sequences)
        for document in documents.puts:
            if isinstance(document, MigrateOperation):
                self.operation = document
            elif isinstance(document, Topic):
                topics[document.name] = document
            elif isinstance(document, LastSequences):
                sequences[document.name] = document
        for _, name in documents.deletes:
            del topics[name]
        self.revision += 1
        self.view = replace(self.view, revision=self.revision, topics=topics, sequences=sequences)
        for topic in topics.values():
            for partition in topic.partitions:
                if problems := check(topic.extents(partition)):
                    raise BrokenError("; ".join(problems))

    def ends(self) -> Iterator[str]:
        """Both sides, one partition after the other, into `found`."""
        self.found: dict[Partition, PartitionEnds] = {}
        for p in self.listed():
            yield "reading ends"
            self.found[TOPIC, p] = PartitionEnds(len(self.logs[TARGET, p].records), len(self.logs[ORIGIN, p].records))

    def listed(self) -> list[int]:
        """The partitions of a topic that crosses over; before it does, all that it has."""
        topic = self.view.topics.get(TOPIC)
        return list(self.partitions if topic is None or topic.crossing is None else topic.partitions)

    def counts(self) -> dict[str, int]:
        return {TOPIC: len(self.partitions)}

    def served(self) -> Iterator[str]:
        revision = self.revision
        while any(g.revision < revision or ("drain" not in self.faults and not g.drained()) for g in self.gateways):
            yield "waiting for gateways"

    def run(self) -> Iterator[str]:
        """Takes the steps of the plan, again and again where it waits for logs; yields between effects."""
        while self.locked:
            try:
                for step in plan(self.read_state, lambda: bool(self.idle) and self.random.random() < 0.3):
                    yield from getattr(self, f"_{step}")()
                    yield "between two steps"
            except FailedError:
                yield "somebody looks again"

    def read_state(self) -> tuple[MigrateOperation, Mapping[str, Topic]]:
        return self.operation, self.view.topics

    def decide(self) -> tuple[Step, ...]:
        return remaining_steps(*self.read_state())

    def _pin(self) -> Iterator[str]:
        if to_pin(self.operation, self.view):
            documents = pin_change(self.operation, self.view, self.counts())
            yield "about to pin"
            self.publish(documents)
        revision = self.revision
        while any(g.revision < revision for g in self.gateways):
            yield "waiting for gateways"

    def _prepare(self) -> Iterator[str]:
        yield "both copies are there"

    def _propose(self) -> Iterator[str]:
        yield from self.ends()
        yield from self._propose_cuts(self.found, TOPIC)

    def _lift(self) -> Iterator[str]:
        yield "about to lift"
        self.publish(lift_change(self.operation, self.view))

    def _propose_cuts(self, ends: dict[Partition, PartitionEnds], *topics: str) -> Iterator[str]:
        topic = self.view.topics.get(TOPIC)
        keys = of_all(self.operation.request, self.view.topics, ends)
        cuts = {key: (ends[key].origin or 0) + 1 + self.random.randrange(6) for key in keys}
        if topic is not None and topic.crossing is not None:
            cuts = {key: cut for key, cut in cuts.items() if key[1] in passed(topic, ends)}
        try:
            documents = propose_change(self.operation, self.view, topics, ends, cuts)
        except MoveDamagedError as error:
            if "below" not in str(error) and "above" not in str(error):
                raise
            yield from self.ends()
            return
        yield "about to propose"
        self.publish(documents)

    def _serve(self) -> Iterator[str]:
        if "serve" not in self.faults:
            yield from self.served()

    def _ends(self) -> Iterator[str]:
        if "look before" not in self.faults:
            yield from self.ends()

    def _open(self) -> Iterator[str]:
        topic = self.view.topics[TOPIC]
        if passed(topic, self.found) and "end check" not in self.faults:
            yield from self._propose_cuts(self.found, TOPIC)
            return
        if "end check" in self.faults:
            low = {key: PartitionEnds(ends.target, 0) for key, ends in self.found.items()}
            self.publish(open_change(self.operation, self.view, [TOPIC], low, self.counts()))
            return
        try:
            documents = open_change(self.operation, self.view, [TOPIC], self.found, self.counts())
        except MoveDamagedError as error:
            if "has got partitions" not in str(error):
                raise
            self.begin_back()
            return
        yield "about to open"
        self.publish(documents)

    def _settle(self) -> Iterator[str]:
        yield from self.ends()
        topic = self.view.topics[TOPIC]
        if len(passed(topic, self.found)) < len(list(crossings(topic))):
            return
        ends = self.found
        yield from self._read_producers({p: target.start for p, _, target in crossings(topic)})
        documents = settle_change(self.operation, self.view, [TOPIC], ends, self.counts(), self.producers)
        yield "about to settle"
        self.publish(documents)

    def _end(self) -> Iterator[str]:
        for part in BEHIND_FENCE:
            yield from getattr(self, f"_{part}")()

    def _hold(self) -> Iterator[str]:
        standing: tuple[Stage, ...] = ("proposed", "open") if self.dead else ("open",)
        self.publish(hold_change(self.operation, self.view, [TOPIC], *standing))
        yield "fenced"

    def _drain(self) -> Iterator[str]:
        if "drain under the fence" not in self.faults:
            yield from self.served()

    def _quiet(self) -> Iterator[str]:
        yield from self.ends()

    def _producers(self) -> Iterator[str]:
        topic = self.view.topics[TOPIC]
        cuts = {p: min(target.start, self.found[TOPIC, p].origin or 0) for p, _, target in crossings(topic)}
        yield from self._read_producers(cuts)

    def _finish(self) -> Iterator[str]:
        documents = finish_change(self.operation, self.view, [TOPIC], self.found, self.counts(), self.producers)
        yield "about to end under the fence"
        self.publish(documents)

    def _read_producers(self, cuts: dict[int, int]) -> Iterator[str]:
        self.producers: dict[Partition, tuple[ProducerFacts, ...]] = {}
        for p, cut in cuts.items():
            log = self.logs[ORIGIN, p]
            facts = log.last()
            yield "producers were asked"
            surplus = Surplus() if "surplus" in self.faults else log.surplus(cut)
            below = below_cut(facts, surplus)
            assert below is not None
            if "sequences" not in self.faults:
                self.producers[TOPIC, p] = below

    def _verify(self) -> Iterator[str]:
        yield from self.served()

    def _groups(self) -> Iterator[str]:
        yield "they move in an operation of their own"

    def _record(self) -> Iterator[str]:
        yield "about to record"
        self.operation = self.operation.model_copy(update={"state": "succeeded"})
        self.locked = False

    def _release(self) -> Iterator[str]:
        yield "about to release"
        self.locked = False

    def run_without_origin(self) -> Iterator[str]:
        """The forced end: log ends of the target alone, and recorded ones of the origin."""
        for step in plan_without_origin(self.read_state):
            yield from getattr(self, f"_{step}")()
            yield "between two steps"
        yield from self._verify()
        yield from self._record()

    def _reopen(self) -> Iterator[str]:
        self.publish(reopen_change(self.operation, self.view))
        yield "opened again"

    def _end_without_origin(self) -> Iterator[str]:
        for part in WITHOUT_ORIGIN:
            yield from getattr(self, f"_{part}")()

    def _written(self) -> Iterator[str]:
        self.producers, self.found = {}, {}
        for p, origin, target in crossings(self.view.topics[TOPIC]):
            yield "asking the target"
            log = self.logs[TARGET, p]
            facts = crossed_with(log.surplus(target.base), target, origin)
            if facts is not None:
                self.producers[TOPIC, p] = facts
            self.found[TOPIC, p] = PartitionEnds(len(log.records), None, seen=self.seen[p])

    def _conclude(self) -> Iterator[str]:
        documents = without_origin.end_change(self.operation, self.view, [TOPIC], self.found, self.producers, "wait")
        yield "about to end without the origin"
        self.publish(documents)
        last = {p: some[-2:] for p, some in self.view.topics[TOPIC].partitions.items() if len(some) > 1}
        holes = {p: now.start - extent.known_end for p, (extent, now) in last.items() if extent.known_end is not None}
        if {p: hole for p, hole in holes.items() if hole} != self.operation.evidence.holes.get(TOPIC, {}):
            raise BrokenError(
                f"{holes} offsets have no record, and the operation notes {self.operation.evidence.holes}"
            )

    def bring_origin_back(self) -> None:
        """Its extents are closed where they truly end."""
        topic = self.view.topics[TOPIC]
        partitions = dict(topic.partitions)
        for _, p, extent in unconfirmed(self.view):
            found = look_at(TOPIC, p, extent, len(self.logs[ORIGIN, p].records))
            if found.outcome != "whole":
                raise BrokenError(f"what came back is {found}")
            partitions[p] = confirmed(partitions[p], found)
        self.view = replace(self.view, topics={TOPIC: topic.model_copy(update={"partitions": partitions})})

    def begin_back(self) -> None:
        self.publish(retreat_change(self.operation, self.view))

    def _withdraw(self) -> Iterator[str]:
        yield "retreated"
        if "drain on the way back" not in self.faults:
            yield from self.served()
        yield from self.ends()
        try:
            documents = withdraw_change(self.operation, self.view, self.found)
        except MoveDamagedError:
            yield from self._reopen()
            raise FailedError from None
        yield "about to withdraw"
        self.publish(documents)

    def _discard(self) -> Iterator[str]:
        yield "the copy stays"

    def _unpin(self) -> Iterator[str]:
        self.publish(unpin_change(self.operation, self.view, (TOPIC,)))
        yield "led by no map any more"

    def _undone(self) -> Iterator[str]:
        yield "about to record"
        self.operation = self.operation.model_copy(update={"state": "undone"})
        self.locked = False

    # --- the end

    def settle(self) -> None:
        """Every gateway catches up, and every batch gets its answer."""
        self.idle = set(self.partitions)
        for gateway in self.gateways:
            while gateway.flights:
                self.progress(gateway, gateway.flights[0])
            gateway.view, gateway.revision = self.view, self.revision

    def require_sound_end(self) -> None:
        if self.operation.state not in {"succeeded", "undone"}:
            raise BrokenError(f"the operation ended as {self.operation.state}")
        if self.locked:
            raise BrokenError("locks are left")
        topic = self.view.topics.get(TOPIC)
        if self.operation.state == "undone" and topic != self.found_map and not self.as_found(topic):
            raise BrokenError("an undone migration leaves another map than it found")
        if topic is not None and (topic.crossing is not None or topic.fence is not None):
            raise BrokenError("a crossing or a fence is left")
        if set(stages(self.operation, self.view.topics).values()) - {"settled", "before"}:
            raise BrokenError("a topic is left between two stages")
        self.check(end=True)
        for partition in self.partitions:
            extents = identity(ORIGIN) if topic is None else topic.extents(partition)
            for extent in extents[:-1]:
                ids = {record for record, _ in self.logs[extent.cluster, partition].records[extent.base :]}
                if not {client_id(one) for one in ids} >= ids and extent.cluster == ORIGIN:
                    raise BrokenError("a writer epoch's ids are in another cluster")

    def as_found(self, topic: Topic | None) -> bool:
        """Whether the map has its old extents, also for partitions that were added and that it lists by now."""
        found = self.found_map
        if topic is None or found is None or topic.writer != found.writer:
            return False
        return all(topic.extents(p) == found.extents(p) for p in self.partitions)
