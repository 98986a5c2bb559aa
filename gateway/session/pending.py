"""Requests that the client waits for, in its order: a class per kind, whose methods are its legal next states.

    Passed, Patched   one broker's answer streams through; that of a Shifted is short, and patched when it is whole
        .abandoned()      Ready, and Discarded in the broker's queue
    Gathered          an exchange with one or more brokers makes the answer
        .ready()          Ready
        .without()        Discarded in the queue of a broker that is not waited for any longer, or of all the others
    Composed          the driver's composed handler makes the answer
        .ready()          Ready
    Ready             the answer is there: it goes when its turn and its time have come

Only the head of the client's queue may stream its answer: clients rely on the order, as brokers answer in it. The
queues of the brokers hold the same objects in the same order, so the head of the client's queue is always the head of
its broker's, and nobody waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.session.commands import BrokerLane
from gateway.session.fetch.fetch_session import FetchSession
from gateway.session.produce.producer_order import RefusedBatch
from gateway.session.request import Request
from ha_core.wire.fetch_answer import Shifts
from ha_core.wire.produce import patch_produce_response
from ha_core.wire.templates.single_topic import ProduceAnswerTemplate

Basis = tuple[int, int]
"""What a forwarded request rests on: generation of the lease, revision of the state. If neither is the same when the
answer comes, an operation may have gone on meanwhile."""
NO_LEASE = -1
"""In the place of the generation: it did not hold."""
SEVERAL = BrokerLane("", -1)
"""In the place of its broker, where a request goes to more than one."""


class EndedTransaction(NamedTuple):
    """The end of a transaction that is asked for."""

    cluster: str
    """In which it began."""
    transactional_id: str
    producer_id: int
    """That its client knows."""
    commits: bool
    doubted: bool
    """When it was asked for a topic had left the cluster by force, or was about to."""


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


class OffloadStep(NamedTuple):
    """Do this beside the event loop; resumed with what it returns."""

    work: Callable[[], Any]


class StandInLine(NamedTuple):
    """Wait until all that stood in line before are done; resumed with None."""


class WaitForState(NamedTuple):
    """Stay at the head of the line until a new state, or this time; resumed with None."""

    until: float


class QueuedAnswer(NamedTuple):
    frame: bytes | bytearray
    """Empty: the client expects none."""
    delay_s: float = 0.0
    promises: bool = True
    """Whether it says that something is in a log."""


Exchange = Generator[Send | OffloadStep | StandInLine | WaitForState, Any, QueuedAnswer | None]
"""Returns None where nobody waits for an answer."""


# -- what the client waits for --------------------------------------------------------------------------------------


class Pending:
    """:ivar basis: what the answer rests on; None: it promises nothing about a log or a group."""

    __slots__ = ("basis", "request")

    outcome = "local"
    """The metrics' word for it."""
    due_at = 0.0
    """When it is to be looked at again."""
    refused: Sequence[RefusedBatch] = ()
    """Batches that its answer refuses."""
    request: Request
    basis: Basis | None

    def changes(self) -> bool:
        """Whether it may have changed a log or a group."""
        return False


@dataclass(slots=True, eq=False)
class Ready(Pending):
    """:ivar due_at: when the answer may go.
    :ivar lifts_with: operation with whose fence it may go, too.
    :ivar told: the request whose outcome it tells, where it waits for more than its turn.
    :ivar vouched: what it rests on stood when it came: it stays true, whenever it is told.
    :ivar last: nothing is told behind it. The session ends in its turn.
    """

    request: Request
    frame: bytes | bytearray
    due_at: float = 0.0
    basis: Basis | None = None
    lifts_with: str | None = None
    told: Gathered | Passed | None = None
    vouched: bool = False
    refused: Sequence[RefusedBatch] = ()
    last: bool = False

    def changes(self) -> bool:
        return self.promises and not self.vouched

    @property
    def promises(self) -> bool:
        """Whether it says that something was done."""
        return self.basis is not None and self.request.api.vouched

    def promised_by(self, cluster: str) -> InFlight | None:
        """What it says is done, if this cluster has a part in that."""
        told = self.told
        return None if told is None or not self.promises or cluster not in told.clusters else told


@dataclass(slots=True, eq=False)
class Composed(Pending):
    """:ivar ends: the transaction that it ends.
    :ivar due_at: when the answer may go, or with the fence of `lifts_with`.
    """

    outcome = "composed"
    request: Request
    ends: EndedTransaction | None
    due_at: float = 0.0
    lifts_with: str | None = None
    basis: Basis | None = None

    def ready(self, frame: bytes) -> Ready:
        return Ready(self.request, frame, self.due_at, self.basis, self.lifts_with)


@dataclass(slots=True, eq=False)
class InFlight(Pending):
    """Something of it was sent to a broker.

    :ivar topics: whose logs it may write to; None, any: it was streamed before all were seen.
    :ivar group: the group that it changes.
    :ivar lane: the broker that keeps it in order with others.
    :ivar revision: of the state on which it was forwarded.
    :ivar begins: the fetch session that begins with it: its answer says how the broker calls that.
    """

    request: Request
    topics: tuple[bytes, ...] | None = ()
    group: bytes | None = None
    basis: Basis | None = field(default=None, init=False)
    lane: BrokerLane | None = field(default=None, init=False)
    revision: int = field(default=0, init=False)
    begins: FetchSession | None = field(default=None, init=False)
    due_at: float = field(default=0.0, init=False)

    def changes(self) -> bool:
        return self.topics != () or self.group is not None


@dataclass(slots=True, eq=False)
class Passed(InFlight):
    """The broker's answer goes to the client as it arrives.

    :ivar reads: topics that a fetch waits for, as far as it names them.
    :ivar in_session: whether the fetch belongs to a fetch session (KIP-227).
    :ivar waits_ms: how long a fetch lets its broker wait for records.
    """

    outcome = "passed"

    @property
    def clusters(self) -> set[str]:
        return set() if self.lane is None else {self.lane.cluster}

    reads: Sequence[bytes] = ()
    in_session: bool = False
    waits_ms: int = 0

    def answered(self, frame: bytearray) -> bytearray:
        """Its whole answer, as the client gets it."""
        return frame

    def abandoned(self, frame: bytes) -> tuple[Ready, Discarded]:
        """It is answered without its broker, which has not begun to."""
        return Ready(self.request, frame), Discarded(self.request)


@dataclass(slots=True, eq=False)
class Patched(Passed):
    """The same, with offsets patched on the way (fetch)."""

    outcome = "mapped"
    shifts: Shifts = field(kw_only=True)


@dataclass(slots=True, eq=False)
class Shifted(Passed):
    """The same, with offsets patched when it is there (produce).

    :ivar shifts: what is added to the base offsets of partitions.
    :ivar like: how its answer looks if it was written, where that is known.
    """

    outcome = "mapped"
    shifts: Mapping[tuple[bytes, int], int] = field(kw_only=True)
    like: ProduceAnswerTemplate | None = field(default=None, kw_only=True)

    def answered(self, frame: bytearray) -> bytearray:
        patch_produce_response(frame, self.request.api_version, self.shifts, 4)
        return frame


@dataclass(slots=True, eq=False)
class Gathered(InFlight):
    """Its exchange makes one answer of those of brokers.

    :ivar awaited: brokers whose answer is not there; none: it stands in line (`StandInLine`, `WaitForState`).
    :ivar clusters: those to which something of it was sent.
    :ivar sent: its last `Send`.
    :ivar leased: they say what lies where somebody may write, so they are read under the lease only. Until then they
        lie at their brokers: all readers wait at once, and whole answers are long.
    """

    outcome = "mapped"
    exchange: Exchange = field(kw_only=True)
    leased: bool = field(default=False, kw_only=True)
    refused: Sequence[RefusedBatch] = field(default=(), kw_only=True)
    awaited: set[BrokerLane] = field(default_factory=set, init=False)
    clusters: set[str] = field(default_factory=set, init=False)
    sent: Send = field(default=Send({}), init=False)
    frames: Frames = field(default_factory=dict, init=False)

    def ready(self, answer: QueuedAnswer, now: float) -> Ready:
        due_at = now + answer.delay_s if answer.delay_s else 0.0
        self.sent = Send({})  # what was sent is kept no longer than it may be sent again
        return Ready(
            self.request, answer.frame, due_at, self.basis if answer.promises else None, told=self, refused=self.refused
        )

    @property
    def dispensable(self) -> frozenset[BrokerLane]:
        """The brokers that it awaits, and without which the answer can be made."""
        return self.sent.spared & self.awaited

    def without(self) -> Discarded:
        return Discarded(self.request, self.topics)


@dataclass(slots=True, eq=False)
class Discarded:
    """The broker's answer is dropped: the client has one, or the question was the gateway's own.

    :ivar topics: whose logs are known to be written when it comes; None: any.
    """

    request: Request
    topics: tuple[bytes, ...] | None = ()


def concerns(pending: InFlight | Discarded, topics: frozenset[bytes]) -> bool:
    """Whether it may write to one of them."""
    return bool(topics) if pending.topics is None else not topics.isdisjoint(pending.topics)
