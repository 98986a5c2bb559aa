"""Produce requests that are forwarded while they arrive, and those that have no answer: both are states of an upstream.

Invariants:
- While a part of a request is missing, nothing else is written to its connection: it would become a part of a record.
- A request goes over one connection or not at all. Its rest on a fresh one would be read as requests, which the client
  could have hidden in a record.
- Of a request of which a part was never sent nothing is executed. So where the rest cannot follow, it holds nothing up.
- A connection over which something went that has no answer (acks=0) tells of a failure by its end alone. So its end is
  the end of the client's connection, as it would be without a gateway.
"""

from __future__ import annotations

from gateway.session.commands import BrokerLane, Shut
from gateway.session.pending import PROBE, Kind, Slot, Upstream
from gateway.session.state import ConnectionState
from ha_core.wire import ApiKey, encode, encode_request

STALLED_S = 1.0
"""An operation waits so long for the next bytes of a request. Nothing is lost by giving it up: it is not executed, what
the client had asked before is answered, and the client asks for this one again."""


def begin(session: ConnectionState, lane: BrokerLane, missing: int, slot: Slot | None) -> None:
    """The request whose beginning was just sent to `lane` goes on with the next `missing` bytes of the client.

    :param slot: None if it has no answer.
    """
    upstream = session.upstreams[lane]
    upstream.missing = missing
    upstream.half = slot
    upstream.under = session.under()
    upstream.arrived_at = session.now
    session.streaming = upstream


def go_on(session: ConnectionState, upstream: Upstream, chunk: memoryview) -> int:
    """Client bytes: how many of them belong to the request."""
    taken = min(upstream.missing, len(chunk))
    upstream.missing -= taken
    upstream.arrived_at = session.now
    session.send(upstream.lane, chunk[:taken])
    if not upstream.missing:
        session.streaming = upstream.half = None
        later, upstream.later = upstream.later, []
        for slot, frame in later:
            session.forward(slot, upstream.lane, frame)
        probe(session)
    return taken


def cut_off(session: ConnectionState) -> None:
    """The rest of the request will not come, or must not go on. Nothing more can be written to its connection.

    What was sent before is still answered there. A broker handles a connection in order, and sees the end when it has
    executed all that came before it; so when it ends the connection in turn, that is so for what has no answer, too.
    """
    upstream, session.streaming = session.streaming, None
    if upstream is None:
        return
    if upstream.half is not None:
        session.queue.remove(upstream.half)
        upstream.queue.remove(upstream.half)
        upstream.half = None
    upstream.shut = True
    session.emit(Shut(upstream.lane))


def aside(session: ConnectionState, slot: Slot, lane: BrokerLane, frame: bytes) -> None:
    """A question of the gateway's own, on a connection that is the client's: when nothing is half-way on it."""
    upstream = session.upstreams.get(lane)
    if upstream is not None and upstream.missing:
        upstream.later.append((slot, frame))
    else:
        session.forward(slot, lane, frame)


def probe(session: ConnectionState, everything: bool = False) -> None:
    """Behind requests that get no answer, asks for one: a broker answers a connection in order, so when it does, they
    are in the log, and an operation on their topics is drained.

    :param everything: not only where an operation may wait.
    """
    fenced = session.snapshot.fences.topics
    for upstream in session.upstreams.values():
        if everything or upstream.silent.touches(fenced):
            ask_for_the_end(session, upstream)


def unsure(upstream: Upstream) -> bool:
    """Whether something that was sent silently may still be on its way."""
    return bool(upstream.silent) or any(slot.kind is Kind.DISCARD and slot.topics != () for slot in upstream.queue)


def holds_back(upstream: Upstream, topics: frozenset[bytes], since: int) -> bool:
    """Whether an operation on `topics` has to wait for what was sent silently before revision `since`."""
    if any(slot.kind is Kind.DISCARD and slot.concerns(topics) for slot in upstream.queue):
        return True
    # Before `since` was followed all else was asked for: only behind a request that is half-way nothing can be.
    return upstream.missing > 0 and upstream.silent.revision < since and upstream.silent.touches(topics)


def ask_for_the_end(session: ConnectionState, upstream: Upstream) -> None:
    """Asks the broker for an answer behind what has none."""
    if not upstream.silent or upstream.missing:
        return
    slot = Slot(ApiKey.API_VERSIONS, 0, PROBE, Kind.DISCARD)
    slot.topics = upstream.silent.take()
    body = encode(ApiKey.API_VERSIONS, 0, "request", {})
    session.forward(slot, upstream.lane, encode_request(ApiKey.API_VERSIONS, 0, PROBE, None, body))
