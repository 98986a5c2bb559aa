"""Requests of one client that are not answered yet, in its order, and the answers that wait for their turn."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from gateway.session.client import SessionClient
from gateway.session.commands import BrokerLane, Cause, Compose, OffloadWork, ToClient
from gateway.session.context import SessionContext
from gateway.session.lifecycle import Leaving
from gateway.session.pending import Composed, EndedTransaction, Gathered, InFlight, Passed, Pending, Ready, concerns
from gateway.session.produce.producer_order import RefusedBatch
from gateway.session.readiness import Turn
from gateway.session.refusal import Refusal, refusal_answer
from gateway.session.request import Message, Request
from gateway.session.retry_backoff import RetryBackoff
from gateway.session.throttling import Throttling
from gateway.session.upstream import Upstreams
from ha_core.wire import APIS, ApiKey

MAX_QUESTIONS = 8
"""Composed requests of one connection that may run at once: each may end in an answer of megabytes."""
MAX_BUFFERED_BYTES = 16 << 20
"""Batches of one connection that may have to go to a target: above this no more is read from the client."""
MAX_READY_BYTES = 1 << 20
"""Finished answers of one connection that wait for an earlier answer: above this the gateway takes no more requests
from it. A broker works on one request of a connection at a time; here 100 answers could wait for a fetch that waits for
records."""
WRITES = APIS[ApiKey.PRODUCE].effect


class RequestsInFlight:
    """:ivar queue: requests that the client waits for, in order. Few are in flight, and an empty deque would take a
        quarter of an idle connection's memory.
    :ivar line: exchanges that run one after the other (`exchange`). Most connections have none.
    :ivar composing: number of `Composed` requests in `queue`, which the driver works on.
    :ivar only_produce: only produce is in flight, first of all to the port's broker: further produce keeps its order by
        itself.
    :ivar given_bytes: bytes of the answers that the driver has not taken yet.
    :ivar ready_bytes: bytes of the answers in `queue`.
    :ivar buffered_bytes: bytes of batches that may have to go to the target of a crossing (`produce.split`).
    :ivar retry_backoff: back-off of repeated refusals.
    :ivar waking: True if the driver is to be asked for a `Wake`.
    """

    __slots__ = (
        "_client", "_context", "_throttling", "_upstreams", "buffered_bytes", "composing", "given_bytes", "line",
        "only_produce", "queue", "ready_bytes", "retry_backoff", "waking",
    )  # fmt: skip

    def __init__(
        self,
        context: SessionContext,
        client: SessionClient,
        throttling: Throttling,
        upstreams: Upstreams,
        retry_backoff: RetryBackoff,
    ) -> None:
        self._context, self._client = context, client
        self._throttling, self._upstreams = throttling, upstreams
        self.retry_backoff = retry_backoff
        self.queue: list[Pending] = []
        self.line: tuple[Gathered, ...] = ()
        self.composing = 0
        self.only_produce = False
        self.given_bytes = 0
        self.ready_bytes = 0
        self.buffered_bytes = 0
        self.waking = False

    # -- requests -------------------------------------------------------------------------------------------------

    def enqueue(self, pending: InFlight | Composed) -> None:
        """Queues a request that is about to be forwarded or composed."""
        context, api_key = self._context, pending.request.api_key
        if APIS[api_key].lease_guarded or (APIS[api_key].leased_read and isinstance(pending, Composed)):
            pending.basis = context.basis()
        if isinstance(pending, InFlight):
            pending.revision = context.snapshot.view.revision
        self.queue.append(pending)
        context.shared.counts.requests[api_key, pending.outcome] += 1

    def pass_on(self, pending: InFlight, lane: BrokerLane, data: bytes | bytearray | memoryview) -> None:
        """Queues the request for the client, and forwards it to this broker."""
        self.enqueue(pending)
        self._upstreams.forward(pending, lane, data)

    def forward_each(self, pending: InFlight, frames: Mapping[BrokerLane, bytes | memoryview]) -> None:
        """Sends a step of an exchange to brokers."""
        if not self._upstreams.forward_each(pending, frames):
            self.leave_unsent((pending,))

    def compose(
        self, request: Request, message: Message | bytes, ends: EndedTransaction | None = None, fence: str | None = None
    ) -> None:
        """Has a composed handler answer; if it refuses something for a fence, the answer is held."""
        due_at = self._context.now + Refusal.FENCE.hold_s if fence is not None else 0.0
        pending = Composed(request, ends, due_at, fence)
        self.composing += 1
        self.enqueue(pending)
        identity = self._client.routes(request.client_id).identity
        self._context.emit(Compose(pending, request.api_key, request.api_version, identity, message))

    def has_come(self, turn: Turn) -> bool:
        """True if no request in flight has to come first."""
        for pending in self.queue:
            together = turn.lane is not None and isinstance(pending, InFlight) and pending.lane == turn.lane
            if together or isinstance(pending, Ready):
                continue
            if turn.effect.clashes(pending.request.api.effect):
                return False
        if not turn.effect.clashes(WRITES):
            return True
        return not any(upstream.unsure() for upstream in self._upstreams.values() if upstream.lane != turn.lane)

    # -- questions about them -------------------------------------------------------------------------------------

    def full(self, share: int = 1) -> bool:
        """True if the connection has its maximum in flight, or one `share`th of it."""
        return (
            len(self.queue) * share >= self._context.shared.max_in_flight
            or self.composing * share >= MAX_QUESTIONS
            or self.buffered_bytes > MAX_BUFFERED_BYTES
            or self.ready_bytes * share > MAX_READY_BYTES
        )

    def may_yet_append(self) -> bool:
        """True if a broker has a request that may change a log or a group, and has not reported the outcome."""
        return self._upstreams.unsure() or any(
            isinstance(pending, InFlight) and pending.changes() for pending in self.queue
        )

    def busy(self) -> bool:
        """True if a request in flight may change a log or a group."""
        return self._upstreams.unsure() or any(pending.changes() for pending in self.queue)

    def holds_back(
        self, topics: frozenset[bytes], groups: frozenset[bytes], since: int, quiet: frozenset[bytes], dead: str | None
    ) -> bool:
        """True if an operation has to wait for requests in flight to a broker (`Session.holds_back`)."""
        for pending in chain(self.queue, self.undelivered(dead)):
            if not isinstance(pending, InFlight) or pending.revision >= since:
                continue
            if concerns(pending, topics) or (pending.group is not None and pending.group in groups):
                return True
            if pending.request.api_key == ApiKey.ADD_PARTITIONS_TO_TXN and not quiet.isdisjoint(pending.topics or ()):
                return True
        return any(upstream.holds_back(topics, since) for upstream in self._upstreams.values())

    def undelivered(self, cluster: str | None) -> Iterator[InFlight]:
        """Requests that this cluster has executed, and whose answer has not gone to the client."""
        if cluster is not None and self._context.life.connected:
            for ready in self.queue:
                if isinstance(ready, Ready) and (pending := ready.promised_by(cluster)) is not None:
                    yield pending

    def wake(self) -> None:
        """Requests a `Wake` for the next due time."""
        self.waking = True

    def due_at(self) -> Iterator[float]:
        """Times at which an answer is due, or is checked again."""
        return (pending.due_at for pending in self.queue if pending.due_at > self._context.now)

    # -- answers that are made here -------------------------------------------------------------------------------

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
        self._context.shared.counts.requests[request.api_key, outcome] += 1
        if self._throttling.timed:
            message = self._throttling.replied(request, message, self._context.now)
        self.queue_ready(Ready(request, request.answer(message), due_at, lifts_with=fence, refused=refused))
        self._readied(due_at)

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
        self.composing += 1
        self._context.shared.counts.requests[request.api_key, outcome] += 1
        self.queue.append(pending)
        self._context.emit(OffloadWork(pending, lambda: request.answer(make()), Cause.FAULT))

    def refuse(
        self,
        request: Request,
        message: Message,
        refusal: Refusal,
        fence: str | None = None,
        amend: Callable[[Message], Message] | None = None,
    ) -> None:
        """Refuses a request for a coordinator.

        :param fence: the operation whose fence stands, if one does.
        :param amend: adds the results of the elements that were removed from `message` because they were denied.
        """
        self._context.count_refused((refusal,))
        make = partial(refusal_answer, request, message, refusal, self._client.software, amend)
        lifts_with = fence if refusal is Refusal.FENCE else None
        if lifts_with is not None:
            self._client.fenced(lifts_with, request.client_id)
        self.answer_refused(request, make, (refusal,), (request.api_key,), lifts_with)

    def answer_refused(
        self,
        request: Request,
        answer: Message | Callable[[], Message],
        refusals: Iterable[Refusal],
        what: Iterable[Hashable],
        fence: str | None = None,
        batches: Sequence[RefusedBatch] = (),
    ) -> None:
        """Sends refusals that are counted already: held until the fence is lifted, and delayed when a client retries in
        a loop.

        :param answer: the answer, or its factory, which runs off the event loop if the request is long.
        :param what: keys for the back-off: partitions, or a kind of request.
        :param batches: batches that the client has to send again.
        """
        hold_s = max(refusal.hold_s for refusal in refusals) or self.retry_backoff.refused(what)
        due_at = self._context.now + hold_s
        if request.prepared is not None:
            self.reply_later(request, answer if callable(answer) else lambda: answer, "refused", due_at, fence)
        else:
            self.reply(request, answer() if callable(answer) else answer, "refused", due_at, fence, batches)

    def answer_nothing(self, request: Request, due_at: float) -> None:
        """Delays the end of a session that is leaving until then."""
        self.queue_ready(Ready(request, b"", due_at))
        self._readied(due_at)

    def abandon(self, pending: Passed, frame: bytes) -> bool:
        """Answers a request without its broker, if no part of the broker's answer has gone out. False: a part has."""
        upstream = self._upstreams.get(pending.lane) if pending.lane is not None else None
        if upstream is None or (upstream.queue[0] is pending and upstream.answer is not None):
            return False
        ready, upstream.queue[upstream.queue.index(pending)] = pending.abandoned(frame)
        self.stand_in(pending, ready)
        return True

    def lift(self) -> None:
        """Sends refusals that were held for a fence that is lifted now."""
        standing = self._context.snapshot.fences.operations
        for ready in self.queue:
            if (
                isinstance(ready, Ready | Composed)
                and ready.lifts_with is not None
                and ready.lifts_with not in standing
            ):
                ready.lifts_with = None
                ready.due_at = self._context.now
        self.flush()

    # -- answers in the queue -------------------------------------------------------------------------------------

    def queue_ready(self, ready: Ready) -> None:
        """Queues an answer after those to earlier requests."""
        self.ready_bytes += len(ready.frame)
        self.queue.append(ready)

    def stand_in(self, pending: Pending, ready: Ready) -> None:
        """Replaces a pending request in the queue with its answer."""
        self.ready_bytes += len(ready.frame)
        self.composing -= isinstance(pending, Composed)
        self.queue[self.queue.index(pending)] = ready

    def complete(self, pending: Pending, ready: Ready) -> None:
        """Puts the answer of `pending` in its place in the queue."""
        context = self._context
        if self._throttling.quotas is not None:
            ready = self._throttling.made(pending, ready, context.now)
            if ready.due_at > context.now and ready.basis is not None and context.still_valid(ready.basis):
                ready.confirmed = True
        self.stand_in(pending, ready)
        self._readied(ready.due_at)

    def _readied(self, due_at: float) -> None:
        if due_at > self._context.now:
            self.wake()
        self.flush()

    def flush(self) -> None:
        """Sends every answer made here whose turn and time have come. After the session's end no answer goes out:
        earlier ones may be missing, or cut off."""
        context, queue = self._context, self.queue
        while queue and context.life.goes_on:
            ready = queue[0]
            if not isinstance(ready, Ready) or ready.due_at > context.now:
                return
            if ready.basis is not None and not ready.confirmed and not context.confirm_or_wait(ready.basis):
                return
            del queue[0]
            self.ready_bytes -= len(ready.frame)
            if ready.refused:
                self._client.producer_order.delivered(ready.refused, context.now)
            if ready.frame and context.life.connected:
                request = ready.request
                context.shared.counts.latencies.answered(request.api_key, request.came_at, context.now)
                self.given_bytes += len(ready.frame)
                context.out.append(ToClient(ready.frame))
            if ready.last:
                self._end_here()

    def _end_here(self) -> None:
        """The client gets no more answers. Later requests that brokers may still append are awaited."""
        context = self._context
        life = context.life
        if not isinstance(life, Leaving):
            return
        if self.may_yet_append():
            context.life = life.client_left()
            self.refusals_delivered(context.now)
        else:
            context.close(life.cause, life.detail)

    # -- the client is gone ---------------------------------------------------------------------------------------

    def drop_answers(self) -> None:
        """Drops finished answers: the client is gone."""
        for pending in self.queue:
            if isinstance(pending, Ready):
                pending.frame = b""
        self.ready_bytes = 0

    def refusals_delivered(self, now: float) -> None:
        """The client is gone, or retries over another connection: refusals count as delivered."""
        for pending in self.queue:
            if pending.refused:
                self._client.producer_order.delivered(pending.refused, now)

    def forget(self, pending: InFlight) -> None:
        """Drops a request without an answer. Brokers' answers to it are dropped."""
        self._client.producer_order.delivered(pending.refused, self._context.now)
        if pending in self.queue:
            self.queue.remove(pending)
        if isinstance(pending, Gathered):
            self.leave_line(pending)
            for upstream in self._upstreams.values():
                if pending in upstream.queue:
                    upstream.discard(pending)

    def leave_line(self, pending: Gathered) -> None:
        """The exchange no longer waits for earlier ones, nor later ones for it."""
        if pending in self.line:
            self.line = tuple(other for other in self.line if other is not pending)

    def leave_unsent(self, unsent: Iterable[InFlight]) -> None:
        """Drops steps of exchanges that can never be sent. Their requests get no answer, so later ones may not get one
        either: the client is cut off."""
        for pending in unsent:
            if pending in self.queue:
                self._context.life = self._context.life.client_left()
            self.forget(pending)
