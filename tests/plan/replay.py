"""A small world of clusters, gateways and clients, in which the planner's steps are carried out and interrupted.

Every step is a generator that yields between its effects: a test that stops advancing it kills the executor there.
Between two effects the world goes on: gateways lag behind, requests are in flight, producers and consumers work.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

from ha_core.model import (
    Cluster,
    Document,
    Extent,
    Group,
    Identity,
    LastSequences,
    Lock,
    LostTail,
    Mirror,
    MoveRequest,
    MoveSet,
    Run,
    Scope,
    SwitchOperation,
    Topic,
    UserBindings,
    View,
)
from ha_core.model.evidence import AdoptedGroup
from ha_core.model.extent import Location, check, identity, locate, open_extent
from ha_core.plan.engine.revision import Documents, MoveDamagedError
from ha_core.plan.facts.clusters import CopyFacts, Partition, PartitionEnds
from ha_core.plan.mirror.held_copies import also_mirrored, hold_change, to_hold
from ha_core.plan.move.closure import lock_keys
from ha_core.plan.move.identity_maps import pin_change, to_pin, unpin_change
from ha_core.plan.move.planner import (
    Step,
    cut_change,
    fence_change,
    quiesce_change,
    remaining_steps,
    steps,
    undo_change,
)
from ha_core.plan.routing.resolve import cluster_for_group

TOPIC, GROUP, ALICE = "orders", "billing", Identity("alice", "app")
PARTITIONS = (0, 1)
MARKER = "marker"
_KINDS = {
    Topic: "topics",
    Group: "groups",
    LastSequences: "sequences",
    UserBindings: "bindings",
    Mirror: "mirrors",
}


class BrokenError(AssertionError):
    """The invariant does not hold."""


@dataclass
class Transaction:
    """Ends when all that belongs to it is written."""

    cluster: str
    left: int
    partitions: set[int] = field(default_factory=set)
    """Partitions of its records."""


@dataclass
class CopyOf:
    """The copy of a partition in west. `epoch` is that of the last takeover: only its copier can append."""

    runs: list[Run] = field(default_factory=list)
    source: int = 0
    epoch: int = 0

    def take_over(self, log: list[str]) -> int:
        """Append a marker; return the new epoch."""
        self.epoch += 1
        log.append(MARKER)
        return self.epoch


@dataclass
class Copier:
    """A task of the job: after its assignment it takes the partition over, checks the assignment again, and copies.
    It may stall between any two of these."""

    partition: int
    assigned: bool = False
    fenced: int = 0
    copying: int = 0


@dataclass
class Gateway:
    """Follows the state late, and forwards late."""

    view: View
    revision: int = 0
    in_flight: list[tuple[int, str, str, Transaction | None]] = field(default_factory=list)
    """(partition, cluster, record, its transaction)."""
    transaction: Transaction | None = None
    """The open transaction of its producer."""

    def accepts(self, partition: int, wished: str = "east") -> str | None:
        """The cluster to which a batch goes. :param wished: the client's cluster without a map."""
        topic = self.view.topics.get(TOPIC)
        if topic is not None and topic.fence is not None:
            return None
        if topic is None or not topic.mapped:
            return wished
        return open_extent(extents_now(self.view, partition)).cluster

    @property
    def begins(self) -> bool:
        """Whether a transaction may begin."""
        topic = self.view.topics.get(TOPIC)
        return topic is None or (topic.fence is None and topic.transaction_fence is None)


def extents_now(view: View, partition: int) -> tuple[Extent, ...]:
    topic = view.topics.get(TOPIC)
    return topic.extents(partition) if topic is not None and topic.mapped else identity("east")


class World:
    def __init__(self, seed: int, *, dead: str | None = None, target: str = "west", origin: str = "east") -> None:
        self.random = Random(seed)
        self.view = View(
            clusters={n: Cluster(name=n, bootstrap="h:1", default=n == "east") for n in ("east", "west")},
            bindings={"alice": UserBindings(user="alice", cluster="east")},
        )
        self.revision = 0
        self._accepted: dict[tuple[int, int, str], str | None] = {}
        self.dead = dead
        self.stubborn = False
        """Whether the target refuses to delete topics."""
        self.logs: dict[tuple[str, int], list[str]] = {("east", p): [] for p in PARTITIONS}
        self.topics = {"east"}
        self.members: dict[str, dict[str, str]] = {"east": {"m": "m"}, "west": {}}
        self.committed: dict[str, int] = {}
        self.last_commit = 0
        self.acknowledged: dict[tuple[int, int], str] = {}
        self.gateways = [Gateway(self.view) for _ in range(3)]
        self.sent = 0
        self.locks: dict[str, Lock] = {}
        self.copies: dict[int, CopyOf] = {}
        self.copiers: list[Copier] = []
        self.asks_twice = True
        """Whether a copier checks its assignment after its takeover."""
        self.tails: dict[str, LostTail] = {}
        self.operation: SwitchOperation
        self.begin(origin, target)

    def mirror(self) -> None:
        """The topic is pinned to east, has an empty copy in west, and two tasks for each partition, one of them old.
        Another mirror of it is in the north."""
        self.topics.add("west")
        pinned = Topic(name=TOPIC, writer="east", partitions={p: identity("east") for p in PARTITIONS})
        mirrors = (Mirror.of(TOPIC, "east", name, f"link-{name}", "now", "t") for name in ("west", "north"))
        self.publish(Documents((pinned, *mirrors)))
        for gateway in self.gateways:
            gateway.view, gateway.revision = self.view, self.revision
        for partition in PARTITIONS:
            self.logs["west", partition] = []
            self.copies[partition] = CopyOf()
        self.copiers = [Copier(partition) for partition in (*PARTITIONS, *PARTITIONS)]

    def copy(self, copier: Copier) -> None:
        """The next thing that a copier does."""
        mirror = self.view.mirrors.get(f"{TOPIC}@west")
        free = mirror is not None and mirror.held is None
        copy, log = self.copies[copier.partition], self.logs["west", copier.partition]
        if copier.copying and copier.copying == copy.epoch:
            source = self.logs["east", copier.partition]
            if copy.source < len(source):
                copy.runs.append(Run(copy.source, len(log), 1))
                log.append(source[copy.source])
                copy.source += 1
        elif copier.fenced:
            copier.copying = copier.fenced if free or not self.asks_twice else 0
            copier.assigned, copier.fenced = False, 0
        elif copier.assigned:
            copier.fenced = copy.take_over(log)
        else:
            copier.assigned, copier.copying = free, 0

    def begin(self, origin: str, target: str, unread: str = "wait") -> None:
        """A new operation, with its locks."""
        request = MoveRequest(
            scope=Scope(users=("alice",)),
            origin=origin,
            target=target,
            mode="forced" if self.dead else "planned",
            reason="replay",
            unread=unread,  # type: ignore[arg-type]
        )
        moves = MoveSet(topics=(TOPIC,), groups=(GROUP,))
        self.operation = SwitchOperation(
            id=f"op-{self.revision}",
            by="t",
            reason="replay",
            started="now",
            request=request,
            moves=moves,
        )
        self.locks = {
            key: Lock(key=key, operation=self.operation.id, by="t", since="now") for key in lock_keys(request, moves)
        }

    # --- steps of clients and gateways

    def tick(self) -> None:
        """A few things happen in some order."""
        for gateway in self.random.sample(self.gateways, len(self.gateways)):
            event = self.random.randrange(4)
            if event == 0:
                gateway.view, gateway.revision = self.view, self.revision
            elif event == 1:
                self.send(gateway)
            elif event == 2:
                for _ in range(min(len(gateway.in_flight), self.random.randrange(1, 4))):
                    self.land(gateway)
            elif event == 3:
                self.commit(gateway)
            if self.random.random() < 0.5:
                self.transact(gateway)
            self.require_one_writer()
        for copier in self.random.sample(self.copiers, len(self.copiers)):
            if self.random.random() < 0.7:
                self.copy(copier)

    @property
    def wished(self) -> str:
        """The cluster of a client bound to the target, without a map."""
        target = self._sides[1]
        return target if target in self.topics else "east"

    def send(self, gateway: Gateway) -> None:
        partition = self.random.choice(PARTITIONS)
        cluster = gateway.accepts(partition, self.random.choice(("east", self.wished)))
        if cluster is not None:
            self.sent += 1
            gateway.in_flight.append((partition, cluster, f"r{self.sent}", None))

    def transact(self, gateway: Gateway) -> None:
        """A transactional producer begins, goes on or ends."""
        partition = self.random.choice(PARTITIONS)
        cluster = gateway.accepts(partition)
        transaction = gateway.transaction
        if transaction is None:
            if gateway.begins and cluster is not None and cluster != self.dead:
                gateway.transaction = Transaction(cluster, self.random.randrange(1, 3))
        elif transaction.left:
            if cluster == transaction.cluster:
                self.sent += 1
                transaction.left -= 1
                gateway.in_flight.append((partition, cluster, f"t{self.sent}", transaction))
            elif cluster is not None:
                gateway.transaction = None  # what it wrote was in no log of this cluster: it begins anew
        elif all(of is not transaction for _, _, _, of in gateway.in_flight):
            gateway.transaction = None

    def open_in(self, cluster: str) -> bool:
        """Whether the cluster holds records of a transaction that has not ended."""
        open_now = (g.transaction for g in self.gateways if g.transaction is not None)
        return any(transaction.cluster == cluster and transaction.partitions for transaction in open_now)

    def land(self, gateway: Gateway) -> None:
        partition, cluster, record, transaction = gateway.in_flight.pop(0)
        if cluster == self.dead:
            return
        if transaction is not None:
            transaction.partitions.add(partition)
        log = self.logs[cluster, partition]
        extent = open_extent(extents_now(self.view, partition))
        if extent.cluster != cluster:
            raise BrokenError(f"{record} was appended to {cluster}, and the writer is {extent.cluster}")
        offset = extent.to_client(len(log))
        log.append(record)
        if (partition, offset) in self.acknowledged:
            raise BrokenError(f"client offset {offset} was given to two records")
        self.acknowledged[partition, offset] = record

    def commit(self, gateway: Gateway) -> None:
        group = gateway.view.groups.get(GROUP)
        cluster = cluster_for_group(gateway.view, ALICE, GROUP)
        if (group is None or group.fence is None) and cluster is not None and cluster != self.dead:
            self.last_commit += 1
            self.committed[cluster] = self.last_commit

    def kill_gateway(self) -> None:
        """Its node vanishes; what it had in flight lands without an answer, or does not."""
        gateway = self.gateways.pop()
        while gateway.in_flight:
            if self.random.random() < 0.5:
                gateway.in_flight.pop()
            else:
                self.land(gateway)

    def require_one_writer(self) -> None:
        ways = {"east", self.wished}
        for partition in PARTITIONS:
            writers = {c for g in self.gateways for p, c, _, _ in g.in_flight if p == partition}
            writers.update(c for g in self.gateways for c in self._accepting(g, partition, ways))
            if len(writers) > 1:
                raise BrokenError(f"partition {partition} is written in {sorted(writers)}")

    def _accepting(self, gateway: Gateway, partition: int, ways: Iterable[str]) -> Iterator[str]:
        """The clusters to which its batches go. Checked after every event, and changes with the revision alone."""
        for wished in ways:
            place = gateway.revision, partition, wished
            if place not in self._accepted:
                self._accepted[place] = gateway.accepts(partition, wished)
            if (cluster := self._accepted[place]) is not None:
                yield cluster

    # --- steps of an executor

    def publish(self, documents: Documents) -> None:
        """One revision."""
        tables: dict[str, dict[str, Document]] = {name: dict(getattr(self.view, name)) for name in _KINDS.values()}
        for document in documents.puts:
            if isinstance(document, SwitchOperation):
                self.operation = document
            elif isinstance(document, LostTail):
                self.tails[document.key] = document
            else:
                name = getattr(document, type(document).KEY)
                tables[_KINDS[type(document)]][name] = document
        for kind, name in documents.deletes:
            del tables[_KINDS[kind]][name]
        self.revision += 1
        self.view = replace(self.view, revision=self.revision, **tables)  # type: ignore[arg-type]
        for partition in PARTITIONS:
            if problems := check(extents_now(self.view, partition)):
                raise BrokenError("; ".join(problems))

    def note(self, **changes: object) -> None:
        self.operation = self.operation.model_copy(update=changes)

    def run(self, plan: Iterable[Step], skip: frozenset[str] = frozenset()) -> Iterator[str]:
        """Takes the steps of the plan; yields between effects."""
        self.ends: dict[tuple[str, int], PartitionEnds] = {}
        self.taken: dict[Partition, CopyFacts] = {}
        for step in plan:
            if step not in skip:
                yield f"before {step}"
                yield from getattr(self, f"_{step}")()
                yield f"after {step}"

    @property
    def _sides(self) -> tuple[str, str]:
        return self.operation.request.origin, self.operation.request.target

    def _compare(self) -> Iterator[str]:
        yield "nothing is written"

    def _pin(self) -> Iterator[str]:
        if to_pin(self.operation, self.view):
            documents = pin_change(self.operation, self.view, {TOPIC: len(PARTITIONS)})
            yield "about to pin"
            self.publish(documents)
        revision = self.revision
        while any(g.revision < revision for g in self.gateways):
            yield "waiting for gateways"

    def _prepare(self) -> Iterator[str]:
        _, target = self._sides
        self.note(state="running")
        if target not in self.topics:
            yield "topics are about to be created"
            self.operation = self.operation.noting(created=(TOPIC,))
            yield "what is created is noted first"
            self.topics.add(target)
            for partition in PARTITIONS:
                self.logs[target, partition] = []

    def _adopt(self) -> Iterator[str]:
        origin, target = self._sides
        self.operation = self.operation.noting(adopted={GROUP: AdoptedGroup(2, 1, {})})
        yield "joining"
        self.members[target] = {m: f"{m}-{target}" for m in self.members[origin].values()}

    def _hold(self) -> Iterator[str]:
        mirrors = self.view.mirrors.values()
        if mirrored := to_hold(self.operation, mirrors):
            others = also_mirrored(self.operation, mirrored, mirrors)
            self.operation = self.operation.noting(mirrored=mirrored, also_mirrored=others)
            yield "what is mirrored is noted first"
            self.publish(hold_change(self.operation, self.view))
            yield "held"
            self._take_over()

    def _take_over(self) -> None:
        for partition in PARTITIONS:
            copy = self.copies[partition]
            copy.take_over(self.logs["west", partition])
            self.taken[TOPIC, partition] = CopyFacts(copy.source, tuple(copy.runs), whole=True)

    def _level(self) -> Iterator[str]:
        yield "nothing is mirrored"

    def _mirrored(self) -> Iterator[str]:
        yield "nothing is mirrored"

    def _repoint(self) -> Iterator[str]:
        yield "the copier of the north is fenced"

    def _reverse(self) -> Iterator[str]:
        yield "nothing is mirrored"

    def _warm(self) -> Iterator[str]:
        yield "nothing is written"

    def _quiesce(self) -> Iterator[str]:
        origin, _ = self._sides
        documents = quiesce_change(self.operation, self.view, [TOPIC])
        yield "about to let no transaction begin"
        self.publish(documents)
        revision = self.revision
        while any(g.revision < revision or g.transaction is not None for g in self.gateways) or self.open_in(origin):
            yield "transactions end"

    def _fence(self) -> Iterator[str]:
        documents = fence_change(self.operation, self.view)
        yield "about to fence"
        self.publish(documents)

    def _drain(self) -> Iterator[str]:
        fence_revision = self.revision
        while any(g.revision < fence_revision or g.in_flight for g in self.gateways):
            yield "draining"

    def _ends(self) -> Iterator[str]:
        origin, target = self._sides
        if self.operation.evidence.mirrored and not self.taken:
            self._take_over()
            yield "taken over"
        while self.open_in(origin) and origin != self.dead:
            yield "a transaction is open"
        for partition in PARTITIONS:
            there = len(self.logs[target, partition])
            if self.dead:
                self.ends[TOPIC, partition] = PartitionEnds(target=there)
            else:
                self.ends[TOPIC, partition] = PartitionEnds(there, len(self.logs[origin, partition]))
            yield "reading ends"

    def _offsets(self) -> Iterator[str]:
        origin, target = self._sides
        if not self.dead and origin in self.committed:
            yield "about to copy"
            self.committed[target] = self.committed[origin]

    def _cut(self) -> Iterator[str]:
        origin, target = self._sides
        members = {m: self.members[target][m] for m in self.members[origin].values() if m in self.members[target]}
        adopted = {} if self.dead or not members else {GROUP: AdoptedGroup(2, 1, members)}
        documents = cut_change(self.operation, self.view, self.ends, {}, adopted, copies=self.taken)
        yield "about to cut"
        if not self.dead and self.open_in(origin):
            raise BrokenError(f"a transaction is open in {origin} below the cut: nobody could read past it")
        self.publish(documents)

    def _verify(self) -> Iterator[str]:
        revision = self.revision
        while any(g.revision < revision for g in self.gateways):
            yield "waiting for gateways"

    def _groups(self) -> Iterator[str]:
        yield "they move in an operation of their own"

    def _record(self) -> Iterator[str]:
        self.note(state="succeeded")
        yield "about to release"
        self.locks = {}

    def _lift(self) -> Iterator[str]:
        documents = undo_change(self.operation, self.view)
        yield "about to lift"
        self.publish(documents)

    def _leave(self) -> Iterator[str]:
        _, target = self._sides
        yield "leaving"
        self.members[target] = {}

    def _discard(self) -> Iterator[str]:
        _, target = self._sides
        if self.operation.evidence.created and target in self.topics:
            yield "about to discard"
            if self.stubborn:
                return
            if any(self.logs[target, p] for p in PARTITIONS):
                raise BrokenError("a topic with records is about to be deleted")
            self.topics.discard(target)
            for partition in PARTITIONS:
                del self.logs[target, partition]

    def _unpin(self) -> Iterator[str]:
        documents = unpin_change(self.operation, self.view, () if self._sides[1] in self.topics else (TOPIC,))
        yield "about to unpin"
        self.publish(documents)

    def _undone(self) -> Iterator[str]:
        self.note(state="undone")
        yield "about to release"
        self.locks = {}

    def _release(self) -> Iterator[str]:
        yield "about to release"
        self.locks = {}

    # --- the end

    def decide(self) -> tuple[Step, ...]:
        return remaining_steps(self.operation, self.view.topics, self.view.groups)

    def settle(self) -> None:
        """Let every gateway catch up, all requests land and every transaction end, as after a quiet while."""
        for gateway in self.gateways:
            while gateway.in_flight:
                self.land(gateway)
            gateway.transaction = None
            gateway.view, gateway.revision = self.view, self.revision

    def require_sound_end(self) -> None:
        if self.operation.state not in {"succeeded", "undone"}:
            raise BrokenError(f"the operation ended as {self.operation.state}")
        fenced = [name for name, topic in self.view.topics.items() if topic.fence or topic.transaction_fence]
        fenced += [name for name, group in self.view.groups.items() if group.fence is not None]
        if fenced:
            raise BrokenError(f"a fence is left on {fenced}")
        if self.locks:
            raise BrokenError(f"locks are left: {sorted(self.locks)}")
        if self.operation.state == "undone" and self.view.groups:
            raise BrokenError("an undone first move leaves groups in the store")
        if self.operation.state == "undone" and bool(self.view.topics) != (self.topics != {"east"}):
            raise BrokenError(f"an undone first move leaves {self.view.topics} and copies in {self.topics}")
        writers = {open_extent(extents_now(self.view, p)).cluster for p in PARTITIONS}
        if left := [mirror.key for mirror in self.view.mirrors.values() if {mirror.source} != writers]:
            raise BrokenError(f"{left} would be copied from a cluster that is not the writer")
        if held := [mirror.key for mirror in self.view.mirrors.values() if mirror.held is not None]:
            raise BrokenError(f"a hold is left on {held}")
        self.require_readable()
        for partition in PARTITIONS if self.tails else ():
            read = self.read(partition)
            if len(read) != len(set(read)) or self.lost.intersection(read):
                raise BrokenError(f"partition {partition} gives readers {read}, and {self.lost} are lost")
        coordinator = cluster_for_group(self.view, ALICE, GROUP)
        if not self.dead and self.last_commit and self.committed.get(coordinator or "") != self.last_commit:
            raise BrokenError(f"the group's last commit {self.last_commit} is not in {coordinator}")

    def require_readable(self) -> None:
        """Every acknowledged record that is not lost is read at its acknowledged offset."""
        for (partition, offset), record in self.acknowledged.items():
            place = locate(extents_now(self.view, partition), offset)
            if not isinstance(place, Location):
                if record in self.lost:
                    continue
                raise BrokenError(f"{record} at {offset} has become a hole")
            if self.logs[place.extent.cluster, partition][place.physical : place.physical + 1] != [record]:
                raise BrokenError(f"{record} is not what is read at {offset}")

    @property
    def lost(self) -> set[str]:
        """Records of the lost cluster beyond its copies, by the documents of forced switches."""
        return {
            record
            for document in self.tails.values()
            for partition, tail in document.partitions.items()
            for record in self.logs[document.cluster, partition][tail.mirrored :]
        }

    def read(self, partition: int) -> list[str]:
        """Records for a reader from the beginning, without markers."""
        found: list[str] = []
        for extent in extents_now(self.view, partition):
            log = self.logs[extent.cluster, partition]
            found += log[extent.base : len(log) if extent.physical_end is None else extent.physical_end]
        return [record for record in found if record != MARKER]


def advance(world: World, work: Iterator[str], effects: int | None, meanwhile: Callable[[int], None]) -> bool:
    """Runs `work` for at most `effects` yields, the world going on in between. Whether it came to its end."""
    for count, _ in enumerate(work):
        if count == effects:
            return False
        meanwhile(count)
        world.tick()
    return True


BEYOND = 400
"""More effects than any run has."""


def start(world: World) -> tuple[Step, ...]:
    """All steps of the move."""
    return steps(world.operation.request)


def nothing(_count: int) -> None:
    pass


W = TypeVar("W", bound=World)


def killed_after_each_effect(make: Callable[[], W], by: int = 1) -> Iterator[tuple[int, W]]:
    """Kill the move after 0, `by`, 2 `by` … effects, each time in a new world, until it comes to its end."""
    for effects in range(0, BEYOND, by):
        world = make()
        finished = advance(world, world.run(start(world)), effects, nothing)
        yield effects, world
        if finished:
            return
    raise AssertionError("the move never came to its end")


def broken_worlds(attempt: Callable[[int], None], seeds: int) -> int:
    """Count the seeds with which the checker, or the planner itself, finds a planted fault."""
    broken = 0
    for seed in range(seeds):
        try:
            attempt(seed)
        except (AssertionError, MoveDamagedError):
            broken += 1
    return broken


def bring_to_an_end(world: World) -> None:
    """Rerun the operation until it has ended."""
    for _ in range(3):
        decision = world.decide()
        assert advance(world, world.run(decision), None, nothing)
        if decision == ("release",):
            break
    for _ in range(5):
        world.tick()
    world.settle()
    world.require_one_writer()
    world.require_sound_end()
