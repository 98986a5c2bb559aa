"""One client connection, without I/O: bytes, answers and snapshots in, commands out.

A request is forwarded to the broker of the client's port, rewritten for it, answered here, or handed to a composed
handler. Answers leave in the order of the requests (`pending`). The driver does everything else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import chain
from typing import Any

from gateway.session import (
    answers,
    authentication,
    exchange,
    groups,
    pipelining,
    requests,
    rights,
    streaming,
    transactions,
)
from gateway.session.auth_state import Verifying
from gateway.session.commands import BrokerLane, Cause, Command, Refresh
from gateway.session.fetch.handle import forget_gaps, wake_readers
from gateway.session.lifecycle import Leaving
from gateway.session.pending import Composed, Discarded, Gathered, InFlight, Passed, Ready, concerns
from gateway.session.readiness import AwaitingIdentity, Delayed, Full, HalfSent, Preparation
from gateway.session.request import Request
from gateway.session.snapshot import Snapshot
from gateway.session.state import ConnectionState
from gateway.session.throttling import AwaitingQuota
from gateway.session.upstream import Upstream
from ha_core.wire import ApiKey, ForeignProtocolError, RemoteProtocolError, WireError
from ha_core.wire.sasl_steps import Reply


class Session(ConnectionState):
    """The protocol state of one client connection.

    :ivar carry: client bytes received but not used yet; the driver puts them in front of the next chunk.
    """

    __slots__ = ("__weakref__",)

    def __repr__(self) -> str:
        return f"<Session {self.life} port={self.port} user={self.entry.user!r} waiting={len(self.queue)}>"

    # -- events -------------------------------------------------------------------------------------------------

    def receive(self, buf: bytearray, end: int, now: float) -> list[Command]:
        """Client bytes `buf[:end]`, beginning with those of `carry`. The buffer may be reused afterwards.

        If `waits_for` is set afterwards, the driver passes `carry` again, alone, once the session `may_go_on`.
        """
        self.now = now
        self.carry = b""
        self.waits_for = None
        try:
            requests.receive(self, buf, end)
        except ForeignProtocolError as error:
            self.shared.counts.foreign["plain", error.spoken.value] += 1
            streaming.leave(self, Cause.FOREIGN_PROTOCOL, str(error))
        except RemoteProtocolError as error:
            streaming.leave(self, Cause.MALFORMED, str(error))
        return self._decided()

    def receive_upstream(self, lane: BrokerLane, buf: bytearray, end: int, now: float) -> list[Command]:
        """Bytes of a broker, beginning with those of its `carry`."""
        self.now = now
        upstream = self.upstreams.get(lane)
        if upstream is not None:
            try:
                answers.receive(self, upstream, buf, end)
            except WireError as error:
                self.close(Cause.UPSTREAM_MALFORMED, f"{lane.cluster}:{lane.broker}: {error}")
        return self._decided()

    def upstream_lost(self, lane: BrokerLane, why: str, now: float) -> list[Command]:
        """A broker's connection was refused or broke. The outcome of requests in flight there is unknown, so the
        client's connection ends, and the client retries, unless exchanges continue without that broker. Requests to
        other brokers may still be appended: they are awaited, as after a client has left."""
        self.now = now
        upstream = self.upstreams.pop(lane, None)
        if upstream is not None and not answers.lost(self, upstream):
            detail = f"{lane.cluster}:{lane.broker}: {why}"
            streaming.forget_rest(self, lane)
            answers.forget(self, upstream)
            if self.life.goes_on and self.may_yet_append():
                self._cut_off(Cause.UPSTREAM_LOST, detail)
                self.flush()
                exchange.proceed(self)
            else:
                self.close(Cause.UPSTREAM_LOST, detail)
        return self._decided()

    def answered(self, token: Hashable, body: dict[str, Any] | bytes, now: float) -> list[Command]:
        """The result of a `Compose`, encoded if it is long."""
        self.now = now
        if isinstance(token, Composed) and token in self.composed:
            self.composed.remove(token)
            if token.ends is not None and isinstance(body, dict):
                transactions.settle_end(self, token.ends, body)
                if not transactions.stays_open(body):
                    self.transactions.ended_in(token.ends.cluster, token.ends.transactional_id)
            self.complete(token, token.ready(token.request.answer(body)))
        return self._decided()

    def unanswerable(self, token: Hashable, cause: Cause, detail: str, now: float) -> list[Command]:
        """A `Compose` or an `OffloadWork` failed in a way that has no answer. The session ends there: earlier requests
        are answered, as by a broker, and later ones are not."""
        self.now = now
        if isinstance(token, Request) and token is self.preparing:
            self.preparing = None
            self.let_go()
            streaming.leave(self, cause, detail)
        elif isinstance(token, Composed | Gathered) and token in self.queue:
            if isinstance(token, Composed):
                self.composed.remove(token)
            elif token in self.line:
                self.line.remove(token)
            streaming.leave(self, cause, detail)
            self.stand_in(token, Ready(token.request, b"", refused=token.refused, last=True))
            self.flush()
        return self._decided()

    def worked(self, token: Hashable, result: Any, now: float) -> list[Command]:
        """The result of an `OffloadWork`."""
        self.now = now
        if isinstance(token, Request) and token is self.preparing:
            self.preparing = None
            self.let_go()
            if self.life.receives:
                token.prepared = result
                requests.handle(self, token, owned=True)
                token.forget()
        elif isinstance(token, Composed) and token in self.composed:
            self.composed.remove(token)
            self.complete(token, token.ready(result))
        elif isinstance(token, Gathered):
            exchange.worked(self, token, result)
        return self._decided()

    def judged(self, reply: Reply, now: float) -> list[Command]:
        """The result of a `Judge`."""
        self.now = now
        authentication.judged(self, reply)
        return self._decided()

    def follow(self, snapshot: Snapshot, now: float) -> list[Command]:
        """A new snapshot: from the next request on, no decision uses the old one."""
        self.now = now
        self.forget_verdicts()
        before, self.snapshot = self.snapshot, snapshot
        rights.follow(self, before.rights)
        self.throttling.follow(snapshot.quotas, now)
        if before.view is not snapshot.view:
            self.damping.begin_anew()
            self._lift()
            if before.fences.deleted - snapshot.fences.deleted:
                self.seen.clear()  # a topic created under such a name is a new one, and its use is reported again
            forget_gaps(self, before.view)
            wake_readers(self, before.view)
            groups.wake_joiners(self)
            streaming.probe(self)
        answers.give_up_unresponsive(self)
        exchange.proceed(self)
        return self._decided()

    def tick(self, now: float) -> list[Command]:
        """The time of a `Wake` has come, or the lease of an `AwaitLease` is back."""
        self.now = now
        self.awaits_lease = False
        exchange.proceed(self)
        answers.look_for_unresponsive(self)
        self.flush()
        return self._decided()

    def client_left(self, now: float) -> list[Command]:
        """The client closed its connection, or the connection broke."""
        self.now = now
        self.life = self.life.client_left()
        self.refusals_delivered(now)
        if self.life.goes_on:
            streaming.give_up_rest(self)
        return self._decided()

    def leave(self, cause: Cause, detail: str, now: float) -> list[Command]:
        """Takes no more requests: the session ends once those in flight are answered."""
        self.now = now
        streaming.leave(self, cause, detail)
        return self._decided()

    def cut_off(self, cause: Cause, detail: str, now: float) -> list[Command]:
        """Ends the session as if the client had disconnected: writes in flight to brokers are still awaited."""
        self.now = now
        if self.life.goes_on:
            self._cut_off(cause, detail)
            self.flush()
            exchange.proceed(self)
        return self._decided()

    def hurry(self, now: float) -> list[Command]:
        """An operation waits for requests in flight: a request whose rest does not come is given up, and the
        coordinator is asked about a transaction that does not end."""
        self.now = now
        for scope in self.snapshot.fences.scopes.values():
            if scope.quiet and self.port.cluster is not None:
                self.out += self.transactions.to_look_after(self.port.cluster, scope.quiet, now)
        streaming.hurry(self)
        return self._decided()

    def give_up(self, cluster: str, now: float) -> list[Command]:
        """An operation has taken the cluster for dead, and waits for requests in flight here: stops waiting for that
        cluster.

        The client is cut off without an answer, so it never hears of requests that the cluster has executed, or may
        execute when it resumes: those are part of the cluster's loss. The client retries, after the fence. Requests to
        other clusters may still be appended: they are awaited, as after a client has left.
        """
        self.now = now
        owed = any(lane.cluster == cluster and upstream.owes() for lane, upstream in self.upstreams.items())
        if self.life.goes_on and (owed or any(self._undelivered(cluster))):
            self.emit(Refresh())
            self._cut_off(Cause.TAKEN_FOR_DEAD, f"{cluster} owes an answer, and an operation takes it for dead")
            answers.drop(self, cluster)
        return self._decided()

    def release(self, lane: BrokerLane) -> bool:
        """Releases a broker's idle connection: the next request to that broker opens a new one."""
        upstream = self.upstreams.get(lane)
        if upstream is None or not upstream.unused():
            return False
        del self.upstreams[lane]
        return True

    # -- what the driver asks -----------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """True while no client bytes should be read: too much is in flight, or a quota is exceeded."""
        if self.waits_for is not None or not self.life.receives:
            return True
        return self.full() or (self.muted and self.reading is None)

    @property
    def may_go_on(self) -> bool:
        """True if the driver should pass `carry` again. Not after every answer, since each time the bytes are
        copied."""
        if self.waits_for is None or not self.life.receives:
            return False
        if self.waits_for is AwaitingIdentity.AWAITED:
            return not isinstance(self.entry, Verifying)
        if self.waits_for is AwaitingQuota.THROTTLED:
            return not self.muted
        if self.waits_for is Preparation.AWAITED:
            return self.preparing is None
        if isinstance(self.waits_for, Delayed):
            return self.now >= self.waits_for.until
        return not self.full(share=2) if self.waits_for is Full.FULL else pipelining.has_come(self, self.waits_for)

    @property
    def partial(self) -> tuple[int, int] | None:
        """(number of the request that has begun to come, its size if it is forwarded as it comes, else 0). None: there
        is none, or the gateway waits for something other than the client."""
        if self.waits_for is not None or not self.life.receives:
            return None
        if isinstance(self.reading, HalfSent):
            return self.headers_read, self.reading.size
        return (self.headers_read, 0) if self.reading is not None or self.carry else None

    @property
    def idle(self) -> bool:
        return not self.queue and self.waits_for is None

    @property
    def busy(self) -> bool:
        """True if a request in flight may change a log or a group."""
        return self.unsure() or any(pending.changes() for pending in self.queue)

    @property
    def writes(self) -> bool:
        """True if a request in flight may have changed a log or a group, and does not wait for other clients."""
        return self.busy and not all(pending.request.api.rebalance == "waits" for pending in self.queue)

    def holds_back(
        self,
        topics: frozenset[bytes],
        groups: frozenset[bytes],
        since: int,
        quiet: frozenset[bytes] = frozenset(),
        dead: str | None = None,
    ) -> bool:
        """True if an operation on these topics and groups has to wait for requests in flight to a broker.

        :param since: revision of the operation's rules: requests forwarded at it or later do not count.
        :param quiet: topics under a transaction fence, which waits for open transactions, and for no other produce.
        :param dead: cluster that the operation has taken for dead: what it has executed is lost, so no client may hear
            of it later, and an answer that waits for its turn counts as in flight.
        """
        if quiet and self.transactions.write_to(quiet):
            return True
        for pending in chain(self.queue, self._undelivered(dead)):
            if not isinstance(pending, InFlight) or pending.revision >= since:
                continue
            if concerns(pending, topics) or (pending.group is not None and pending.group in groups):
                return True
            if pending.request.api_key == ApiKey.ADD_PARTITIONS_TO_TXN and not quiet.isdisjoint(pending.topics or ()):
                return True
        return any(streaming.holds_back(upstream, topics, since) for upstream in self.upstreams.values())

    # -- inside -------------------------------------------------------------------------------------------------

    def _cut_off(self, cause: Cause, detail: str) -> None:
        """Ends the session without answering pending requests."""
        streaming.leave(self, cause, detail)
        self.life = self.life.client_left()
        self.refusals_delivered(self.now)
        self.drop_answers()

    def _undelivered(self, cluster: str | None) -> Iterator[InFlight]:
        """Requests that this cluster has executed, and whose answer has not gone to the client."""
        if cluster is not None and self.life.connected:
            for ready in self.queue:
                if isinstance(ready, Ready) and (pending := ready.promised_by(cluster)) is not None:
                    yield pending

    def _decided(self) -> list[Command]:
        try:
            self._unblock()
        except WireError as error:
            self.close(Cause.UPSTREAM_MALFORMED, str(error))
        life = self.life
        if isinstance(life, Leaving):
            if not self.busy and not (self.queue and life.connected):
                self.close(life.cause, life.detail)
        elif life.goes_on and not life.connected and not self.busy and self.waits_for is None:
            self.close(Cause.CLIENT_LEFT)
        return self.pop_commands()

    def _unblock(self) -> None:
        """Streams an answer that waited for its turn; reads those of exchanges, and drops discarded ones."""
        for blocked in [one for one in self.upstreams.values() if one.blocked]:
            if isinstance(blocked.queue[0], Discarded | Gathered):
                self._read_on(blocked)
        while self.queue and self.life.goes_on:
            head = self.queue[0]
            upstream = self.upstreams.get(head.lane) if isinstance(head, Passed) and head.lane is not None else None
            if upstream is None or not upstream.blocked or upstream.queue[0] is not head:
                return
            self._read_on(upstream)
            if upstream.blocked:
                return

    def _read_on(self, upstream: Upstream) -> None:
        upstream.blocked = False
        buf = bytearray(upstream.carry)
        answers.receive(self, upstream, buf, len(buf))

    def _lift(self) -> None:
        """Sends refusals that were held for a fence that is lifted now."""
        standing = self.snapshot.fences.operations
        for ready in self.queue:
            if (
                isinstance(ready, Ready | Composed)
                and ready.lifts_with is not None
                and ready.lifts_with not in standing
            ):
                ready.lifts_with = None
                ready.due_at = self.now
        self.flush()
