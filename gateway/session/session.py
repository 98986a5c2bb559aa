"""One client connection, without I/O: bytes, answers and snapshots in, commands out.

Requests are cut out of the client's bytes and go one of four ways: passed to the broker whose port the client is on,
rewritten for it, answered here, or handed to a composed handler. Answers leave in the order of the requests (`slots`).
Everything else (sockets, clocks, ZooKeeper, other connections) belongs to the driver.
"""

from __future__ import annotations

from typing import Any

from gateway.session import answers, authentication, coordinated, exchange, requests, streaming, transactions, turns
from gateway.session.commands import BrokerLane, Cause, Command
from gateway.session.fetch import log_starts, unresponsive
from gateway.session.fetch.handle import wake_readers
from gateway.session.pending import InFlight, Passed, Ready, concerns
from gateway.session.produce import split
from gateway.session.request import Request
from gateway.session.snapshot import Snapshot
from gateway.session.state import MAX_GIVEN_BYTES, MAX_QUESTIONS, ConnectionState
from gateway.session.upstream import Upstream
from ha_core.wire import ApiKey, RemoteProtocolError, WireError, read_request_header
from ha_core.wire.frames import frame_size

MAX_REQUESTS = 100
"""Within one event: thousands that have no answer fit into what is read at once, and others are to have their turn."""
MIN_REQUEST_BYTES = 10
"""API key, version, correlation id and the length of the client id."""


class Session(ConnectionState):
    """The protocol state of one client connection.

    :ivar carry: client bytes received but not used yet; the driver puts them in front of the next chunk.
    :ivar queue: requests that the client waits for, in order.
    """

    def __repr__(self) -> str:
        state = self.closed.value if self.closed else "leaving" if self.left else "open"
        return f"<Session {state} port={self.port} user={self.user!r} waiting={len(self.queue)}>"

    # -- events -------------------------------------------------------------------------------------------------

    def receive(self, buf: bytearray, end: int, now: float) -> list[Command]:
        """Client bytes `buf[:end]`, which start with what `carry` held. The buffer may be reused afterwards.

        Where so much is under way that the rest has to wait, it stays in `carry`, and `held` says so: it is to be
        given again, with nothing behind it, when the session `may_go_on`.
        """
        self.now = now
        self.carry = b""
        self.held = False
        self.turn = None
        try:
            self._requests(buf, end)
            self._unblock()
        except RemoteProtocolError as error:
            self.close(Cause.MALFORMED, str(error))
        return self._take()

    def receive_upstream(self, lane: BrokerLane, buf: bytearray, end: int, now: float) -> list[Command]:
        """Bytes of a broker, which start with what its `carry` held."""
        self.now = now
        upstream = self.upstreams.get(lane)
        if upstream is not None:
            try:
                answers.receive(self, upstream, buf, end)
                self._unblock()
            except WireError as error:
                self.close(Cause.UPSTREAM_MALFORMED, f"{lane.cluster}:{lane.broker}: {error}")
        return self._take()

    def upstream_lost(self, lane: BrokerLane, why: str, now: float) -> list[Command]:
        """A broker's connection was refused or broke. What was in flight there is unknown, so the client must ask
        again: its connection ends, unless only reads of closed extents went there."""
        self.now = now
        upstream = self.upstreams.pop(lane, None)
        if upstream is not None and not answers.lost(self, upstream):
            self.close(Cause.UPSTREAM_LOST, f"{lane.cluster}:{lane.broker}: {why}")
        self._unblock()
        return self._take()

    def answered(self, token: int, body: dict[str, Any] | bytes | None, now: float) -> list[Command]:
        """The result of a `Compose`, encoded where it is long; None if it failed in a way that has no answer."""
        self.now = now
        pending = self.composed.pop(token, None)
        if pending is None:
            return self._take()
        if body is None:
            self.close(Cause.UPSTREAM_LOST, "the request could not be answered")
            return self._take()
        if pending.ends is not None and isinstance(body, dict) and not transactions.stays_open(body):
            self.transactions.ended(pending.ends)
        self.complete(pending, pending.ready(pending.request.answer(body)))
        self._unblock()
        return self._take()

    def follow(self, snapshot: Snapshot, now: float) -> list[Command]:
        """A new snapshot: from the next request on, nothing is decided on the old one."""
        self.now = now
        self.known_routes.clear()
        before, self.snapshot = self.snapshot, snapshot
        if before.view is not snapshot.view:
            self.damping.begin_anew()
            self._lift()
            log_starts.forget(self, before.view)
            wake_readers(self, before.view)
            coordinated.wake_joiners(self)
            streaming.probe(self)
            if any(topic.decode("utf-8", "replace") in snapshot.view.topics for topic in self.fetch_topics):
                self.fetch_reset = True
        unresponsive.give_up(self)
        self._decide()
        self._unblock()
        return self._take()

    def tick(self, now: float) -> list[Command]:
        """The time of a `Wake` has come, or what an `AwaitLease` asked for."""
        self.now = now
        self._awaits_lease = False
        self._decide()
        unresponsive.ask(self)
        self.flush()
        self._unblock()
        return self._take()

    def client_left(self, now: float) -> list[Command]:
        """The client closed its connection, or it broke."""
        self.now = now
        self.left = True
        streaming.give_up_rest(self)
        self._unblock()
        return self._take()

    def leave(self, cause: Cause, detail: str, now: float) -> list[Command]:
        """No more requests: it is to end when what is in flight is answered."""
        self.now = now
        streaming.leave(self, cause, detail)
        return self._take()

    def hurry(self, now: float) -> list[Command]:
        """An operation waits for what is in flight here: a request whose rest does not come is given up, and a
        transaction whose end does not come is looked after."""
        self.now = now
        for scope in self.snapshot.fences.scopes.values():
            if scope.quiet and self.port.cluster is not None:
                self.out += self.transactions.to_look_after(self.port.cluster, scope.quiet, now)
        if self.streaming is not None and now - self.streaming.arrived_at >= streaming.STALLED_S:
            streaming.leave(self, Cause.STALLED, "the rest of a request did not come, and an operation waits for it")
            self._unblock()
        return self._take()

    def release(self, lane: BrokerLane) -> bool:
        """Lets go of a broker's connection if nothing is under way on it: the next request to it opens another one.

        One over which something went that has no answer (acks=0) stays: only its end tells of a failure.
        """
        upstream = self.upstreams.get(lane)
        if upstream is None or upstream.queue or upstream.missing or upstream.later or upstream.unacknowledged:
            return False
        if upstream.mute or upstream.shut:
            return False
        del self.upstreams[lane]
        return True

    # -- what the driver asks -----------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """No more client bytes, please: too much is in flight."""
        return self.held or self.leaving is not None or self._full(1)

    @property
    def may_go_on(self) -> bool:
        """Whether what is held is to be given again. Not for every single answer: each time the rest is copied."""
        if not self.held or self.leaving is not None:
            return False
        return not self._full(2) if self.turn is None else turns.has_come(self, self.turn)

    @property
    def idle(self) -> bool:
        """Whether the client waits for nothing."""
        return not self.queue

    @property
    def busy(self) -> bool:
        """Whether something that may change a log or a group is in flight."""
        return any(upstream.unsure() for upstream in self.upstreams.values()) or any(p.changes for p in self.queue)

    @property
    def writes(self) -> bool:
        """Whether something in flight may have changed a log or a group, and does not wait for other clients."""
        return self.busy and not all(p.request.api.rebalance == "waits" for p in self.queue)

    def holds_back(
        self, topics: frozenset[bytes], groups: frozenset[bytes], since: int, quiet: frozenset[bytes] = frozenset()
    ) -> bool:
        """Whether an operation on these has to wait: something of them is in flight to a broker.

        :param since: revision of the operation's rules: what was forwarded on it or later does not count.
        :param quiet: topics under a transaction fence, which waits for open transactions, and for no other produce.
        """
        if quiet and self.transactions.write_to(quiet):
            return True
        for pending in self.queue:
            if not isinstance(pending, InFlight) or pending.revision >= since:
                continue
            if concerns(pending, topics) or (pending.group is not None and pending.group in groups):
                return True
            if pending.request.api_key == ApiKey.ADD_PARTITIONS_TO_TXN and not quiet.isdisjoint(pending.topics or ()):
                return True
        return any(streaming.holds_back(upstream, topics, since) for upstream in self.upstreams.values())

    # -- inside -------------------------------------------------------------------------------------------------

    def _take(self) -> list[Command]:
        if self.left and self.closed is None and not self.busy and not self.held:
            self.close(Cause.CLIENT_LEFT)
        streaming.end_if_done(self)
        return self.take()

    def _full(self, share: int) -> bool:
        """Whether as much is under way as one connection may have, or that part of it."""
        return (
            len(self.queue) * share >= self.settings.max_in_flight
            or len(self.composed) * share >= MAX_QUESTIONS
            or self.kept_bytes > split.MAX_KEPT_BYTES
        )

    def _decide(self) -> None:
        """Batches that were kept until the state decides where they belong go on."""
        if self.turn_takers:
            exchange.proceed(self)
            self._unblock()

    def _lift(self) -> None:
        """Refusals held for a fence that stands no more go out now."""
        standing = self.snapshot.fences.operations
        held = [p for p in self.queue if isinstance(p, Ready) and p.lifts_with is not None]
        for ready in held:
            if ready.lifts_with not in standing:
                ready.lifts_with = None
                ready.due_at = self.now
        if held:
            self.flush()
            self._unblock()

    def _unblock(self) -> None:
        """An answer that waited for its turn streams now."""
        while self.queue and self.closed is None:
            head = self.queue[0]
            upstream = self.upstreams.get(head.lane) if isinstance(head, Passed) and head.lane is not None else None
            if upstream is None or not upstream.blocked or upstream.queue[0] is not head:
                return
            upstream.blocked = False
            buf = bytearray(upstream.carry)
            upstream.carry = b""
            answers.receive(self, upstream, buf, len(buf))
            if upstream.blocked:
                return

    def _requests(self, buf: bytearray, end: int) -> None:
        if self.closed is not None or self.leaving is not None:
            return
        pos = 0
        if self.streaming is not None:
            pos = self._continue_stream(self.streaming, memoryview(buf)[:end])
        elif self._gather is not None:
            pos = self._continue_gather(buf, end)
        limits = self.settings.limits
        taken = 0
        while self.closed is None and self.leaving is None and not self.held and end - pos >= 4:
            if taken >= MAX_REQUESTS or self._full(1) or self.given_bytes >= MAX_GIVEN_BYTES:
                self.held = True
                break
            taken += 1
            if self.sasl is not None and self.sasl.raw_tokens:
                token_at, pos = pos, authentication.raw_token(self, self.sasl, buf, pos, end)
                if pos == token_at:
                    break
                continue
            most = limits.max_request_bytes if self.entered else limits.max_login_bytes
            size = frame_size(buf, pos, most, MIN_REQUEST_BYTES)
            frame_end = pos + 4 + size
            header = read_request_header(buf, pos + 4, min(end, frame_end))
            if header is None:
                if end >= frame_end:
                    raise RemoteProtocolError(f"a request of {size} bytes ends inside its header")
                break
            if header.body_at > frame_end:
                raise RemoteProtocolError(f"a request of {size} bytes ends inside its header")
            request = Request(header, buf, pos, min(end, frame_end), limits, max(frame_end - end, 0))
            if not request.missing:
                if not self._in_turn(request):
                    break
                self._handle(request)
                pos = frame_end
                continue
            if self.left or (header.api_key == ApiKey.PRODUCE and not self._in_turn(request)):
                break
            passed = requests.partial(self, request)
            request.forget()
            if passed:
                return
            self._gather = bytearray(memoryview(buf)[pos:end])
            self._wanted = 4 + size
            return
        if self.closed is None and pos < end:
            self.carry = bytes(memoryview(buf)[pos:end])

    def _handle(self, request: Request) -> None:
        requests.whole(self, request)
        request.forget()

    def _continue_stream(self, upstream: Upstream, chunk: memoryview) -> int:
        if not self.stands(upstream.basis):
            streaming.leave(self, Cause.LEASE_LOST, "the rest of a request came after the lease had been lost")
            return 0
        return streaming.go_on(self, upstream, chunk)

    def _continue_gather(self, buf: bytearray, end: int) -> int:
        gather = self._gather
        assert gather is not None
        taken = min(self._wanted - len(gather), end)
        gather += memoryview(buf)[:taken]
        if len(gather) == self._wanted:
            header = read_request_header(gather, 4, len(gather))
            if header is None or header.body_at > len(gather):
                raise RemoteProtocolError("a request ends inside its header")
            request = Request(header, gather, 0, len(gather), self.settings.limits)
            if self._in_turn(request):
                self._gather = None
                self._handle(request)
        return taken

    def _in_turn(self, request: Request) -> bool:
        """Whether a request may begin. If not it is held, and all after it."""
        if not self.queue and not self.unacknowledged:
            self.only_produce = request.api_key == ApiKey.PRODUCE
            return True
        self.held = not turns.comes(self, request)
        return not self.held
