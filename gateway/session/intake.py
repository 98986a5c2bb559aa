"""How a session takes requests: the one that has begun to come, why the next one waits, and the end of taking them.

A produce request is forwarded while it arrives; other requests are held until they are complete.

Invariants:

- While a part of a request is missing, nothing else is written to its connection: it would become a part of a record.
- A request goes over one connection or not at all: its rest on a new one would be read as requests.
- A broker does not execute a request that was not sent whole. So operations do not wait for one that cannot continue.
- A connection that carried requests without an answer reports a failure only by closing. So when it closes, the
  client's connection closes, as it would without a gateway.
"""

from gateway.session.commands import BrokerLane, Cause, ShutUpstream
from gateway.session.context import SessionContext
from gateway.session.in_flight import RequestsInFlight
from gateway.session.lifecycle import Open
from gateway.session.readiness import AwaitingIdentity, Beginning, Delayed, Full, HalfSent, Preparation, Turn
from gateway.session.request import Request
from gateway.session.throttling import AwaitingQuota
from gateway.session.upstream import Upstreams

STALLED_S = 1.0
"""An operation waits this long for the rest of a request, even if bytes still arrive: a client that sends a byte at a
time would hold the fence up forever. Giving the request up loses nothing: the broker does not execute it, and the
client sends it again."""


class Intake:
    """:ivar carry: client bytes received but not used yet; the driver puts them in front of the next chunk.
    :ivar reading: the request to which the next client bytes belong; None: a new one.
    :ivar waits_for: why the first request in `carry` waits.
    :ivar headers_read: requests whose header has come.
    :ivar held_bytes: bytes of a request that is not complete yet.
    :ivar preparing: the request that is decoded and judged off the event loop.
    """

    __slots__ = (
        "_context", "_in_flight", "_upstreams", "carry", "headers_read", "held_bytes", "preparing", "reading",
        "waits_for",
    )  # fmt: skip

    def __init__(self, context: SessionContext, in_flight: RequestsInFlight, upstreams: Upstreams) -> None:
        self._context, self._in_flight, self._upstreams = context, in_flight, upstreams
        self.carry: bytes = b""
        self.reading: Beginning | HalfSent | None = None
        self.waits_for: Turn | Full | AwaitingIdentity | Preparation | AwaitingQuota | Delayed | None = None
        self.headers_read = 0
        self.held_bytes = 0
        self.preparing: Request | None = None

    # -- a request that is forwarded as it comes ------------------------------------------------------------------

    def go_on(self, half: HalfSent, chunk: memoryview) -> int:
        """Forwards client bytes; returns how many of them belong to the request."""
        if not self._context.still_valid(half.basis):
            self.leave(Cause.LEASE_LOST, "the rest of a request came after the lease had been lost")
            return 0
        taken = min(half.missing, len(chunk))
        half.missing -= taken
        upstream = self._upstreams.send(half.lane, chunk[:taken])
        if not half.missing:
            self.reading = None
            upstream.complete(half, self._context.now)
            for pending, frame in half.later:
                self._upstreams.forward(pending, half.lane, frame)
            self._upstreams.probe()
        return taken

    def hurry(self) -> None:
        """An operation waits: a half-sent request that holds it up is given up `STALLED_S` after the first such
        call."""
        half, context = self.reading, self._context
        if not isinstance(half, HalfSent) or not any(
            self._holds_back(half, scope.topics) for scope in context.snapshot.fences.scopes.values()
        ):
            return
        if half.hurried_at is None:
            half.hurried_at = context.now
        elif context.now - half.hurried_at >= STALLED_S:
            self.leave(Cause.STALLED, "the rest of a request did not come in time, and an operation waits for it")

    def _holds_back(self, half: HalfSent, topics: frozenset[bytes]) -> bool:
        older = half.basis[1] < self._context.snapshot.view.revision
        return older and (bool(topics) if half.writes is None else not topics.isdisjoint(half.writes))

    # -- held bytes -----------------------------------------------------------------------------------------------

    def hold(self, count: int) -> bool:
        """Counts more held bytes of a request. False: all clients together exceed the limit, and the session ends."""
        if self.count_held(count):
            return True
        held = self._context.shared.held
        why = f"{self.held_bytes} bytes of a request bring the held bytes of all clients to {held.bytes}"
        self.leave(Cause.HELD_TOO_MUCH, f"{why}, above {held.limit} (limits.max_held_bytes)")
        return False

    def count_held(self, count: int) -> bool:
        """Counts more held bytes of a request. False: all clients together exceed the limit."""
        self.held_bytes += count
        return self._context.shared.held.add(count)

    def let_go(self) -> None:
        """Releases the held bytes of a request."""
        self._context.shared.held.let_go(self.held_bytes)
        self.held_bytes = 0

    # -- the end of taking requests -------------------------------------------------------------------------------

    def leave(self, cause: Cause, detail: str = "") -> None:
        """Ends the session once requests in flight are answered and acks=0 requests are executed.

        If it closed at once, the client would resend them, and a producer without idempotence would write them twice.
        """
        life = self._context.life
        if isinstance(life, Open):
            self._context.life = life.leave(cause, detail)
            if isinstance(self.reading, Beginning):
                self.reading = None
                self.let_go()
            self.give_up_rest()

    def give_up_rest(self) -> None:
        """No more bytes come from the client: gives up the half-sent request and probes for the end of acks=0 requests.

        Nothing more can be written to the half-sent request's connection. Requests sent before it are still answered. A
        broker sees the end of a connection after it has executed everything before it; when it closes the connection in
        turn, the acks=0 requests are executed, too.
        """
        half = self.reading
        if isinstance(half, HalfSent):
            self.reading = None
            if half.pending is not None:
                self._in_flight.queue.remove(half.pending)
            self._upstreams[half.lane].shut(half)
            self._context.emit(ShutUpstream(half.lane))
            self._in_flight.leave_unsent([pending for pending, _ in half.later])
        self._upstreams.probe(everything=True)

    def forget_rest(self, lane: BrokerLane) -> None:
        """The connection to that broker is gone: forgets its half-sent request and those that waited for the rest."""
        half = self.reading
        if isinstance(half, HalfSent) and half.lane == lane:
            self.reading = None
            for pending, _ in half.later:
                self._in_flight.forget(pending)
