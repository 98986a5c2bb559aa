"""What the handlers of requests and answers share: the state of one client connection, and the verbs that change it."""

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
from gateway.session.fast.cached_decision import CachedDecision
from gateway.session.fetch.fetch_session import FetchSession
from gateway.session.fetch.plan import Gap
from gateway.session.lease_guard import basis, stands, vouch
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
"""Composed requests of one connection that are worked on at once: each may end in an answer of megabytes."""
MAX_BUFFERED_BYTES = 16 << 20
"""Batches of one connection that may have to go to a target: above it no more is read from the client."""
MAX_GIVEN_BYTES = 256 << 10
"""Answers made here within one event: more are made when the client's socket has taken these."""
MAX_READY_BYTES = 1 << 20
"""Bytes of finished answers of one connection that wait for an earlier answer: above it the gateway takes no more
requests from it. A broker works on one request of a connection at a time; here 100 answers could wait behind a fetch
that waits for records."""
MAX_SEEN = 10_000
"""Topics and groups whose use is told, of one connection."""
SEEN_AGAIN_S = SEEN_AGAIN.total_seconds()
MADE_WITHIN_S = 60.0
"""A topic that is not known here may have been made a moment ago: clusters are looked at twice as often."""


class ConnectionState:
    """:ivar address: where the client comes from, as rules name it (`model.access.address`), without its port.
    :ivar queue: requests that the client waits for, in order.
    :ivar out: commands that the driver has not been given yet.
    """

    __slots__ = (
        "_waking",
        "address",
        "awaits_lease",
        "begun_with",
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
        """`NAME/VERSION` of the client, if it has told."""
        self.damping = RetryBackoff(shared.remembered)
        self.seen: dict[int, None] = {}
        """Hashes of what was told to be used. (Most have none or one: an empty set takes three times as much.)"""
        self.seen_until = 0.0
        """When all that is still used is to be told again: a connection may stay open for months."""
        self.seen_again = False
        """The topics of the fetch session are to be told again with its next fetch, which does not name them."""
        self.fetch_session: FetchSession | None = None
        self.begun_with: tuple[int, ...] = ()
        """Hashes of the topics that the last ones began with, where they were several; as many as there are flows."""
        self.gaps: dict[Partition, Gap] = {}
        """By partition, where it is read now."""
        self.awaits_lease = False
        self.here = port.lane
        """The port's broker, where it has one."""
        self.only_produce = False
        """Nothing but produce is in flight, to the port's broker first: more of it is in order by itself."""
        self.unacknowledged = False
        """Something was sent that has no answer."""
        self.reading: Beginning | HalfSent | None = None
        """What the next client bytes belong to; None: the next request."""
        self.waits_for: Turn | Full | AwaitingIdentity | Preparation | AwaitingQuota | Delayed | None = None
        """What the first request in `carry` waits for."""
        self.delayed: Delayed | None = None
        """That request was counted already, and has to wait or had to (`discovery`)."""
        self.routes_by_client: ByClientId[Routes] = ByClientId()
        self.flows: tuple[CachedDecision, ...] = ()
        """Requests that were passed, the newest first: others that are like them go the same way (`fast_path`)."""
        self.client_id: str | None = None
        """Of the newest request that a verdict was looked up for."""
        self.composed: list[Composed] = []
        """Those that the driver works on: few."""
        self.given_bytes = 0
        """Answers in `out`."""
        self.ready_bytes = 0
        """Bytes of the answers in `queue`."""
        self._waking = False
        self.transactions = OpenTransactions(shared.transactions, port.cluster)
        self.producer_order = shared.producer_orders.of(None)
        """Shared by all sessions of the user."""
        self.headers_read = 0
        """Requests of which so much has come that it is known what they are."""
        self.held_bytes = 0
        """Of a request that is not whole yet."""
        self.line: list[Gathered] = []
        """Exchanges that go on one after the other (`exchange`)."""
        self.preparing: Request | None = None
        """The request that is read and judged beside the event loop."""
        self.throttling = Throttling(snapshot.quotas, shared.meters, shared.counts)
        self.buffered_bytes = 0
        """Batches that may have to go to the target of a crossing (`produce.split`)."""

    @property
    def broker(self) -> BrokerLane:
        """The port's broker, for what is decided to go there."""
        assert self.here is not None
        return self.here

    def emit(self, command: Command) -> None:
        self.out.append(command)

    def close(self, cause: Cause, detail: str = "") -> None:
        """Ends the session; nothing more is decided."""
        if not isinstance(self.life, Over):
            self.life = self.life.end(cause, detail)
            self.out.append(Close(cause, detail))

    def enter(self, entry: SaslInProgress, user: str, expires_at: float) -> None:
        """The client has proved who it is."""
        self.entry = entry.authenticated(user, expires_at)
        self.transactions.user = user
        self.producer_order = self.shared.producer_orders.of(user, self.now)
        self.throttling.enter(user)
        self.forget_verdicts()

    def recognise(self, user: str) -> None:
        """The client has shown the user's certificate; before it has sent anything."""
        self.entry = TlsAuthenticated(user)
        self.transactions.user = user
        self.producer_order = self.shared.producer_orders.of(user, self.now)
        self.throttling.enter(user)

    def forget_verdicts(self) -> None:
        """What was decided rested on another snapshot, or on who the client was."""
        self.routes_by_client.clear()
        self.flows = ()
        if self.fetch_session is not None:
            self.fetch_session.routes = None

    def leave_fetch_session(self) -> None:
        """The client has ended it, or is to begin anew."""
        if self.fetch_session is not None:
            self.fetch_session.routes = None
        self.fetch_session = None

    def unlimited(self, request: Request) -> bool:
        """Whether it uses up no quota: those that do are counted one by one, and leave no flow."""
        return self.throttling.charges(request, self.now) is None

    def routes(self, client_id: str | None) -> Routes:
        """Verdicts for the identity of a request."""
        routes = self.routes_by_client.get(client_id)
        if routes is None:
            self.client_id = client_id
            identity, room = self.snapshot.view.identify(self.entry.user, client_id), self.shared.remembered
            routes = Routes(self.snapshot, identity, self.port, self.verdicts, room)
            self.routes_by_client.keep(client_id, routes)
        return routes

    @property
    def verdicts(self) -> Verdicts | None:
        """What the client may do; None: everything.

        By the user who has authenticated: a client id, which may name another one, gives nobody a right.
        """
        rights = self.snapshot.rights
        return None if rights is None else rights.of(self.entry.user or ANONYMOUS, self.address)

    def look_again(self) -> None:
        """All that is used from now on is told again. What went the fast way is looked at once more for it."""
        self.seen_until = self.now + SEEN_AGAIN_S
        self.seen_again = self.fetch_session is not None
        self.seen.clear()
        self.flows = ()

    def notice(self, request: Request, what: str, name: bytes, how: str) -> None:
        """A topic or a group is used; told once per connection and way of use, and again some hours later.

        A topic that no cluster has is not used: clients without login name what they like.
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
        """A request to a broker, whose answer belongs to `pending`."""
        if lane.lane == 0:
            pending.lane = lane if pending.lane in (None, lane) else SEVERAL
        self.damping.forwarded(pending.request.api_key)
        self.send(lane, data).queue.append(pending)

    def pass_on(self, pending: InFlight, lane: BrokerLane, data: bytes | bytearray | memoryview) -> None:
        """The client waits for what is sent to this broker."""
        self.enqueue(pending)
        self.forward(pending, lane, data)

    def send_unacknowledged(
        self, lane: BrokerLane, data: bytes | memoryview, topics: Iterable[bytes], complete: bool
    ) -> None:
        """:param complete: whether `topics` are all that the request names."""
        upstream = self.send(lane, data)
        self.unacknowledged = True
        upstream.unacknowledged.add(topics, complete, self.snapshot.view.revision)

    def unsure(self) -> bool:
        """Whether something without an answer may still be on its way."""
        return any(upstream.unsure() for upstream in self.upstreams.values())

    def may_yet_append(self) -> bool:
        """Whether a broker has something that may change a log or a group, and has not told what became of it."""
        return self.unsure() or any(isinstance(pending, InFlight) and pending.changes() for pending in self.queue)

    def hold(self, count: int) -> bool:
        """Keeps so many more bytes of a request that is not whole yet. False: all clients together have no room."""
        self.held_bytes += count
        return self.shared.held.add(count)

    def let_go(self) -> None:
        """What was kept of a request is needed no more."""
        self.shared.held.let_go(self.held_bytes)
        self.held_bytes = 0

    def full(self, share: int = 1) -> bool:
        """Whether as much is under way as one connection may have, or one `share`th of it."""
        return (
            len(self.queue) * share >= self.shared.max_in_flight
            or len(self.composed) * share >= MAX_QUESTIONS
            or self.buffered_bytes > MAX_BUFFERED_BYTES
            or self.ready_bytes * share > MAX_READY_BYTES
        )

    def wake(self) -> None:
        """Asks to be woken for what is due next."""
        self._waking = True

    def next_wakeup(self) -> float | None:
        """When the next thing that waits for its time is due."""
        due = [pending.due_at for pending in self.queue if pending.due_at > self.now]
        due.append(self.throttling.muted_until)
        if self.delayed is not None:
            due.append(self.delayed.until)
        return min((at for at in due if at > self.now), default=None)

    @property
    def muted(self) -> bool:
        """Whether the client has to wait before it is asked for its next request."""
        return self.throttling.muted_until > self.now

    def pop_commands(self) -> list[Command]:
        if self._waking or self.throttling.anew:
            self.throttling.anew = False
            # Once, however many requests of an event asked for it: the driver keeps one time only.
            self._waking = False
            if (due_at := self.next_wakeup()) is not None:
                self.out.append(Wake(due_at))
        out, self.out = self.out, []
        self.given_bytes = 0
        return out

    def enqueue(self, pending: InFlight | Composed) -> None:
        """A request that is about to be forwarded or composed."""
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
        """An answer made here, in its turn."""
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
        """The same where the answer is long: it is made and written beside the event loop."""
        pending = Composed(request, None, due_at, fence)
        self.composed.append(pending)
        self.shared.counts.requests[request.api_key, outcome] += 1
        self.queue.append(pending)
        self.emit(OffloadWork(pending, lambda: request.answer(make()), Cause.FAULT))

    def answer_nothing(self, request: Request, due_at: float) -> None:
        """Holds the end of a session that is about to leave until then."""
        self.line_up(Ready(request, b"", due_at))
        self._readied(due_at)

    def count_refused(self, refusals: Iterable[Refusal]) -> None:
        self.shared.counts.refusals.update(refusal.label for refusal in refusals)

    def compose(
        self, request: Request, message: Message | bytes, ends: EndedTransaction | None = None, fence: str | None = None
    ) -> None:
        """Lets a composed handler answer; if it refuses something for a fence, the answer is held."""
        due_at = self.now + Refusal.FENCE.hold_s if fence is not None else 0.0
        pending = Composed(request, ends, due_at, fence)
        self.composed.append(pending)
        self.enqueue(pending)
        identity = self.routes(request.client_id).identity
        self.emit(Compose(pending, request.api_key, request.api_version, identity, message))

    def tell_nobody(self, now: float) -> None:
        """The client is gone, or asks again by another connection, as if all that was refused had been told."""
        for pending in self.queue:
            if pending.refused:
                self.producer_order.told(pending.refused, now)

    def forget(self, pending: InFlight) -> None:
        """It is never answered. What brokers still say of it is dropped."""
        self.producer_order.told(pending.refused, self.now)
        if pending in self.queue:
            self.queue.remove(pending)
        if isinstance(pending, Gathered):
            if pending in self.line:
                self.line.remove(pending)
            for upstream in self.upstreams.values():
                if pending in upstream.queue:
                    upstream.discard(pending)

    def complete(self, pending: Pending, ready: Ready) -> None:
        """The answer of `pending` is there."""
        if self.throttling.quotas is not None:
            ready = self.throttling.made(pending, ready, self.now)
            if ready.due_at > self.now and ready.basis is not None and stands(self, ready.basis):
                ready.vouched = True
        self.stand_in(pending, ready)
        self._readied(ready.due_at)

    def _readied(self, due_at: float) -> None:
        if due_at > self.now:
            self.wake()
        self.flush()

    def flush(self) -> None:
        """Sends every answer made here whose turn and time have come. Behind the end nobody gets one: what stood before
        it may be forgotten, or torn."""
        queue = self.queue
        while queue and self.life.goes_on:
            ready = queue[0]
            if not isinstance(ready, Ready) or ready.due_at > self.now:
                return
            if ready.basis is not None and not ready.vouched and not vouch(self, ready.basis):
                return
            queue.popleft()
            self.ready_bytes -= len(ready.frame)
            if ready.refused:
                self.producer_order.told(ready.refused, self.now)
            if ready.frame and self.life.connected:
                self.given_bytes += len(ready.frame)
                self.out.append(ToClient(ready.frame))
            if ready.last:
                self._end_here()

    def _end_here(self) -> None:
        """The client is told nothing more. What brokers may yet append of its later requests is awaited."""
        life = self.life
        if not isinstance(life, Leaving):
            return
        if self.may_yet_append():
            self.life = life.client_left()
            self.tell_nobody(self.now)
        else:
            self.close(life.cause, life.detail)
