"""Requests that the client waits for, and answers that have begun to arrive.

Requests wait in the client's order. There is a class per kind, whose methods are its legal next states:

    Passed, Patched   one broker's answer streams through; a Shifted one is short, and patched when it is complete
        .abandoned()      Ready, and Discarded in the broker's queue
    Gathered          an exchange with one or more brokers makes the answer
        .ready()          Ready
        .without()        Discarded in the queue of a broker that is no longer waited for, or of all others
    Composed          the driver's composed handler makes the answer
        .ready()          Ready
    Ready             the answer is complete, and goes out in its turn and time

Only the head of the client's queue may stream its answer: clients rely on the order, in which brokers answer as well.
The brokers' queues hold the same objects in the same order, so the head of the client's queue is always the head of its
broker's, and no request waits forever.

A broker's answer is read in one of these ways, which know nothing of a session:

    Streaming    goes to the client as it comes
    Patching     the same, with offsets patched on the way (fetch)
    Gathering    is collected whole for an exchange
        .dropped()   Dropping
    Holding      is collected whole, and goes to the client later, or changed
    Dropping     is discarded
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from gateway.session.commands import BrokerLane
from gateway.session.fetch.fetch_session import FetchSession
from gateway.session.produce.producer_order import RefusedBatch
from gateway.session.request import Request
from ha_core.wire.fetch_answer import FetchPatcher, Shifts
from ha_core.wire.produce import patch_produce_response
from ha_core.wire.templates import ProduceAnswerTemplate

Basis = tuple[int, int]
"""Lease generation and state revision under which a request was forwarded. If both have changed when the answer comes,
an operation may have passed by meanwhile."""
NO_LEASE = -1
"""In place of the generation: the lease did not hold."""
SEVERAL = BrokerLane("", -1)
"""In place of the broker, where a request goes to several."""


class EndedTransaction(NamedTuple):
    """The end of a transaction that a client asks for."""

    cluster: str
    """The cluster in which it began."""
    transactional_id: str
    producer_id: int
    """The id that the client knows."""
    commits: bool
    doubted: bool
    """A topic had left the cluster by force, or was about to, when the end was asked for."""


# -- exchanges with brokers: generators that yield steps and return an answer ---------------------------------------

Frames = dict[BrokerLane, bytearray | None]
"""Answers by broker, including their size field; None if the broker was lost."""


class Send(NamedTuple):
    """Send a frame to each of these brokers; resumed with their answers (`Frames`)."""

    frames: Mapping[BrokerLane, bytes | memoryview]
    survives_loss: bool = False
    """The exchange continues when a broker is lost. Otherwise the session ends, and the client retries."""
    spared: frozenset[BrokerLane] = frozenset()
    """Brokers that are given up when the topology reports them gone (`answers`)."""
    patience_s: float = 0.0
    """Without their answer the topology is refreshed after this time."""


class OffloadStep(NamedTuple):
    """Run this off the event loop; resumed with its result."""

    work: Callable[[], Any]


class StandInLine(NamedTuple):
    """Wait until all earlier exchanges in the line are done; resumed with None."""


class WaitForState(NamedTuple):
    """Stay at the head of the line until a new state or this time; resumed with None."""

    until: float


class ExchangeAnswer(NamedTuple):
    frame: bytes | bytearray
    """Empty: the client expects none."""
    delay_s: float = 0.0
    promises: bool = True
    """True if it confirms an append to a log."""


Exchange = Generator[Send | OffloadStep | StandInLine | WaitForState, Any, ExchangeAnswer | None]
"""Returns None if no client waits for an answer."""


# -- what the client waits for --------------------------------------------------------------------------------------


class Pending:
    """:ivar basis: lease and revision that the answer depends on; None: it promises nothing about a log or a group."""

    __slots__ = ("basis", "request")

    outcome = "local"
    """Metrics label."""
    due_at = 0.0
    """When it is checked again."""
    refused: Sequence[RefusedBatch] = ()
    """Batches that its answer refuses."""
    request: Request
    basis: Basis | None

    def changes(self) -> bool:
        """True if it may have changed a log or a group."""
        return False


@dataclass(slots=True, eq=False)
class Ready(Pending):
    """:ivar due_at: when the answer may go.
    :ivar lifts_with: operation whose fence's end lets it go earlier.
    :ivar reports: the request whose outcome it reports, if it waits for more than its turn.
    :ivar confirmed: its basis stood when the broker answered, so the answer stays true whenever it goes out.
    :ivar last: the session ends after it, without further answers.
    """

    request: Request
    frame: bytes | bytearray
    due_at: float = 0.0
    basis: Basis | None = None
    lifts_with: str | None = None
    reports: Gathered | Passed | None = None
    confirmed: bool = False
    refused: Sequence[RefusedBatch] = ()
    last: bool = False

    def changes(self) -> bool:
        return self.promises and not self.confirmed

    @property
    def promises(self) -> bool:
        """True if it confirms an effect."""
        return self.basis is not None and self.request.api.lease_guarded

    def promised_by(self, cluster: str) -> InFlight | None:
        """The request whose effect it confirms, if this cluster took part."""
        pending = self.reports
        return None if pending is None or not self.promises or cluster not in pending.clusters else pending


@dataclass(slots=True, eq=False)
class Composed(Pending):
    """:ivar ends: the transaction that it ends.
    :ivar due_at: when the answer may go, unless the fence of `lifts_with` ends earlier.
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
    """A part of the request was sent to a broker.

    :ivar topics: topics to whose logs it may write; None: any, since it was streamed before all names were seen.
    :ivar group: the group that it changes.
    :ivar lane: the broker that keeps it in order with others.
    :ivar revision: state revision at which it was forwarded.
    :ivar sent_at: when it was sent to a broker last; 0: as it came.
    :ivar begins: fetch session that it begins; the answer has the broker's id of that session.
    """

    request: Request
    topics: tuple[bytes, ...] | None = ()
    group: bytes | None = None
    basis: Basis | None = field(default=None, init=False)
    lane: BrokerLane | None = field(default=None, init=False)
    revision: int = field(default=0, init=False)
    begins: FetchSession | None = field(default=None, init=False)
    due_at: float = field(default=0.0, init=False)
    sent_at: float = field(default=0.0, init=False)

    def changes(self) -> bool:
        return self.topics != () or self.group is not None


@dataclass(slots=True, eq=False)
class Passed(InFlight):
    """The broker's answer goes to the client as it arrives.

    :ivar reads: topics that a fetch waits for, as far as it names them.
    :ivar in_session: True if the fetch belongs to a fetch session (KIP-227).
    :ivar waits_ms: how long a fetch lets its broker wait for records.
    :ivar heard: the broker's answer has begun to come.
    """

    outcome = "passed"

    @property
    def clusters(self) -> set[str]:
        return set() if self.lane is None else {self.lane.cluster}

    reads: Sequence[bytes] = ()
    in_session: bool = False
    waits_ms: int = 0
    heard: bool = field(default=False, init=False)

    def answered(self, frame: bytearray) -> bytearray:
        """The complete answer in the client's form."""
        return frame

    def abandoned(self, frame: bytes) -> tuple[Ready, Discarded]:
        """Answers without the broker, whose answer has not begun to arrive."""
        return Ready(self.request, frame), Discarded(self.request)


@dataclass(slots=True, eq=False)
class Patched(Passed):
    """Like `Passed`, with offsets patched as the answer streams (fetch)."""

    outcome = "mapped"
    shifts: Shifts = field(kw_only=True)


@dataclass(slots=True, eq=False)
class Shifted(Passed):
    """Like `Passed`, with offsets patched in the complete answer (produce).

    :ivar shifts: added to the base offsets of partitions.
    :ivar answer_template: template of a successful answer, if known.
    """

    outcome = "mapped"
    shifts: Mapping[tuple[bytes, int], int] = field(kw_only=True)
    answer_template: ProduceAnswerTemplate | None = field(default=None, kw_only=True)

    def answered(self, frame: bytearray) -> bytearray:
        patch_produce_response(frame, self.request.api_version, self.shifts, 4)
        return frame


@dataclass(slots=True, eq=False)
class Gathered(InFlight):
    """Its exchange makes one answer from those of brokers.

    :ivar awaited: brokers that have not answered; none: it stands in line (`StandInLine`, `WaitForState`).
    :ivar clusters: clusters that were sent a part of it.
    :ivar sent: its last `Send`.
    :ivar leased: broker answers show logs that are being written, so they are read only under the lease. Until then
        they stay in the brokers' connections: all readers wait at once, and whole answers are long.
    """

    outcome = "mapped"
    exchange: Exchange = field(kw_only=True)
    leased: bool = field(default=False, kw_only=True)
    refused: Sequence[RefusedBatch] = field(default=(), kw_only=True)
    awaited: set[BrokerLane] = field(default_factory=set, init=False)
    clusters: set[str] = field(default_factory=set, init=False)
    sent: Send = field(default=Send({}), init=False)
    frames: Frames = field(default_factory=dict, init=False)

    def ready(self, answer: ExchangeAnswer, now: float) -> Ready:
        due_at = now + answer.delay_s if answer.delay_s else 0.0
        self.sent = Send({})  # keep the frames no longer than they may be resent
        return Ready(
            self.request,
            answer.frame,
            due_at,
            self.basis if answer.promises else None,
            reports=self,
            refused=self.refused,
        )

    @property
    def dispensable(self) -> frozenset[BrokerLane]:
        """Awaited brokers without which the answer can be made."""
        return self.sent.spared & self.awaited

    def without(self) -> Discarded:
        return Discarded(self.request, self.topics)


@dataclass(slots=True, eq=False)
class Discarded:
    """The broker's answer is dropped: the client has one, or the gateway asked for itself.

    :ivar topics: topics whose pending writes are done when it comes; None: any.
    """

    request: Request
    topics: tuple[bytes, ...] | None = ()


def concerns(pending: InFlight | Discarded, topics: frozenset[bytes]) -> bool:
    """True if it may write to one of the topics."""
    return bool(topics) if pending.topics is None else not topics.isdisjoint(pending.topics)


# -- answers of brokers that have begun to arrive: a class per way of reading them -----------------------------------


@dataclass(slots=True, eq=False)
class Dropping:
    """:ivar missing: bytes that have not come; 0: complete.
    :ivar basis: lease and revision that have to stand before more goes to the client.
    """

    to_client: ClassVar = False
    missing: int
    basis: Basis | None = None

    def feed(self, view: memoryview, pos: int, end: int) -> int:
        """Uses bytes from `pos` on; returns the position after them."""
        stop = min(pos + self.missing, end)
        self.missing -= stop - pos
        return stop


@dataclass(slots=True, eq=False)
class Streaming(Dropping):
    to_client: ClassVar = True


@dataclass(slots=True, eq=False)
class Patching:
    """:ivar missing: True while bytes have not come."""

    to_client: ClassVar = True
    basis: Basis | None
    patcher: FetchPatcher
    pending: Passed
    size: int
    read: Counter[bytes] | None
    """Bytes of records by topic, where quotas need them (`Throttling`)."""
    head: int = 4
    """Bytes of the size field, which the patcher does not see."""
    missing: bool = True

    def feed(self, view: memoryview, pos: int, end: int) -> int:
        stop = self.patcher.feed(view, pos + self.head, end)
        self.head = 0
        self.missing = not self.patcher.done
        return stop


@dataclass(slots=True, eq=False)
class _Collecting(Dropping):
    frame: bytearray = field(default_factory=bytearray, init=False)

    def feed(self, view: memoryview, pos: int, end: int) -> int:
        stop = Dropping.feed(self, view, pos, end)
        self.frame += view[pos:stop]
        return stop


@dataclass(slots=True, eq=False)
class Gathering(_Collecting):
    pending: Gathered = field(kw_only=True)

    def dropped(self) -> Dropping:
        return Dropping(self.missing)


@dataclass(slots=True, eq=False)
class Holding(_Collecting):
    pending: Passed = field(kw_only=True)

    def ready(self) -> Ready:
        pending = self.pending
        return Ready(pending.request, pending.answered(self.frame), basis=pending.basis, reports=pending)


Arriving = Dropping | Patching
