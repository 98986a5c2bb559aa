"""One client connection with its upstream connections, on raw non-blocking sockets.

Raw sockets under `add_reader` instead of transports take equal CPU and a third of the memory; bytes are read into one
shared buffer and sent from it. Back-pressure goes both ways: the client is not read while a broker is slow, and no
broker is read while the client is slow.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import socket
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol

from gateway.model.counts import Counts
from gateway.process.sockets import splicing
from gateway.process.sockets.admission import UnauthenticatedReads
from gateway.process.sockets.channel import BUFFER, BrokerChannel, channel
from gateway.runtime import clock
from gateway.session.commands import (
    BrokerLane,
    Cause,
    Close,
    Command,
    Drop,
    ShutUpstream,
    ToClient,
    ToUpstream,
    Wake,
    Wish,
)
from gateway.session.fast import fast_path
from gateway.session.lifecycle import Open, Over
from gateway.session.session import Session
from gateway.session.snapshot import Snapshot
from gateway.session.upstream import Upstream
from gateway.upstream.dial import BrokerSocket
from ha_core.model import ANONYMOUS
from ha_core.wire.sasl_steps import Reply

_log = logging.getLogger(__name__)
_VIEW = memoryview(BUFFER)

LOGIN_READ_BYTES = 16 << 10
"""Read at once of a client that has not logged in: the unused rest of a read stays in memory."""

UNLEASED_READ_BYTES = 4 << 10
"""Read at once of a broker while the lease does not hold: the bytes wait for it in memory, for all readers at once."""

LINGER_S = 30.0
"""Time to wait for answers after the client has left or is cut off: a fence has to know which batches were appended."""
_NO_ROOM = "clients have as many further connections to brokers as this process has file descriptors for"
_LEASE_RAN_OUT = "the lease ran out between a decision and its sending"
STUCK_S = 1.0
"""Time for which an operation waits for a client that takes no answers while others queue; then it counts as gone.
"""


class ConnectionHost(Protocol):
    """The part of the gateway that a connection uses."""

    loop: asyncio.AbstractEventLoop
    counts: Counts
    snapshot: Snapshot
    """The newest."""
    pipe: splicing.Pipe
    unauthenticated_reads: UnauthenticatedReads

    async def open(self, lane: BrokerLane) -> BrokerSocket: ...
    def fulfil(self, connection: ClientConnection, wish: Wish) -> None: ...
    def entered(self, connection: ClientConnection) -> None: ...
    def lease_generation(self) -> int | None: ...
    def connection_closed(self, connection: ClientConnection, cause: Cause, detail: str) -> None: ...
    def keeps(self, connection: ClientConnection, count: int) -> None: ...
    def holds_brokers(self, connection: ClientConnection, count: int) -> None: ...
    def has_room_for_broker(self, connection: ClientConnection) -> bool: ...
    def linger(self, client: socket.socket) -> None: ...
    def progressed(self, connection: ClientConnection) -> None: ...


class _Partial(NamedTuple):
    """An incomplete request (`Session.partial`), how long the gateway has waited for its rest, and when that was last
    measured."""

    request: tuple[int, int]
    waited_s: float
    seen_at: float


class ClientConnection:
    """Feeds one session with events and carries out its commands."""

    __slots__ = (
        "_going_on", "_linger", "_wake", "address", "brokers", "came_at", "client", "ended", "host", "kept_bytes",
        "partial", "session", "used_at", "user",
    )  # fmt: skip

    def __init__(self, host: ConnectionHost, sock: socket.socket, session: Session, address: str = "") -> None:
        """:param address: the client's, without its port."""
        self.host = host
        self.address = address
        self.user = session.client.auth_state.user
        self.session = session
        self.client = channel(host.loop, sock, self._client_readable, self._client_writable)
        self.brokers: dict[BrokerLane, BrokerChannel] = {}
        self.came_at = clock.wall()
        self.used_at = clock.now()
        self.ended = False
        self.partial: _Partial | None = None
        """The request that is incomplete."""
        self.kept_bytes = 0
        """Bytes of answers that the client has not taken yet, as reported to the host."""
        self._wake: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._going_on = False
        self._want()

    @property
    def named(self) -> str:
        """The user, for logs and limits."""
        return self.session.client.auth_state.user or ANONYMOUS

    def _client_readable(self) -> None:
        if not (self.session.client.auth_state.may_request or self.host.unauthenticated_reads.may_be_read()):
            return
        try:
            session, host = self.session, self.host
            if session.context.snapshot is not host.snapshot:
                self.follow()
            if self.ended:
                return
            if session.intake.reading is not None and self._splice_to_broker():
                return
            kept = _carried(session.intake.carry) if session.intake.carry else 0
            try:
                count = self.client.sock.recv_into(self._room(kept))
            except BlockingIOError:
                return
            except OSError:
                count = 0
            self.used_at = now = clock.now()
            if count == 0:
                self._client_gone()
                return
            host.counts.bytes_from_clients += count
            if kept == 0 and session.decisions.newest_first and not session.throttling.timed:
                passed = fast_path.requests(session, BUFFER, count, now)
                if passed:
                    self._pass_to_broker(passed)
                    if passed == count or self.ended:
                        return
                    count -= passed
                    BUFFER[:count] = _VIEW[passed : passed + count]
            self._receive(kept + count)
        except Exception:
            self._failed()

    def _splice_to_broker(self) -> bool:
        """Splices the arrived rest of a long request to the broker. False: it has to be read into user space."""
        session, host, now = self.session, self.host, clock.now()
        max_bytes = 0 if session.throttling.timed or session.intake.carry else fast_path.rest(session, now)
        broker = self.brokers.get(session.context.broker) if max_bytes >= splicing.LEAST_BYTES else None
        if broker is None or broker.channel is None or not (broker.channel.splices and self.client.splices):
            return False
        try:
            count = host.pipe.fill(self.client.sock, max_bytes)
        except BlockingIOError:
            return True
        except OSError:
            count = 0
        self.used_at = now
        if count == 0:
            self._client_gone()
            return True
        host.counts.bytes_from_clients += count
        fast_path.rest_went(session, count, now)
        if clock.now() >= session.context.shared.lease.valid_until:
            host.pipe.drop()
            self.end(Cause.LEASE_LOST, _LEASE_RAN_OUT)
            return True
        broker.traffic.sent += count
        try:
            rest = host.pipe.empty(broker.channel.sock)
        except OSError as error:
            self._lost_later(broker, error)
            return True
        if rest:
            broker.keep(rest, host.lease_generation)
        if rest or len(session.in_flight.queue) >= session.context.shared.max_in_flight:
            self._want()
        return True

    def _room(self, kept: int) -> memoryview:
        room = _VIEW[kept:] if kept else _VIEW
        return room if self.session.client.auth_state.may_request else room[:LOGIN_READ_BYTES]

    def _pass_to_broker(self, count: int) -> None:
        """Forwards the buffer's first bytes unchanged to the port's broker, to which there is a connection, or will
        be."""
        session = self.session
        broker = self.brokers[session.context.broker]
        if clock.now() >= session.context.shared.lease.valid_until:
            # The process was stopped since the decision, as in `_carry_out`.
            self.end(Cause.LEASE_LOST, _LEASE_RAN_OUT)
            return
        broker.traffic.sent += count
        try:
            broker.send(_VIEW[:count], self.host.lease_generation)
        except OSError as error:
            self._lost_later(broker, error)
            return
        if (
            broker.channel is None
            or broker.channel.pending
            or len(session.in_flight.queue) >= session.context.shared.max_in_flight
        ):
            self._want()

    def _go_on(self) -> None:
        """Gives the session the input again that it has held back."""
        self._going_on = False
        self.follow()
        if not self.ended and self.session.may_go_on and not self._clogged():
            self._receive(_carried(self.session.intake.carry))

    def _receive(self, end: int) -> None:
        self._feed(self.session.receive, BUFFER, end)
        self._look_who()

    def _look_who(self) -> None:
        user = self.session.client.auth_state.user
        if user != self.user and not self.ended:
            self.user = user
            self.host.entered(self)

    def _client_gone(self) -> None:
        self._feed(self.session.client_left)

    def _cut_off(self) -> None:
        """The client has gone, or gets no more answers; it sees that at once, also while brokers are waited for."""
        life = self.session.context.life
        if isinstance(life, Over):
            self.end(life.cause, life.detail)  # nothing in flight: only the client was waited for
            return
        with suppress(OSError):
            self.client.sock.shutdown(socket.SHUT_WR)
        self.client.want(False)
        self.client.pending.clear()
        self._end_later(Cause.CLIENT_LEFT, "")

    def _end_later(self, cause: Cause, detail: str) -> None:
        if self._linger is None:
            self._linger = self.host.loop.call_later(LINGER_S, self.end, cause, detail)

    def _client_writable(self) -> None:
        try:
            self.client.flush()
        except OSError:
            self._client_gone()
            return
        life = self.session.context.life
        if isinstance(life, Over) and not self.client.pending:
            self.end(life.cause, life.detail)
        else:
            self._want()

    def _upstream_readable(self, broker: BrokerChannel) -> None:
        try:
            session, host = self.session, self.host
            if session.context.snapshot is not host.snapshot:
                self.follow()
            upstream = session.upstreams.get(broker.lane)
            if upstream is None or broker.channel is None:
                return
            self.used_at = began_at = clock.now()
            if upstream.answer is not None and self._splice_to_client(broker, upstream, began_at):
                return
            kept = _carried(upstream.carry) if upstream.carry else 0
            room = _VIEW[kept:] if kept else _VIEW
            if began_at >= session.context.shared.lease.valid_until:
                room = room[:UNLEASED_READ_BYTES]
            try:
                count = broker.channel.sock.recv_into(room)
            except BlockingIOError:
                return
            except OSError as error:
                self._lost(broker, error)
                return
            if count == 0:
                self._lost(broker, "the broker closed the connection")
                return
            broker.traffic.received += count
            passed = 0
            if kept == 0 and self.client.reading and not session.throttling.timed:
                # By a clock read after the answer (`session.context`): the process may have stopped in between.
                passed = fast_path.answers(session, upstream, BUFFER, count, clock.now())
                if passed:
                    self._pass_to_client(passed)
                    count -= passed
                    BUFFER[:count] = _VIEW[passed : passed + count]
            if count and not self.ended:
                self._feed(session.receive_upstream, broker.lane, BUFFER, kept + count)
            if not self.ended:
                host.progressed(self)
                if broker.outdated:
                    self._renew(broker)
        except Exception:
            self._failed()

    def _splice_to_client(self, broker: BrokerChannel, upstream: Upstream, now: float) -> bool:
        """Splices the arrived rest of a long answer to the client. False: it has to be read into user space, as any
        answer that the lease guard has to check after it was read."""
        session, host, channel = self.session, self.host, broker.channel
        assert upstream.answer is not None
        unseen = upstream.answer.basis is None and not (session.throttling.timed or upstream.carry)
        max_bytes = fast_path.rest_of_answer(session, upstream, now) if unseen else 0
        assert channel is not None
        ways = self.client.reading and self.client.splices and channel.splices
        if max_bytes < splicing.LEAST_BYTES or not ways or now >= session.context.shared.lease.valid_until:
            return False
        try:
            count = host.pipe.fill(channel.sock, max_bytes)
        except BlockingIOError:
            return True
        except OSError as error:
            self._lost(broker, error)
            return True
        if count == 0:
            self._lost(broker, "the broker closed the connection")
            return True
        broker.traffic.received += count
        fast_path.rest_of_answer_went(session, upstream, count, now)
        host.counts.bytes_to_clients += count
        try:
            rest = host.pipe.empty(self.client.sock)
        except OSError:
            self._client_gone()
        else:
            if rest:
                self.client.keep(rest)
                self._want()
        if not self.ended:
            host.progressed(self)
            if broker.outdated:
                self._renew(broker)
        return True

    def _pass_to_client(self, count: int) -> None:
        self.host.counts.bytes_to_clients += count
        try:
            self.client.send(_VIEW[:count])
        except OSError:
            self._client_gone()
            return
        if self.client.pending:
            self._want()

    def _upstream_writable(self, broker: BrokerChannel) -> None:
        if broker.channel is None or not self._may_send(broker):
            return
        try:
            broker.channel.flush()
            broker.finish()
        except OSError as error:
            self._lost(broker, error)
            return
        self._want()

    def _lost(self, broker: BrokerChannel, error: Exception | str) -> None:
        # Follow first, lest a decision made now is sent on a later connection that the session takes for this one.
        self.follow()
        if self.ended or self.brokers.get(broker.lane) is not broker:
            return  # its end was seen already, and there may be a new one
        why = (isinstance(error, OSError) and error.strerror) or str(error)
        self._leave_broker(broker.lane)
        self._feed(self.session.upstream_lost, broker.lane, why)
        self.host.progressed(self)

    def follow(self) -> None:
        """Brings the session to the newest snapshot. Called before every other event, so that no decision uses an older
        one, and by `TimeSlicedSweep` for idle connections."""
        snapshot = self.host.snapshot
        if self.session.context.snapshot is not snapshot and not self.ended:
            self._carry_out(self.session.follow, snapshot)

    def answered(self, token: Hashable, body: dict[str, Any] | bytes) -> None:
        self._feed(self.session.answered, token, body)

    def unanswerable(self, token: Hashable, cause: Cause, detail: str) -> None:
        self._feed(self.session.unanswerable, token, cause, detail)

    def worked(self, token: Hashable, result: Any) -> None:
        self._feed(self.session.worked, token, result)

    def verified(self, reply: Reply) -> None:
        self._feed(self.session.verified, reply)
        self._look_who()

    def lease_is_back(self) -> None:
        self._feed(self.session.tick)

    def leave(self, cause: Cause, detail: str) -> None:
        """Takes no more requests, and ends when those in flight are answered."""
        self._feed(self.session.leave, cause, detail)

    def hurry(self) -> None:
        """Called while an operation waits for requests in flight here; it does not wait for a client that hangs."""
        if self.client.stuck_s(clock.now()) >= STUCK_S and self.session.context.life.connected:
            self._client_gone()
        self._feed(self.session.hurry)
        self.host.progressed(self)

    def cut_off(self, cause: Cause, detail: str) -> None:
        """Disconnects the client and drops its unsent answers; writes in flight are still awaited."""
        if isinstance(self.session.context.life, Over):
            self.end(cause, detail)  # It is open only for the client to take its answers; nothing is in flight.
        else:
            self._feed(self.session.cut_off, cause, detail)

    def end_if_late(self, frame_s: float, min_bytes_s: float) -> None:
        """Ends the connection if a request takes longer than `frame_s` to arrive. To be called regularly.

        A request that is forwarded as it arrives gets the time of its bytes at `min_bytes_s` in addition. Time in which
        the client is not read does not count.

        The time counts from the beginning of the request: counted from its last byte, a client that sends single bytes
        could stay in the middle of a request without end.
        """
        request, now = self.session.partial, clock.now()
        if request is None:
            self.partial = None
            return
        before = self.partial
        if before is None or before.request != request:
            self.partial = _Partial(request, 0.0, now)
            return
        read = not (self.session.paused or self._clogged())
        waited_s = before.waited_s + (now - before.seen_at if read else 0.0)
        self.partial = _Partial(request, waited_s, now)
        allowed_s = frame_s + request[1] / min_bytes_s
        if waited_s >= allowed_s:
            self.leave(Cause.LATE, f"the rest of a request did not come within {allowed_s:.3g} s")

    def give_up(self, cluster: str) -> None:
        """An operation that takes the cluster for dead waits for requests in flight here. A client with requests at
        that cluster is cut off at once, even with answers still unsent; requests that other clusters have got are
        awaited nevertheless."""
        self._feed(self.session.give_up, cluster)
        life = self.session.context.life
        if isinstance(life, Over):
            self.end(life.cause, life.detail)
        self.host.progressed(self)

    def _feed(self, event: Callable[..., list[Command]], *arguments: Any) -> None:
        self.follow()
        throttling = self.session.throttling
        if not throttling.timed:
            self._carry_out(event, *arguments)
            return
        began_at = clock.now()
        self._carry_out(event, *arguments)
        throttling.unpaid_s += clock.now() - began_at

    def _carry_out(self, event: Callable[..., list[Command]], *arguments: Any) -> None:
        if self.ended:
            return
        was_connected = self.session.context.life.connected
        lease, decided_at = self.session.context.shared.lease, clock.now()
        leased = lease.holds(decided_at)
        try:
            commands = event(*arguments, decided_at)
        except Exception:
            self._failed()
            return
        counts = self.host.counts
        gone = False
        for command in commands:
            if isinstance(command, ToClient):
                counts.bytes_to_clients += len(command.data)
                try:
                    self.client.send(command.data)
                except OSError:
                    # The session's other commands are carried out all the same: to it they are sent.
                    gone = True
            elif isinstance(command, ToUpstream):
                if leased and not lease.holds(clock.now()):
                    # The process stopped since the decision: brokers would accept the batch, and an operation may have
                    # gone on. Between this check and the sending some microseconds are left.
                    self.end(Cause.LEASE_LOST, _LEASE_RAN_OUT)
                    return
                self._to_upstream(command)
            else:
                self._other(command)
            if self.ended:
                return
        life = self.session.context.life
        if gone and life.connected:
            self._client_gone()
            return
        if was_connected and not life.connected:
            self._cut_off()
        if life.parts and not isinstance(life, Open):
            self._end_later(life.cause, life.detail)
        self._want()

    def _failed(self) -> None:
        """The session's state is unknown now, and input may be lost: end this connection, and no other."""
        _log.exception("%r failed", self.session)
        self.host.pipe.drop()
        self.end(Cause.FAULT)

    def _to_upstream(self, command: ToUpstream) -> None:
        broker = self.brokers.get(command.lane)
        if broker is None:
            has_room = not self.brokers or self.host.has_room_for_broker(self)
            broker = self.brokers[command.lane] = BrokerChannel(
                command.lane, self.host.counts.broker_bytes[command.lane.cluster]
            )
            self.host.holds_brokers(self, len(self.brokers))
            if has_room:
                broker.dialling = self.host.loop.create_task(self._dial(broker))
            else:
                self._lost_later(broker, OSError(errno.EMFILE, _NO_ROOM))
        broker.traffic.sent += len(command.data)
        try:
            broker.send(command.data, self.host.lease_generation)
        except OSError as error:
            self._lost_later(broker, error)

    def _may_send(self, broker: BrokerChannel) -> bool:
        """Whether kept bytes may still be sent. If they were accepted under a lease that has run out, they may hold a
        write: then the connection ends."""
        if self.session.busy and (broker.generation is None or broker.generation != self.host.lease_generation()):
            self.end(Cause.LEASE_LOST, "unsent writes were dropped")
            return False
        return True

    def _other(self, command: ShutUpstream | Drop | Wake | Close | Wish) -> None:
        if isinstance(command, ShutUpstream):
            broker = self.brokers[command.lane]
            broker.shut = True
            try:
                broker.finish()
            except OSError as error:
                self._lost_later(broker, error)
        elif isinstance(command, Drop):
            self._leave_broker(command.lane)
        elif isinstance(command, Wake):
            if self._wake is not None:
                self._wake.cancel()
            self._wake = self.host.loop.call_later(max(0.0, command.at - clock.now()), self._tick)
        elif isinstance(command, Close):
            if not self.client.pending or not self.session.context.life.connected:
                self.end(command.cause, command.detail)
        else:
            self.host.fulfil(self, command)

    def _lost_later(self, broker: BrokerChannel, error: OSError) -> None:
        # Deferred, since the session is not reentrant.
        self.host.loop.call_soon(lambda: None if self.ended else self._lost(broker, error))

    def _tick(self) -> None:
        self._wake = None
        if not self.ended:
            self._feed(self.session.tick)
            due_at = self.session.next_wakeup()
            if due_at is not None and self._wake is None and not self.ended:
                self._wake = self.host.loop.call_later(due_at - clock.now(), self._tick)

    async def _dial(self, broker: BrokerChannel) -> None:
        try:
            dialled = await self.host.open(broker.lane)
        except Exception as error:
            broker.dialling = None
            if not self.ended:
                self._lost(broker, error)
            return
        broker.dialling = None
        if self.ended or not self._may_send(broker):
            dialled.close()
            return
        try:
            readable, writable = partial(self._upstream_readable, broker), partial(self._upstream_writable, broker)
            broker.attach(channel(self.host.loop, dialled.sock, readable, writable))
        except OSError as error:
            self._lost(broker, error)
            return
        if dialled.renew_after_s < math.inf:
            broker.renewal = self.host.loop.call_later(dialled.renew_after_s, self._renew, broker)
        self._want()

    def _renew(self, broker: BrokerChannel) -> None:
        """The login of a broker's connection ends soon."""
        broker.outdated = True
        if not self.ended and self.brokers.get(broker.lane) is broker and self.session.upstreams.release(broker.lane):
            self._leave_broker(broker.lane)

    def _leave_broker(self, lane: BrokerLane) -> None:
        self.brokers.pop(lane).close()
        self.host.holds_brokers(self, len(self.brokers))

    def close_idle_brokers(self, last: bool = False) -> int:
        """Closes idle connections to brokers, except that to the port's broker and, unless `last`, the only one."""
        own, least = self.session.context.port.lane, 0 if last else 1
        for lane in tuple(self.brokers):
            if lane != own and len(self.brokers) > least and not self.ended and self.session.upstreams.release(lane):
                self._leave_broker(lane)
        self.host.holds_brokers(self, len(self.brokers))  # even if none was idle: then others are checked first
        return len(self.brokers)

    def _clogged(self) -> bool:
        """Whether the client has to wait until its requests or answers are sent on."""
        if not self.session.context.life.goes_on or self.client.pending:
            return True
        return any(broker.channel is None or broker.channel.pending for broker in self.brokers.values())

    def _want(self) -> None:
        session = self.session
        unsent = session.in_flight.ready_bytes + (self.client.pending_bytes if self.client.pending else 0)
        if unsent != self.kept_bytes:
            self.host.keeps(self, unsent)
            if self.ended:
                return
        connected, clogged = session.context.life.connected, self._clogged()
        if session.intake.waits_for is not None and not clogged and not self._going_on and session.may_go_on:
            # Deferred, so that other connections have their turn in between.
            self._going_on = True
            self.host.loop.call_soon(self._go_on)
        self.client.want(connected and not (clogged or session.paused))
        free = not self.client.pending or not connected
        for broker in self.brokers.values():
            if broker.channel is not None:
                upstream = session.upstreams.get(broker.lane)
                broker.channel.want(free and upstream is not None and not upstream.blocked)

    def end(self, cause: Cause, detail: str = "") -> None:
        """Closes all sockets."""
        if self.ended:
            return
        self.ended = True
        self.session.intake.let_go()
        self.session.in_flight.refusals_delivered(clock.now())
        for timer in (self._wake, self._linger):
            if timer is not None:
                timer.cancel()
        for broker in self.brokers.values():
            broker.close()
        self.host.holds_brokers(self, 0)
        life = self.session.context.life
        if life.parts and life.connected:
            self.host.linger(self.client.release())
        else:
            self.client.close()
        self.host.connection_closed(self, cause, detail)


def _carried(carry: bytes | bytearray) -> int:
    """Puts a session's unused input back to the buffer's front; returns its number of bytes."""
    BUFFER[: len(carry)] = carry
    return len(carry)
