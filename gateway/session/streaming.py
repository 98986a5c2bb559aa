"""Produce requests that are forwarded while they arrive, and produce without an answer (acks=0).

Invariants:

- While a part of a request is missing, nothing else is written to its connection: it would become a part of a record.
- A request goes over one connection or not at all: its rest on a new one would be read as requests.
- A broker does not execute a request that was not sent whole. So operations do not wait for one that cannot continue.
- A connection that carried requests without an answer reports a failure only by closing. So when it closes, the
  client's connection closes, as it would without a gateway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.session.commands import BrokerLane, Cause, ShutUpstream
from gateway.session.lease_guard import still_valid
from gateway.session.lifecycle import Open
from gateway.session.pending import Discarded, InFlight, concerns
from gateway.session.readiness import Beginning, HalfSent
from gateway.session.request import Request
from gateway.session.state import ConnectionState
from gateway.session.upstream import BETWEEN, Upstream
from ha_core.wire import ApiKey

STALLED_S = 1.0
"""An operation waits this long for the rest of a request, even if bytes still arrive: a client that sends a byte at a
time would hold the fence up forever. Giving the request up loses nothing: the broker does not execute it, and the
client sends it again."""


def go_on(session: ConnectionState, half: HalfSent, chunk: memoryview) -> int:
    """Forwards client bytes; returns how many of them belong to the request."""
    if not still_valid(session, half.basis):
        leave(session, Cause.LEASE_LOST, "the rest of a request came after the lease had been lost")
        return 0
    taken = min(half.missing, len(chunk))
    half.missing -= taken
    upstream = session.send(half.lane, chunk[:taken])
    if not half.missing:
        session.reading = None
        upstream.complete(half)
        for pending, frame in half.later:
            session.forward(pending, half.lane, frame)
        probe(session)
    return taken


def hurry(session: ConnectionState) -> None:
    """An operation waits: a half-sent request that holds it up is given up `STALLED_S` after the first such call."""
    half = session.reading
    if not isinstance(half, HalfSent) or not any(
        _holds_back(session, half, scope.topics) for scope in session.snapshot.fences.scopes.values()
    ):
        return
    if half.hurried_at is None:
        half.hurried_at = session.now
    elif session.now - half.hurried_at >= STALLED_S:
        leave(session, Cause.STALLED, "the rest of a request did not come in time, and an operation waits for it")


def _holds_back(session: ConnectionState, half: HalfSent, topics: frozenset[bytes]) -> bool:
    older = half.basis[1] < session.snapshot.view.revision
    return older and (bool(topics) if half.writes is None else not topics.isdisjoint(half.writes))


def forward(session: ConnectionState, pending: InFlight, frames: Mapping[BrokerLane, bytes | memoryview]) -> None:
    """Like `session.forward`, but queues the frame while a request to that broker is half sent."""
    never = False
    for lane, frame in frames.items():
        upstream = session.upstreams.get(lane)
        if upstream is None or upstream.writing is BETWEEN:
            session.forward(pending, lane, frame)
        elif isinstance(upstream.writing, HalfSent):
            upstream.writing.later.append((pending, frame))
        else:
            never = True
    if never:
        _leave_unsent(session, (pending,))


def probe(session: ConnectionState, everything: bool = False) -> None:
    """Sends a question after requests without an answer for which an operation may wait. Its answer shows that they are
    in the log: a broker answers a connection in order."""
    fenced = session.snapshot.fences.topics
    for upstream in session.upstreams.values():
        if everything or upstream.unacknowledged.touches(fenced):
            ask_for_the_end(session, upstream)


def holds_back(upstream: Upstream, topics: frozenset[bytes], since: int) -> bool:
    """True if an operation on `topics` has to wait for acks=0 requests that were sent before revision `since`."""
    if any(isinstance(pending, Discarded) and concerns(pending, topics) for pending in upstream.queue):
        return True
    # All others were probed before `since` was followed; only after a half-sent request no probe can be written.
    unacknowledged = upstream.unacknowledged
    return upstream.writing is not BETWEEN and unacknowledged.revision < since and unacknowledged.touches(topics)


def ask_for_the_end(session: ConnectionState, upstream: Upstream) -> None:
    if not upstream.unacknowledged or upstream.writing is not BETWEEN:
        return
    question = Request.own(ApiKey.API_VERSIONS, 0, session.shared.limits)
    session.send(upstream.lane, question.rewritten({}))
    upstream.queue.append(Discarded(question, upstream.unacknowledged.pop_all()))


# -- the end of a session -------------------------------------------------------------------------------------------


def leave(session: ConnectionState, cause: Cause, detail: str = "") -> None:
    """Ends the session once requests in flight are answered and acks=0 requests are executed.

    If it closed at once, the client would resend them, and a producer without idempotence would write them twice.
    """
    if isinstance(session.life, Open):
        session.life = session.life.leave(cause, detail)
        if isinstance(session.reading, Beginning):
            session.reading = None
            session.let_go()
        give_up_rest(session)


def give_up_rest(session: ConnectionState) -> None:
    """No more bytes come from the client: gives up the half-sent request and probes for the end of acks=0 requests.

    Nothing more can be written to the half-sent request's connection. Requests sent before it are still answered. A
    broker sees the end of a connection after it has executed everything before it; when it closes the connection in
    turn, the acks=0 requests are executed, too.
    """
    half = session.reading
    if isinstance(half, HalfSent):
        session.reading = None
        if half.pending is not None:
            session.queue.remove(half.pending)
        session.upstreams[half.lane].shut(half)
        session.emit(ShutUpstream(half.lane))
        _leave_unsent(session, [pending for pending, _ in half.later])
    probe(session, everything=True)


def forget_rest(session: ConnectionState, lane: BrokerLane) -> None:
    """The connection to that broker is gone: forgets its half-sent request and those that waited for the rest."""
    half = session.reading
    if isinstance(half, HalfSent) and half.lane == lane:
        session.reading = None
        for pending, _ in half.later:
            session.forget(pending)


def _leave_unsent(session: ConnectionState, unsent: Iterable[InFlight]) -> None:
    """Steps of exchanges that can never be sent. Their requests get no answer, so later ones may not get one either:
    the client is cut off."""
    for pending in unsent:
        if pending in session.queue:
            session.life = session.life.client_left()
        session.forget(pending)


def hold(session: ConnectionState, count: int) -> bool:
    """Counts more held bytes of a request. False: all clients together exceed the limit, and the session ends."""
    if session.hold(count):
        return True
    held = session.shared.held
    why = f"{session.held_bytes} bytes of a request bring the held bytes of all clients to {held.bytes}"
    leave(session, Cause.HELD_TOO_MUCH, f"{why}, above {held.most} (limits.max_held_bytes)")
    return False
