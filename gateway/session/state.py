"""State of one client connection, shared by the handlers of requests and answers, and the methods that change it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from gateway.session.auth_state import Anonymous, Entry, SaslInProgress, TlsAuthenticated
from gateway.session.client_ids import ByClientId
from gateway.session.commands import (
    BrokerLane,
    Cause,
    Close,
    Command,
    Compose,
    OffloadWork,
    Saw,
    ToClient,
    ToUpstream,
    Wake,
)
from gateway.session.fast.cached_decision import CachedDecisions
from gateway.session.fetch.fetch_session import FetchSession
from gateway.session.fetch.plan import Gap
from gateway.session.lease_guard import basis, confirm_or_wait, still_valid
from gateway.session.lifecycle import OPEN, Leaving, Life, Over
from gateway.session.open_transactions import OpenTransactions
from gateway.session.pending import SEVERAL, Composed, EndedTransaction, Gathered, InFlight, Pending, Ready
from gateway.session.produce.producer_order import RefusedBatch
from gateway.session.readiness import AwaitingIdentity, Beginning, Delayed, Full, HalfSent, Preparation, Turn
from gateway.session.refusal import Refusal
from gateway.session.request import Message, Request, text
from gateway.session.retry_backoff import RetryBackoff
from gateway.session.routes import Routes
from gateway.session.shared import Shared
from gateway.session.snapshot import Port, Snapshot
from gateway.session.throttling import AwaitingQuota, Throttling
from gateway.session.upstream import Upstream
from ha_core.model import ANONYMOUS
from ha_core.model.usage import SEEN_AGAIN
from ha_core.plan.access.rights import Verdicts
from ha_core.plan.facts.clusters import Partition
from ha_core.wire import APIS

MAX_QUESTIONS = 8
"""Composed requests of one connection that may run at once: each may end in an answer of megabytes."""
MAX_BUFFERED_BYTES = 16 << 20
"""Batches of one connection that may have to go to a target: above this no more is read from the client."""
MAX_GIVEN_BYTES = 256 << 10
"""Answers made here within one event: above this more are made once the client's socket has taken these."""
MAX_READY_BYTES = 1 << 20
"""Finished answers of one connection that wait for an earlier answer: above this the gateway takes no more requests
from it. A broker works on one request of a connection at a time; here 100 answers could wait behind a fetch that waits
for records."""
MAX_SEEN = 10_000
"""Topics and groups of one connection whose use is reported."""
SEEN_AGAIN_S = SEEN_AGAIN.total_seconds()
MADE_WITHIN_S = 60.0
"""A topic that is not known here may be new: clusters are looked at twice as often as this."""


class ConnectionState:
    """:ivar address: the client's address as rules name it (`model.access.address`), without its port.
    :ivar queue: requests that the client waits for, in order.
    :ivar out: commands that the driver has not taken yet.
    """

    __slots__ = (
        "_waking",
        "address",
        "awaits_lease",
        "buffered_bytes",
        "carry",
        "client_id",
        "composed",
        "damping",
        "delayed",
        "entry",
        "fetch_session",
        "flows",
        "gaps",
        "given_bytes",
        "headers_read",
        "held_bytes",
        "here",
        "life",
        "line",
        "now",
        "only_produce",
        "out",
        "port",
        "preparing",
        "producer_order",
        "queue",
        "reading",
        "ready_bytes",
        "routes_by_client",
        "seen",
        "seen_again",
        "seen_until",
        "shared",
        "snapshot",
        "software",
        "throttling",
        "transactions",
        "unacknowledged",
        "upstreams",
        "waits_for",
    )  # fmt: skip

    def __init__(self, port: Port, shared: Shared, snapshot: Snapshot, address: str = "") -> None:
        self.port = port
        self.address = address
        self.shared = shared
        self.snapshot = snapshot
        self.now = 0.0
        self.out: list[Command] = []
        self.queue: deque[Pending] = deque()
        self.upstreams: dict[BrokerLane, Upstream] = {}
        self.carry: bytes = b""
        self.life: Life = OPEN
        self.entry: Entry = Anonymous(shared.authentication.anonymous)
        self.software: str | None = None
        """`NAME/VERSION` of the client, if it has sent them."""
        self.damping = RetryBackoff(shared.remembered)
        self.seen: dict[int, None] = {}
        """Hashes of reported uses. (Most connections have none or one; an empty set takes three times as much
        memory.)"""
        self.seen_until = 0.0
        """When uses are reported again: a connection may stay open for months."""
        self.seen_again = False
        """The fetch session's topics are reported again with its next fetch, which does not name them."""
        self.fetch_session: FetchSession | None = None
        self.gaps: dict[Partition, Gap] = {}
        """Gaps by partition, where a fetch reads now."""
        self.awaits_lease = False
        self.here = port.lane
        """The port's broker, if it has one."""
        self.only_produce = False
        """Only produce is in flight, first of all to the port's broker: further produce keeps its order by itself."""
        self.unacknowledged = False
        """A request without an answer was sent."""
        self.reading: Beginning | HalfSent | None = None
        """The request to which the next client bytes belong; None: a new one."""
        self.waits_for: Turn | Full | AwaitingIdentity | Preparation | AwaitingQuota | Delayed | None = None
        """Why the first request in `carry` waits."""
        self.delayed: Delayed | None = None
        """Set if that request was counted already, and waits or has waited (`discovery`)."""
        self.routes_by_client: ByClientId[Routes] = ByClientId()
        self.flows: CachedDecisions = ()
        """Decisions for requests that were forwarded, the newest first: similar requests are treated alike
        (`fast_path`)."""
        self.client_id: str | None = None
        """Client id of the newest request whose routes were looked up."""
        self.composed: list[Composed] = []
        """Requests that the driver works on: few."""
        self.given_bytes = 0
        """Bytes of the answers in `out`."""
        self.ready_bytes = 0
        """Bytes of the answers in `queue`."""
        self._waking = False
        self.transactions = OpenTransactions(shared.transactions, port.cluster)
        self.producer_order = shared.producer_orders.of(None)
        """Shared by all sessions of the user."""
        self.headers_read = 0
        """Requests whose header has come."""
        self.held_bytes = 0
        """Bytes of a request that is not complete yet."""
        self.line: list[Gathered] = []
        """Exchanges that run one after the other (`exchange`)."""
        self.preparing: Request | None = None
        """The request that is decoded and judged off the event loop."""
        self.throttling = Throttling(snapshot.quotas, shared.meters, shared.counts)
        self.buffered_bytes = 0
        """Bytes of batches that may have to go to the target of a crossing (`produce.split`)."""

    @property
    def broker(self) -> BrokerLane:
        """The port's broker, for requests that are routed there."""
        assert self.here is not None
        return self.here

    def emit(self, command: Command) -> None:
        self.out.append(command)

    def close(self, cause: Cause, detail: str = "") -> None:
        """Ends the session; no further decisions are made."""
        if not isinstance(self.life, Over):
            self.life = self.life.end(cause, detail)
            self.out.append(Close(cause, detail))

    def enter(self, entry: SaslInProgress, user: str, expires_at: float) -> None:
        """The client has authenticated."""
        self.entry = entry.authenticated(user, expires_at)
        self.transactions.user = user
        self.producer_order = self.shared.producer_orders.of(user, self.now)
        self.throttling.enter(user)
        self.forget_verdicts()

    def recognise(self, user: str) -> None:
        """The client has presented the user's certificate; called before it has sent anything."""
        self.entry = TlsAuthenticated(user)
        self.transactions.user = user
        self.producer_order = self.shared.producer_orders.of(user, self.now)
        self.throttling.enter(user)

    def forget_verdicts(self) -> None:
        """Drops decisions made on another snapshot or for another user."""
        self.routes_by_client.clear()
        self.flows = ()
        if self.fetch_session is not None:
            self.fetch_session.routes = None

    def leave_fetch_session(self) -> None:
        """The client has ended its fetch session, or has to begin a new one."""
        if self.fetch_session is not None:
            self.fetch_session.routes = None
        self.fetch_session = None

    def unlimited(self, request: Request) -> bool:
        """True if the request uses no quota. Those that do are counted one by one, and leave no flow."""
        return self.throttling.charges(request, self.now) is None

    def routes(self, client_id: str | None) -> Routes:
        """Routes for the identity of a request."""
        routes = self.routes_by_client.get(client_id)
        if routes is None:
            self.client_id = client_id
            identity, room = self.snapshot.view.identify(self.entry.user, client_id), self.shared.remembered
            routes = Routes(self.snapshot, identity, self.port, self.verdicts, room)
            self.routes_by_client.keep(client_id, routes)
        return routes

    @property
    def verdicts(self) -> Verdicts | None:
        """Rights of the client; None: everything.

        They depend on the authenticated user: a client id, which may name another one, grants nothing.
        """
        rights = self.snapshot.rights
        return None if rights is None else rights.of(self.entry.user or ANONYMOUS, self.address)

    def look_again(self) -> None:
        """Reports all further uses again. Flows are dropped so that requests on the fast path are looked at once
        more."""
        self.seen_until = self.now + SEEN_AGAIN_S
        self.seen_again = self.fetch_session is not None
        self.seen.clear()
        self.flows = ()

    def notice(self, request: Request, what: str, name: bytes, how: str) -> None:
        """Reports the use of a topic or group, once per connection and kind of use, and again some hours later.

        A topic that no cluster has is not reported: clients without a login may name anything.
        """
        key = hash((how, name))  # names come from the wire, and may be long
        if key not in self.seen and len(self.seen) < MAX_SEEN:
            if what == "topic" and not self.snapshot.has_topic(text(name)):
                self.seen_until = min(self.seen_until, self.now + MADE_WITHIN_S)
                return
            self.seen[key] = None
            self.emit(Saw(self.routes(request.client_id).identity, what, text(name), how, self.software))

    def send(self, lane: BrokerLane, data: bytes | bytearray | memoryview) -> Upstream:
        upstream = self.upstreams.get(lane)
        if upstream is None:
            upstream = self.upstreams[lane] = Upstream(lane)
        self.out.append(ToUpstream(lane, data))
        return upstream

    def forward(self, pending: InFlight, lane: BrokerLane, data: bytes | bytearray | memoryview) -> None:
        """Sends a request to a broker, whose answer belongs to `pending`."""
        if lane.lane == 0:
            pending.lane = lane if pending.lane in (None, lane) else SEVERAL
        self.damping.forwarded(pending.request.api_key)
        self.send(lane, data).queue.append(pending)

    def pass_on(self, pending: InFlight, lane: BrokerLane, data: bytes | bytearray | memoryview) -> None:
        """Queues the request for the client, and forwards it to this broker."""
        self.enqueue(pending)
        self.forward(pending, lane, data)

    def send_unacknowledged(
        self, lane: BrokerLane, data: bytes | memoryview, topics: Iterable[bytes], complete: bool
    ) -> None:
        """:param complete: True if `topics` are all that the request names."""
        upstream = self.send(lane, data)
        self.unacknowledged = True
        upstream.unacknowledged.add(topics, complete, self.snapshot.view.revision)

    def unsure(self) -> bool:
        """True if a request without an answer may still be in flight."""
        return any(upstream.unsure() for upstream in self.upstreams.values())

    def may_yet_append(self) -> bool:
        """True if a broker has a request that may change a log or a group, and has not reported the outcome."""
        return self.unsure() or any(isinstance(pending, InFlight) and pending.changes() for pending in self.queue)

    def hold(self, count: int) -> bool:
        """Counts more held bytes of an incomplete request. False: all clients together exceed the limit."""
        self.held_bytes += count
        return self.shared.held.add(count)

    def let_go(self) -> None:
        """Releases the held bytes of a request."""
        self.shared.held.let_go(self.held_bytes)
        self.held_bytes = 0

    def full(self, share: int = 1) -> bool:
        """True if the connection has its maximum in flight, or one `share`th of it."""
        return (
            len(self.queue) * share >= self.shared.max_in_flight
            or len(self.composed) * share >= MAX_QUESTIONS
            or self.buffered_bytes > MAX_BUFFERED_BYTES
            or self.ready_bytes * share > MAX_READY_BYTES
        )

    def wake(self) -> None:
        """Requests a `Wake` for the next due time."""
        self._waking = True

    def next_wakeup(self) -> float | None:
        """The next time at which something is due."""
        due = [pending.due_at for pending in self.queue if pending.due_at > self.now]
        due.append(self.throttling.muted_until)
        if self.delayed is not None:
            due.append(self.delayed.until)
        return min((at for at in due if at > self.now), default=None)

    @property
    def muted(self) -> bool:
        """True if the client has to wait before its next request is read."""
        return self.throttling.muted_until > self.now

    def pop_commands(self) -> list[Command]:
        if self._waking or self.throttling.anew:
            self.throttling.anew = False
            # Once per event, however many of its requests asked for it: the driver keeps only one time.
            self._waking = False
            if (due_at := self.next_wakeup()) is not None:
                self.out.append(Wake(due_at))
        out, self.out = self.out, []
        self.given_bytes = 0
        return out

    def enqueue(self, pending: InFlight | Composed) -> None:
        """Queues a request that is about to be forwarded or composed."""
        api_key = pending.request.api_key
        if APIS[api_key].vouched or (APIS[api_key].leased_read and isinstance(pending, Composed)):
            pending.basis = basis(self)
        if isinstance(pending, InFlight):
            pending.revision = self.snapshot.view.revision
        self.queue.append(pending)
        self.shared.counts.requests[api_key, pending.outcome] += 1

    def reply(
        self,
        request: Request,
        message: Message,
        outcome: str = "local",
        due_at: float = 0.0,
        fence: str | None = None,
        refused: Sequence[RefusedBatch] = (),
    ) -> None:
        """Queues an answer made here."""
        self.shared.counts.requests[request.api_key, outcome] += 1
        if self.throttling.timed:
            message = self.throttling.replied(request, message, self.now)
        self.line_up(Ready(request, request.answer(message), due_at, lifts_with=fence, refused=refused))
        self._readied(due_at)

    def line_up(self, ready: Ready) -> None:
        """Queues an answer behind those to earlier requests."""
        self.ready_bytes += len(ready.frame)
        self.queue.append(ready)

    def stand_in(self, pending: Pending, ready: Ready) -> None:
        """Replaces a pending request in the queue with its answer."""
        self.ready_bytes += len(ready.frame)
        self.queue[self.queue.index(pending)] = ready

    def drop_answers(self) -> None:
        """Drops finished answers: the client is gone."""
        for pending in self.queue:
            if isinstance(pending, Ready):
                pending.frame = b""
        self.ready_bytes = 0

    def reply_later(
        self,
        request: Request,
        make: Callable[[], Message],
        outcome: str = "local",
        due_at: float = 0.0,
        fence: str | None = None,
    ) -> None:
        """Like `reply`, for a long answer: it is made and encoded off the event loop."""
        pending = Composed(request, None, due_at, fence)
        self.composed.append(pending)
        self.shared.counts.requests[request.api_key, outcome] += 1
        self.queue.append(pending)
        self.emit(OffloadWork(pending, lambda: request.answer(make()), Cause.FAULT))

    def answer_nothing(self, request: Request, due_at: float) -> None:
        """Delays the end of a session that is leaving until then."""
        self.line_up(Ready(request, b"", due_at))
        self._readied(due_at)

    def count_refused(self, refusals: Iterable[Refusal]) -> None:
        self.shared.counts.refusals.update(refusal.label for refusal in refusals)

    def compose(
        self, request: Request, message: Message | bytes, ends: EndedTransaction | None = None, fence: str | None = None
    ) -> None:
        """Has a composed handler answer; if it refuses something for a fence, the answer is held."""
        due_at = self.now + Refusal.FENCE.hold_s if fence is not None else 0.0
        pending = Composed(request, ends, due_at, fence)
        self.composed.append(pending)
        self.enqueue(pending)
        identity = self.routes(request.client_id).identity
        self.emit(Compose(pending, request.api_key, request.api_version, identity, message))

    def refusals_delivered(self, now: float) -> None:
        """The client is gone, or retries over another connection: refusals count as delivered."""
        for pending in self.queue:
            if pending.refused:
                self.producer_order.delivered(pending.refused, now)

    def forget(self, pending: InFlight) -> None:
        """Drops a request without an answer. Brokers' answers to it are dropped."""
        self.producer_order.delivered(pending.refused, self.now)
        if pending in self.queue:
            self.queue.remove(pending)
        if isinstance(pending, Gathered):
            if pending in self.line:
                self.line.remove(pending)
            for upstream in self.upstreams.values():
                if pending in upstream.queue:
                    upstream.discard(pending)

    def complete(self, pending: Pending, ready: Ready) -> None:
        """Puts the answer of `pending` in its place in the queue."""
        if self.throttling.quotas is not None:
            ready = self.throttling.made(pending, ready, self.now)
            if ready.due_at > self.now and ready.basis is not None and still_valid(self, ready.basis):
                ready.vouched = True
        self.stand_in(pending, ready)
        self._readied(ready.due_at)

    def _readied(self, due_at: float) -> None:
        if due_at > self.now:
            self.wake()
        self.flush()

    def flush(self) -> None:
        """Sends every answer made here whose turn and time have come. After the session's end no answer goes out:
        earlier ones may be missing, or cut off."""
        queue = self.queue
        while queue and self.life.goes_on:
            ready = queue[0]
            if not isinstance(ready, Ready) or ready.due_at > self.now:
                return
            if ready.basis is not None and not ready.vouched and not confirm_or_wait(self, ready.basis):
                return
            queue.popleft()
            self.ready_bytes -= len(ready.frame)
            if ready.refused:
                self.producer_order.delivered(ready.refused, self.now)
            if ready.frame and self.life.connected:
                self.given_bytes += len(ready.frame)
                self.out.append(ToClient(ready.frame))
            if ready.last:
                self._end_here()

    def _end_here(self) -> None:
        """The client gets no more answers. Later requests that brokers may still append are awaited."""
        life = self.life
        if not isinstance(life, Leaving):
            return
        if self.may_yet_append():
            self.life = life.client_left()
            self.refusals_delivered(self.now)
        else:
            self.close(life.cause, life.detail)
