"""Answers of brokers on their way to the client, and answers that do not come."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from struct import Struct

from gateway.session.commands import BrokerLane, Drop, Refresh, ToClient
from gateway.session.context import SessionContext
from gateway.session.exchange import Exchanges
from gateway.session.fetch.fetch_session import empty_answer, once_each
from gateway.session.in_flight import RequestsInFlight
from gateway.session.pending import (
    Arriving,
    Discarded,
    Dropping,
    Gathered,
    Gathering,
    Holding,
    InFlight,
    Passed,
    Patched,
    Patching,
    Shifted,
    Streaming,
)
from gateway.session.refusal import Refusal
from gateway.session.request import text
from gateway.session.snapshot import Snapshot
from gateway.session.throttling import Throttling
from gateway.session.upstream import Upstream, Upstreams
from ha_core.model import Topic, View
from ha_core.wire import ApiKey, Destination, RemoteProtocolError
from ha_core.wire.fetch_answer import SESSION_ID_BYTES, FetchPatcher, session_id_of

PATIENCE_S = 2.0
"""An answer that is this late makes the gateway refresh the topology."""
LONG_POLL_MS = 500
"""An abandoned poll is not waited for if it may take longer than the clients' default."""
_HEAD = Struct(">ii")


class BrokerAnswers:
    """Reads what brokers send on behalf of one client."""

    __slots__ = ("_context", "_in_flight", "_throttling", "_upstreams")

    def __init__(
        self, context: SessionContext, throttling: Throttling, upstreams: Upstreams, in_flight: RequestsInFlight
    ) -> None:
        self._context, self._throttling = context, throttling
        self._upstreams, self._in_flight = upstreams, in_flight

    @property
    def _exchanges(self) -> Exchanges:
        return Exchanges(self._context, self._in_flight)

    def receive(self, upstream: Upstream, buf: bytearray, end: int) -> None:
        """Handles bytes of one broker; those that cannot be used yet stay in `upstream.carry`."""
        upstream.carry = b""
        view = memoryview(buf)
        pos = 0
        while self._context.life.goes_on and pos < end:
            answer = upstream.answer
            if answer is None:
                if end - pos < _HEAD.size or end - pos < self._needs(_next(upstream), view, pos):
                    break
                answer = upstream.answer = self._begin(upstream, view, pos)
            if answer is None or not (answer.basis is None or self._context.confirm_or_wait(answer.basis)):
                upstream.blocked = True
                break
            stop = answer.feed(view, pos, end)
            if answer.to_client and stop > pos and self._context.life.connected:
                self._context.out.append(ToClient(view[pos:stop]))
            pos = stop
            if answer.missing:
                break
            upstream.answer = None
            upstream.queue.popleft()
            if answer.to_client:
                if isinstance(answer, Patching) and answer.read is not None:
                    self._throttling.read(answer.pending.request, answer.size, answer.read, self._context.now)
                del self._in_flight.queue[0]
                self._in_flight.flush()
            elif isinstance(answer, Gathering):
                self._exchanges.collect(answer.pending, upstream.lane, answer.frame)
            elif isinstance(answer, Holding):
                self._in_flight.complete(answer.pending, answer.ready())
        if self._context.life.goes_on and pos < end:
            upstream.carry = bytes(view[pos:end])

    def _begin(self, upstream: Upstream, view: memoryview, pos: int) -> Arriving | None:
        """How to read the next answer, by its header. None: it is not its turn yet."""
        size, correlation_id = _HEAD.unpack_from(view, pos)
        if not 4 <= size <= self._context.shared.limits.max_response_bytes:
            raise RemoteProtocolError(f"an answer of {size} bytes")
        if not upstream.queue:
            raise RemoteProtocolError("an answer without a request")
        pending = upstream.queue[0]
        if pending.request.correlation_id != correlation_id:
            raise RemoteProtocolError(f"answer {correlation_id} where {pending.request.correlation_id} was due")
        if isinstance(pending, Discarded):
            return Dropping(4 + size)
        latencies, now = self._context.shared.counts.latencies, self._context.now
        api_key, came_at = pending.request.api_key, pending.request.came_at
        if isinstance(pending, Gathered):
            if pending.leased and self._waits_for_lease():
                return None
            latencies.heard(api_key, pending.sent_at, now)
            return Gathering(4 + size, pending=pending)
        assert isinstance(pending, Passed)
        if not pending.heard:
            pending.heard = True
            latencies.heard(api_key, pending.sent_at or came_at, now)
        if pending.begins is not None:
            pending.begins.id = session_id_of(view, pos, 4 + size, pending.request.api_version)
        throttling, read = self._throttling, None
        if throttling.quotas is not None:
            if self._in_flight.queue[0] is pending or pending.request.api_key == ApiKey.PRODUCE:
                read = throttling.begins(pending, view[pos:], 4 + size, self._context.now)
            if pending.request.throttle_ms and pending.request.api_key == ApiKey.PRODUCE:
                return Holding(4 + size, pending=pending)
        if isinstance(pending, Shifted):
            return Holding(4 + size, pending=pending)
        if self._in_flight.queue[0] is not pending or pending.due_at > self._context.now:
            return None
        if pending.request.api.leased_read and self._waits_for_lease():
            return None
        latencies.answered(api_key, came_at, now)
        if isinstance(pending, Patched) or read is not None:
            shifts = pending.shifts if isinstance(pending, Patched) else {}
            patcher = FetchPatcher(pending.request.api_version, size, shifts, read)
            return Patching(pending.basis, patcher, pending, 4 + size, read)
        return Streaming(4 + size, pending.basis)

    def _needs(self, pending: InFlight | Discarded | None, view: memoryview, pos: int) -> int:
        """Bytes of an answer that have to be there before it may begin."""
        needs = self._throttling.needs(pending, self._context.now)
        if isinstance(pending, Passed) and pending.begins is not None:
            # A shorter answer is malformed, and its reader reports that.
            needs = max(needs, min(SESSION_ID_BYTES, 4 + _HEAD.unpack_from(view, pos)[0]))
        return needs

    def _waits_for_lease(self) -> bool:
        """True while reads are blocked because the lease has lapsed."""
        if not self._context.life.connected or self._context.leased():
            return False
        self._context.await_lease()
        return True

    def unblock(self) -> None:
        """Streams an answer that waited for its turn; reads those of exchanges, and drops discarded ones."""
        for blocked in [one for one in self._upstreams.values() if one.blocked]:
            if isinstance(blocked.queue[0], Discarded | Gathered):
                self._read_on(blocked)
        queue = self._in_flight.queue
        while queue and self._context.life.goes_on:
            head = queue[0]
            upstream = self._upstreams.get(head.lane) if isinstance(head, Passed) and head.lane is not None else None
            if upstream is None or not upstream.blocked or upstream.queue[0] is not head:
                return
            self._read_on(upstream)
            if upstream.blocked:
                return

    def _read_on(self, upstream: Upstream) -> None:
        upstream.blocked = False
        buf = bytearray(upstream.carry)
        self.receive(upstream, buf, len(buf))

    # -- answers that do not come --------------------------------------------------------------------------------------

    def lost(self, upstream: Upstream) -> bool:
        """Settles the requests in flight to a broker that is gone. False if the connection must close, so that the
        client retries.

        A client whose coordinator is gone gets an error that makes it look for the coordinator, and its connection
        stays. A dead broker refuses connections. A gateway that accepts one and closes it at the first request looks to
        franz-go like a listener that requires a login (`ErrFirstReadEOF`): it does not retry, and its transactional
        producer fails for good.
        """
        awaited = [pending for pending in upstream.queue if not isinstance(pending, Discarded)]
        surviving = [pending for pending in awaited if isinstance(pending, Gathered) and pending.sent.survives_loss]
        unanswered = [pending for pending in awaited if isinstance(pending, Passed) and self._asks_coordinator(pending)]
        begun = upstream.answer is not None and upstream.answer.to_client
        if begun or not upstream.ended_in_order() or len(surviving) + len(unanswered) < len(awaited):
            return False
        upstream.queue.clear()
        for pending in unanswered:
            api = pending.request.api
            answer = pending.request.answer(api.refusal({"member_id": ""}, Refusal.NO_LEADER.code(api)))
            self._context.count_refused((Refusal.NO_LEADER,))
            self._in_flight.complete(pending, pending.abandoned(answer)[0])
        for gathered in surviving:
            self._exchanges.collect(gathered, upstream.lane, None)
        if awaited:
            self._context.emit(Refresh())
        return True

    def _asks_coordinator(self, pending: Passed) -> bool:
        """True if a top-level error in the answer can make the client look for its coordinator again."""
        api = pending.request.api
        to_coordinator = api.destination in (Destination.GROUP, Destination.TRANSACTION)
        return self._context.life.connected and to_coordinator and api.error is not None and not api.error.topics

    # Reads from an old cluster do not wait for unresponsive brokers. A connection that is cut without a RST hangs until
    # the client loses patience, and records of healthy clusters for the same answer wait with it. No timeout applies
    # here: the topology decides whether a broker is gone, so that a slow one never leaves a reader empty-handed again
    # and again. A late answer only makes the gateway refresh the topology sooner.

    def look_for_unresponsive(self) -> None:
        """Time has passed: refreshes the topology if an answer is late."""
        for pending in self._in_flight.queue:
            if isinstance(pending, Gathered) and pending.due_at <= self._context.now and self._silent(pending):
                pending.due_at = self._context.now + PATIENCE_S
                self._context.emit(Refresh())
                self._in_flight.wake()

    def _silent(self, pending: Gathered) -> bool:
        """True if dispensable brokers have not answered; an answer that waits for the lease has arrived."""
        return any(
            (upstream := self._upstreams.get(lane)) is None or not upstream.blocked for lane in pending.dispensable
        )

    def give_up_unresponsive(self) -> None:
        """A new topology: makes answers without the brokers that are gone. Their late answers are dropped."""
        reachable = self._context.snapshot.topology.clusters
        for pending in [pending for pending in self._in_flight.queue if isinstance(pending, Gathered)]:
            for lane in pending.dispensable:
                cluster, upstream = reachable.get(lane.cluster), self._upstreams.get(lane)
                if upstream is None or (cluster is not None and cluster.reachable and lane.broker in cluster.brokers):
                    continue
                upstream.discard(pending)
                self._exchanges.collect(pending, lane, None)

    def drop(self, cluster: str) -> None:
        """Stops waiting for this cluster; no client is left to be answered. Parts of the same requests in other
        clusters are awaited, and then dropped."""
        for lane in [lane for lane in self._upstreams if lane.cluster == cluster]:
            dropped = self._upstreams.pop(lane)
            self._context.emit(Drop(lane))
            self.forget(dropped)
        self._in_flight.flush()
        self._exchanges.proceed()

    def forget(self, upstream: Upstream) -> None:
        """Drops requests to a broker whose connection is gone."""
        for pending in upstream.queue:
            if isinstance(pending, InFlight):
                self._in_flight.forget(pending)

    # -- fetches that wait at a broker whose topic has left --------------------------------------------------------

    def wake_readers(self, before: View) -> None:
        """Answers fetches that wait where their topic has just left, so that the client retries: nothing is appended
        there any more. An answer that has come and waits for the lease is replaced, too: it may hold records appended
        after the topic had left."""
        snapshot, in_flight = self._context.snapshot, self._in_flight
        left_in: dict[str, Callable[[Sequence[bytes]], bool]] = {}
        for pending in tuple(in_flight.queue) if snapshot.view.topics is not before.topics else ():
            if isinstance(pending, Passed) and pending.lane is not None:
                cluster = pending.lane.cluster
                left = left_in.get(cluster)
                if left is None:
                    left = left_in[cluster] = once_each(partial(_any_left, before, snapshot, cluster), unseen=True)
                if left(pending.reads):
                    in_flight.abandon(pending, pending.request.answer(empty_answer(pending.in_session)))
                    self._leave_abandoned(pending, pending.lane)
        in_flight.flush()

    def _leave_abandoned(self, pending: Passed, lane: BrokerLane) -> None:
        """Moves the client's next fetch to a new connection if the broker may hold the abandoned poll for long.

        A broker answers in order, so the next fetch would wait for the poll's end. This is done only if nothing else is
        in flight there: a new connection for every reader would cost more than the default poll takes."""
        upstream = self._upstreams.get(lane)
        if upstream is not None and pending.waits_ms > LONG_POLL_MS and upstream.abandoned():
            del self._upstreams[lane]
            self._context.emit(Drop(lane))


def _next(upstream: Upstream) -> InFlight | Discarded | None:
    return upstream.queue[0] if upstream.queue else None


def _any_left(before: View, snapshot: Snapshot, cluster: str, topics: Sequence[bytes]) -> bool:
    return any(_left(before, snapshot, cluster, topics))


def _left(before: View, snapshot: Snapshot, cluster: str, topics: Sequence[bytes]) -> Iterator[bool]:
    """For each topic, True if it is now read elsewhere, or at other offsets, than in this cluster before."""
    after, known = snapshot.view, snapshot.still_read_here
    for name in map(text, topics):
        then, now = before.topics.get(name), after.topics.get(name)
        if now is then or now is None or not now.mapped:
            continue
        key = (before.revision, after.revision, cluster, name)
        here = known.get(key)
        if here is None:
            here = known[key] = _still_read_here(then if then is not None and then.mapped else None, now, cluster)
        yield not here


def _still_read_here(then: Topic | None, now: Topic, cluster: str) -> bool:
    """True if a fetch that waits in a cluster for a topic's newest records still waits at the right place.

    :param then: None: the topic had no map, so offsets were the cluster's.
    """
    if then is not None and then.partitions == now.partitions:
        return True
    for partition, extents in now.partitions.items():
        newest = extents[-1]
        if then is None:
            same = len(extents) == 1 and newest.cluster == cluster and newest.shift == 0
        elif then.damaged(partition):
            same = False
        elif then.crosses(partition) or then.written(partition).cluster != cluster:
            continue  # it was read elsewhere, or by short polls
        else:
            same = newest.same_stay(then.written(partition))
        if not same or now.crosses(partition) or now.damaged(partition):
            return False
    return True
