"""Produce requests that are forwarded while they arrive, and those that have no answer (acks=0).

Invariants:
- While a part of a request is missing, nothing else is written to its connection: it would become a part of a record.
- A request goes over one connection or not at all: its rest on a fresh one would be read as requests.
- A request that was not sent whole is not executed. So where the rest cannot follow, it holds nothing up.
- A connection over which something went without an answer tells of a failure by its end alone. So its end is the end of
  the client's connection, as it would be without a gateway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gateway.session.commands import BrokerLane, Cause, ShutUpstream
from gateway.session.lease_guard import stands
from gateway.session.lifecycle import Open
from gateway.session.pending import Discarded, InFlight, concerns
from gateway.session.readiness import Beginning, HalfSent
from gateway.session.request import Request
from gateway.session.state import ConnectionState
from gateway.session.upstream import BETWEEN, Upstream
from ha_core.wire import ApiKey

STALLED_S = 1.0
"""An operation waits so long for the rest of a request, however many bytes of it still come: a client that sends a byte
at a time would hold a fence up for ever. Nothing is lost by giving it up: it is not executed, and the client sends it
again."""


def go_on(session: ConnectionState, half: HalfSent, chunk: memoryview) -> int:
    """Client bytes: how many of them belong to the request."""
    if not stands(session, half.basis):
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
    """As `session.forward`, but waits while a request to that broker is half sent."""
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
    """Asks for an answer after requests without one, where an operation may wait for them. When it comes, they are in
    the log: a broker answers a connection in order."""
    fenced = session.snapshot.fences.topics
    for upstream in session.upstreams.values():
        if everything or upstream.unacknowledged.touches(fenced):
            ask_for_the_end(session, upstream)


def holds_back(upstream: Upstream, topics: frozenset[bytes], since: int) -> bool:
    """Whether an operation on `topics` has to wait for what was sent without an answer before revision `since`."""
    if any(isinstance(pending, Discarded) and concerns(pending, topics) for pending in upstream.queue):
        return True
    # Before `since` was followed all else was asked for: only after a request that is half-way nothing can be.
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
    """The session ends when what is in flight is answered, and what has no answer is executed.

    Closed at once, the client would send it again: a producer without idempotence would write it twice.
    """
    if isinstance(session.life, Open):
        session.life = session.life.leave(cause, detail)
        if isinstance(session.reading, Beginning):
            session.reading = None
            session.let_go()
        give_up_rest(session)


def give_up_rest(session: ConnectionState) -> None:
    """Nothing more comes from the client: what is half sent is given up, and brokers are asked for the end of what they
    do not answer.

    Nothing more can be written to the connection of what is half sent. What was sent before is still answered. A broker
    sees the end of a connection when it has executed all that came before it; so when it ends the connection in turn,
    what has no answer is executed, too.
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
    """The connection to that broker is gone: so is what it was sent half, and what waited for the rest."""
    half = session.reading
    if isinstance(half, HalfSent) and half.lane == lane:
        session.reading = None
        for pending, _ in half.later:
            session.forget(pending)


def _leave_unsent(session: ConnectionState, unsent: Iterable[InFlight]) -> None:
    """Steps of exchanges that can never be sent. Their requests have no answer, so none that came later may have one:
    the client is cut off."""
    for pending in unsent:
        if pending in session.queue:
            session.life = session.life.client_left()
        session.forget(pending)


def hold(session: ConnectionState, count: int) -> bool:
    """Keeps so many more bytes of a request. False: all clients together have no room, and the session ends."""
    if session.hold(count):
        return True
    held = session.shared.held
    why = f"with {session.held_bytes} bytes of a request {held.bytes} bytes would be held of all clients"
    leave(session, Cause.HELD_TOO_MUCH, f"{why}, above {held.most} (limits.max_held_bytes)")
    return False
