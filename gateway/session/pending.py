"""Requests that the client waits for, in its order: a class per kind, whose methods are its legal next states.

    Passed, Patched   one broker's answer streams through
        .abandoned()      Ready, and Discarded in the broker's queue
    Gathered          an exchange with one or more brokers makes the answer
        .ready()          Ready
        .without()        Discarded in the queue of a broker that is not waited for any longer
    Composed          the driver's composed handler makes the answer
        .ready()          Ready
    Ready             the answer is there: it goes when its turn and its time have come

Only the head of the client's queue may stream its answer: clients rely on the order, as brokers answer in it. The
queues of the brokers hold the same objects in the same order, so the head of the client's queue is always the head of
its broker's, and nobody waits for ever.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from gateway.session.commands import BrokerLane
from gateway.session.request import Request
from ha_core.wire.fetch import FetchShift

Basis = tuple[int, int]
"""What a forwarded request rests on: generation of the lease, revision of the state. If neither is the same when the
answer comes, an operation may have gone on meanwhile."""
NO_LEASE = -1
"""In the place of the generation: it did not hold."""
SEVERAL = BrokerLane("", -1)
"""The way of a request that goes to more than one broker."""

# -- exchanges with brokers: generators that yield steps and return an answer ---------------------------------------

Frames = dict[BrokerLane, bytearray | None]
"""Answers by broker, with their size field; None where the broker was lost."""


class Send(NamedTuple):
    """Send a frame to each of these brokers; resumed with their answers (`Frames`)."""

    frames: Mapping[BrokerLane, bytes | memoryview]
    survives_loss: bool = False
    """The exchange goes on when a broker is lost. If not, the session ends, and the client asks again."""
    spared: frozenset[BrokerLane] = frozenset()
    """Brokers that are not waited for when the topology says that they are gone (`answers`)."""
    patience_s: float = 0.0
    """After so long without their answer the topology is asked for."""


class StandInLine(NamedTuple):
    """Wait until all that stood in line before are done; resumed with None."""


class Wait(NamedTuple):
    """Stay at the head of the line until a new state, or this time; resumed with None."""

    until: float


class Answer(NamedTuple):
    frame: bytes | bytearray
    """Empty: the client expects none."""
    delay_s: float = 0.0
    promises: bool = True
    """Whether it says that something is in a log."""


Exchange = Generator[Send | StandInLine | Wait, Any, Answer | None]
"""Returns None where nobody waits for an answer."""


# -- what the client waits for --------------------------------------------------------------------------------------


class Pending:
    """:ivar basis: what the answer rests on; None: it promises nothing about a log or a group."""

    __slots__ = ("basis", "request")

    outcome = "local"
    """The metrics' word for it."""
    way: BrokerLane | None = None
    """The broker that keeps it in order with others."""
    due_at = 0.0
    """When it is to be looked at again."""
    request: Request
    basis: Basis | None

    def changes(self) -> bool:
        """Whether it may have changed a log or a group."""
        return False


class Ready(Pending):
    """:ivar due_at: when the answer may go.
    :ivar lifts_with: operation with whose fence it may go, too.
    """

    __slots__ = ("due_at", "frame", "lifts_with")

    def __init__(
        self,
        request: Request,
        frame: bytes | bytearray,
        due_at: float = 0.0,
        basis: Basis | None = None,
        lifts_with: str | None = None,
    ) -> None:
        self.request = request
        self.basis = basis
        self.frame = frame
        self.due_at = due_at
        self.lifts_with = lifts_with

    def changes(self) -> bool:
        return self.basis is not None


class Composed(Pending):
    """:ivar ends: the transaction that it ends."""

    __slots__ = ("ends",)

    outcome = "composed"

    def __init__(self, request: Request, ends: str | None) -> None:
        self.request = request
        self.basis = None
        self.ends = ends

    def ready(self, frame: bytes) -> Ready:
        return Ready(self.request, frame, basis=self.basis)


class InFlight(Pending):
    """Something of it was sent to a broker.

    :ivar lane: where it went last.
    :ivar revision: of the state on which it was forwarded.
    :ivar topics: whose logs it may write to; None, any: it was streamed before all were seen.
    :ivar group: the group that it changes.
    """

    __slots__ = ("group", "lane", "revision", "topics", "way")

    def __init__(self, request: Request, topics: tuple[bytes, ...] | None, group: bytes | None) -> None:
        self.request = request
        self.basis = None
        self.topics = topics
        self.group = group
        self.lane: BrokerLane | None = None
        self.way: BrokerLane | None = None
        self.revision = 0

    def changes(self) -> bool:
        return self.topics != () or self.group is not None


class Passed(InFlight):
    """The broker's answer goes to the client as it arrives.

    :ivar reads: topics that a fetch waits for, as far as it names them.
    :ivar in_session: whether the fetch belongs to a fetch session (KIP-227).
    """

    __slots__ = ("in_session", "reads")

    outcome = "passed"

    def __init__(
        self,
        request: Request,
        topics: tuple[bytes, ...] | None = (),
        group: bytes | None = None,
        reads: tuple[bytes, ...] = (),
        in_session: bool = False,
    ) -> None:
        # Not by `super()`: one call less for each request that passes.
        self.request = request
        self.basis = None
        self.topics = topics
        self.group = group
        self.way = self.lane = None
        self.revision = 0
        self.reads = reads
        self.in_session = in_session

    def abandoned(self, frame: bytes) -> tuple[Ready, Discarded]:
        """It is answered without its broker, which has not begun to."""
        return Ready(self.request, frame), Discarded(self.request)


class Patched(Passed):
    """The same, with offsets patched on the way (fetch)."""

    __slots__ = ("shifts",)

    outcome = "mapped"

    def __init__(
        self, request: Request, shifts: Mapping[tuple[bytes, int], FetchShift], reads: tuple[bytes, ...]
    ) -> None:
        super().__init__(request, (), None, reads)
        self.shifts = shifts


class Gathered(InFlight):
    """Its exchange makes one answer of those of brokers.

    :ivar awaited: brokers whose answer is not there; none: it stands in line (`StandInLine`, `Wait`).
    :ivar survives_loss: as its last `Send` says; so does `spared`.
    """

    __slots__ = ("awaited", "due_at", "exchange", "frames", "spared", "survives_loss")

    outcome = "mapped"

    def __init__(self, request: Request, exchange: Exchange, topics: tuple[bytes, ...] = ()) -> None:
        super().__init__(request, topics, None)
        self.exchange = exchange
        self.awaited: set[BrokerLane] = set()
        self.spared: frozenset[BrokerLane] = frozenset()
        self.survives_loss = False
        self.frames: Frames = {}
        self.due_at = 0.0

    def ready(self, answer: Answer, now: float) -> Ready:
        due_at = now + answer.delay_s if answer.delay_s else 0.0
        return Ready(self.request, answer.frame, due_at, basis=self.basis if answer.promises else None)

    def without(self) -> Discarded:
        return Discarded(self.request)


class Discarded:
    """The broker's answer is dropped: the client has one, or the question was the gateway's own.

    :ivar topics: whose logs are known to be written when it comes; None: any.
    """

    __slots__ = ("request", "topics")

    def __init__(self, request: Request, topics: tuple[bytes, ...] | None = ()) -> None:
        self.request = request
        self.topics = topics


def concerns(pending: InFlight | Discarded, topics: frozenset[bytes]) -> bool:
    """Whether it may write to one of them."""
    return bool(topics) if pending.topics is None else not topics.isdisjoint(pending.topics)
