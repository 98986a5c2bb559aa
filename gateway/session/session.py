"""One client connection, without I/O: bytes, answers and snapshots in, commands out.

A request is forwarded to the broker of the client's port, rewritten for it, answered here, or handed to a composed
handler. Answers leave in the order of the requests (`pending`). The driver does everything else.
"""

from collections.abc import Hashable
from typing import Any

from gateway.session import groups, requests, transactions
from gateway.session.auth_state import Verifying
from gateway.session.authentication import Login
from gateway.session.commands import BrokerLane, Cause, Command, Refresh, Wake
from gateway.session.lifecycle import Leaving
from gateway.session.pending import Composed, Gathered, Ready
from gateway.session.readiness import AwaitingIdentity, Delayed, Full, HalfSent, Preparation
from gateway.session.request import Request
from gateway.session.rights import Authorization
from gateway.session.snapshot import Snapshot
from gateway.session.state import ConnectionState
from gateway.session.throttling import AwaitingQuota
from ha_core.wire import ForeignProtocolError, RemoteProtocolError, WireError
from ha_core.wire.sasl_steps import Reply


class Session(ConnectionState):
    """The protocol state of one client connection."""

    __slots__ = ("__weakref__",)

    def __repr__(self) -> str:
        context, waiting = self.context, len(self.in_flight.queue)
        return f"<Session {context.life} port={context.port} user={self.client.auth_state.user!r} waiting={waiting}>"

    # -- events -------------------------------------------------------------------------------------------------

    def receive(self, buf: bytearray, end: int, now: float) -> list[Command]:
        """Client bytes `buf[:end]`, beginning with those of `intake.carry`. The buffer may be reused afterwards.

        If `intake.waits_for` is set afterwards, the driver passes `intake.carry` again, alone, once the session
        `may_go_on`.
        """
        self.context.now = now
        self.intake.carry = b""
        self.intake.waits_for = None
        try:
            requests.receive(self, buf, end)
        except ForeignProtocolError as error:
            self.context.shared.counts.foreign["plain", error.spoken.value] += 1
            self.intake.leave(Cause.FOREIGN_PROTOCOL, str(error))
        except RemoteProtocolError as error:
            self.intake.leave(Cause.MALFORMED, str(error))
        return self._decided()

    def receive_upstream(self, lane: BrokerLane, buf: bytearray, end: int, now: float) -> list[Command]:
        """Bytes of a broker, beginning with those of its `carry`."""
        self.context.now = now
        upstream = self.upstreams.get(lane)
        if upstream is not None:
            try:
                self.answers.receive(upstream, buf, end)
            except WireError as error:
                self.context.close(Cause.UPSTREAM_MALFORMED, f"{lane.cluster}:{lane.broker}: {error}")
        return self._decided()

    def upstream_lost(self, lane: BrokerLane, why: str, now: float) -> list[Command]:
        """A broker's connection was refused or broke. The outcome of requests in flight there is unknown, so the
        client's connection ends, and the client retries, unless exchanges continue without that broker. Requests to
        other brokers may still be appended: they are awaited, as after a client has left."""
        self.context.now = now
        upstream = self.upstreams.pop(lane, None)
        if upstream is not None and not self.answers.lost(upstream):
            detail = f"{lane.cluster}:{lane.broker}: {why}"
            self.intake.forget_rest(lane)
            self.answers.forget(upstream)
            if self.context.life.goes_on and self.in_flight.may_yet_append():
                self._cut_off(Cause.UPSTREAM_LOST, detail)
                self.in_flight.flush()
                self.exchanges.proceed()
            else:
                self.context.close(Cause.UPSTREAM_LOST, detail)
        return self._decided()

    def answered(self, token: Hashable, body: dict[str, Any] | bytes, now: float) -> list[Command]:
        """The result of a `Compose`, encoded if it is long."""
        self.context.now = now
        if isinstance(token, Composed) and token in self.in_flight.queue:
            if token.ends is not None and isinstance(body, dict):
                transactions.settle_end(self.context, token.ends, body)
                if not transactions.stays_open(body):
                    self.client.transactions.ended_in(token.ends.cluster, token.ends.transactional_id)
            self.in_flight.complete(token, token.ready(token.request.answer(body)))
        return self._decided()

    def unanswerable(self, token: Hashable, cause: Cause, detail: str, now: float) -> list[Command]:
        """A `Compose` or an `OffloadWork` failed in a way that has no answer. The session ends there: earlier requests
        are answered, as by a broker, and later ones are not."""
        self.context.now = now
        if isinstance(token, Request) and token is self.intake.preparing:
            self.intake.preparing = None
            self.intake.let_go()
            self.intake.leave(cause, detail)
        elif isinstance(token, Composed | Gathered) and token in self.in_flight.queue:
            if isinstance(token, Gathered):
                self.in_flight.leave_line(token)
            self.intake.leave(cause, detail)
            self.in_flight.stand_in(token, Ready(token.request, b"", refused=token.refused, last=True))
            self.in_flight.flush()
        return self._decided()

    def worked(self, token: Hashable, result: Any, now: float) -> list[Command]:
        """The result of an `OffloadWork`."""
        self.context.now = now
        if isinstance(token, Request) and token is self.intake.preparing:
            self.intake.preparing = None
            self.intake.let_go()
            if self.context.life.receives:
                token.prepared = result
                requests.handle(self, token, owned=True)
                token.forget()
        elif isinstance(token, Composed) and token in self.in_flight.queue:
            self.in_flight.complete(token, token.ready(result))
        elif isinstance(token, Gathered):
            self.exchanges.worked(token, result)
        return self._decided()

    def verified(self, reply: Reply, now: float) -> list[Command]:
        """The result of a `VerifyLogin`."""
        self.context.now = now
        Login(self).verified(reply)
        return self._decided()

    def follow(self, snapshot: Snapshot, now: float) -> list[Command]:
        """A new snapshot: from the next request on, no decision uses the old one."""
        self.context.now = now
        self.client.forget_routes()
        self.decisions.forget()
        self.fetching.forget_routes()
        before, self.context.snapshot = self.context.snapshot, snapshot
        Authorization(self).follow(before)
        self.throttling.follow(snapshot.quotas, now)
        self.seen_uses.find_missing()
        if before.view is not snapshot.view:
            self.in_flight.retry_backoff.begin_anew()
            self.in_flight.lift()
            if before.fences.deleted - snapshot.fences.deleted:
                self.seen_uses.forget()
            self.fetching.forget_gaps(before.view, snapshot.view)
            self.answers.wake_readers(before.view)
            groups.wake_joiners(self.in_flight, self.context, self.client)
            self.upstreams.probe()
        self.answers.give_up_unresponsive()
        self.exchanges.proceed()
        return self._decided()

    def tick(self, now: float) -> list[Command]:
        """The time of a `Wake` has come, or the lease of an `AwaitLease` is back."""
        self.context.now = now
        self.context.awaits_lease = False
        self.exchanges.proceed()
        self.answers.look_for_unresponsive()
        self.in_flight.flush()
        return self._decided()

    def client_left(self, now: float) -> list[Command]:
        """The client closed its connection, or the connection broke."""
        self.context.now = now
        self.context.life = self.context.life.client_left()
        self.in_flight.refusals_delivered(now)
        if self.context.life.goes_on:
            self.intake.give_up_rest()
        return self._decided()

    def leave(self, cause: Cause, detail: str, now: float) -> list[Command]:
        """Takes no more requests: the session ends once those in flight are answered."""
        self.context.now = now
        self.intake.leave(cause, detail)
        return self._decided()

    def cut_off(self, cause: Cause, detail: str, now: float) -> list[Command]:
        """Ends the session as if the client had disconnected: writes in flight to brokers are still awaited."""
        self.context.now = now
        if self.context.life.goes_on:
            self._cut_off(cause, detail)
            self.in_flight.flush()
            self.exchanges.proceed()
        return self._decided()

    def hurry(self, now: float) -> list[Command]:
        """An operation waits for requests in flight: a request whose rest does not come is given up, and the
        coordinator is asked about a transaction that does not end."""
        self.context.now = now
        for scope in self.context.snapshot.fences.scopes.values():
            if scope.quiet and self.context.port.cluster is not None:
                self.context.out += self.client.transactions.checks_for_ended(
                    self.context.port.cluster, scope.quiet, now
                )
        self.intake.hurry()
        return self._decided()

    def give_up(self, cluster: str, now: float) -> list[Command]:
        """An operation has taken the cluster for dead, and waits for requests in flight here: stops waiting for that
        cluster.

        The client is cut off without an answer, so it never hears of requests that the cluster has executed, or may
        execute when it resumes: those are part of the cluster's loss. The client retries, after the fence. Requests to
        other clusters may still be appended: they are awaited, as after a client has left.
        """
        self.context.now = now
        owed = any(lane.cluster == cluster and upstream.owes() for lane, upstream in self.upstreams.items())
        if self.context.life.goes_on and (owed or any(self.in_flight.undelivered(cluster))):
            self.context.emit(Refresh())
            self._cut_off(Cause.TAKEN_FOR_DEAD, f"{cluster} owes an answer, and an operation takes it for dead")
            self.answers.drop(cluster)
        return self._decided()

    # -- what the driver asks -----------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """True while no client bytes should be read: too much is in flight, or a quota is exceeded."""
        if self.intake.waits_for is not None or not self.context.life.receives:
            return True
        return self.in_flight.full() or (self.muted and self.intake.reading is None)

    @property
    def may_go_on(self) -> bool:
        """True if the driver should pass `carry` again. Not after every answer, since each time the bytes are
        copied."""
        if self.intake.waits_for is None or not self.context.life.receives:
            return False
        if self.intake.waits_for is AwaitingIdentity.AWAITED:
            return not isinstance(self.client.auth_state, Verifying)
        if self.intake.waits_for is AwaitingQuota.THROTTLED:
            return not self.muted
        if self.intake.waits_for is Preparation.AWAITED:
            return self.intake.preparing is None
        if isinstance(self.intake.waits_for, Delayed):
            return self.context.now >= self.intake.waits_for.until
        return (
            not self.in_flight.full(share=2)
            if self.intake.waits_for is Full.FULL
            else self.in_flight.has_come(self.intake.waits_for)
        )

    @property
    def partial(self) -> tuple[int, int] | None:
        """(number of the request that has begun to come, its size if it is forwarded as it comes, else 0). None: there
        is none, or the gateway waits for something other than the client."""
        if self.intake.waits_for is not None or not self.context.life.receives:
            return None
        if isinstance(self.intake.reading, HalfSent):
            return self.intake.headers_read, self.intake.reading.size
        return (self.intake.headers_read, 0) if self.intake.reading is not None or self.intake.carry else None

    @property
    def idle(self) -> bool:
        return not self.in_flight.queue and self.intake.waits_for is None

    @property
    def busy(self) -> bool:
        """True if a request in flight may change a log or a group."""
        return self.in_flight.busy()

    @property
    def writes(self) -> bool:
        """True if a request in flight may have changed a log or a group, and does not wait for other clients."""
        return self.busy and not all(pending.request.api.rebalance == "waits" for pending in self.in_flight.queue)

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
        if quiet and self.client.transactions.write_to(quiet):
            return True
        return self.in_flight.holds_back(topics, groups, since, quiet, dead)

    def next_wakeup(self) -> float | None:
        """The next time at which something is due."""
        due = [*self.in_flight.due_at(), self.throttling.muted_until]
        if self.discovery.delayed is not None:
            due.append(self.discovery.delayed.until)
        return min((at for at in due if at > self.context.now), default=None)

    # -- inside -------------------------------------------------------------------------------------------------

    def _cut_off(self, cause: Cause, detail: str) -> None:
        """Ends the session without answering pending requests."""
        self.intake.leave(cause, detail)
        self.context.life = self.context.life.client_left()
        self.in_flight.refusals_delivered(self.context.now)
        self.in_flight.drop_answers()

    def _decided(self) -> list[Command]:
        try:
            self.answers.unblock()
        except WireError as error:
            self.context.close(Cause.UPSTREAM_MALFORMED, str(error))
        life = self.context.life
        if isinstance(life, Leaving):
            if not self.busy and not (self.in_flight.queue and life.connected):
                self.context.close(life.cause, life.detail)
        elif life.goes_on and not life.connected and not self.busy and self.intake.waits_for is None:
            self.context.close(Cause.CLIENT_LEFT)
        return self.pop_commands()

    def pop_commands(self) -> list[Command]:
        context, in_flight = self.context, self.in_flight
        if in_flight.waking or self.throttling.anew:
            self.throttling.anew = False
            # Once per event, however many of its requests asked for it: the driver keeps only one time.
            in_flight.waking = False
            if (due_at := self.next_wakeup()) is not None:
                context.emit(Wake(due_at))
        out, context.out = context.out, []
        in_flight.given_bytes = 0
        return out
