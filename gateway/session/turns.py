"""Requests of one connection take effect in their order, as on a broker, which executes one of them at a time.

What goes the same way (to one broker, by one connection) is kept in order there, and is pipelined at full speed. Of two
that go different ways the second waits until the first is answered, if it could tell: if both concern the same (logs,
groups, topics), and one of them changes it. Nothing else waits, so a reader's long poll delays no heartbeat. Answers
leave in the order of the requests anyway: a client that waits here waits for the time of one question more.

Invariant: of the requests in flight no two that could tell which was first go different ways.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.session import streaming
from gateway.session.commands import BrokerLane
from gateway.session.pending import Kind
from gateway.session.produce.issuing import issued_by
from gateway.session.routes import Way
from gateway.session.state import ConnectionState
from ha_core.wire import APIS, ApiKey, RequestHeader, Route, decode, peek_group
from ha_core.wire.apis import Effect
from ha_core.wire.fetch import scan_fetch_request


class Turn(NamedTuple):
    """What a request has to wait for."""

    effect: Effect
    lane: BrokerLane | None
    """Where it goes; None: to several brokers, or by connections that are not the client's."""


_PRODUCE = int(ApiKey.PRODUCE)
_WRITES = APIS[_PRODUCE].effect


def comes(session: ConnectionState, header: RequestHeader, buf: bytearray, end: int) -> bool:
    """Whether it is the turn of a request: then it may be judged, and sent. If not, `session.turn` says what for.

    :param end: behind the request; of a produce, whose way needs no look at it, behind what has arrived.
    """
    produce = header.api_key == _PRODUCE
    if produce and session.only_produce:
        return True
    line = APIS.get(header.api_key)
    if line is None or not line.min_version <= header.api_version <= line.max_version or not session.entered:
        return True  # it goes nowhere
    effect = line.effect
    turn = Turn(effect, None)
    if not has_come(session, turn):
        turn = Turn(effect, _node(session, header, buf, end))
        if turn.lane is None or not has_come(session, turn):
            for upstream in session.upstreams.values():
                if effect.clashes(_WRITES) and upstream.lane != turn.lane:
                    streaming.ask_for_the_end(session, upstream)
            session.turn = turn
            return False
    session.only_produce = produce and all(
        slot.api_key == _PRODUCE for slot in session.queue if slot.kind is not Kind.READY
    )
    return True


def has_come(session: ConnectionState, turn: Turn) -> bool:
    """Whether nothing is in flight any more that has to come first."""
    for slot in session.queue:
        if slot.kind is Kind.READY or (turn.lane is not None and slot.way == turn.lane):
            continue
        if turn.effect.clashes(APIS[slot.api_key].effect):
            return False
    if not turn.effect.clashes(_WRITES):
        return True
    return not any(streaming.unsure(upstream) for upstream in session.upstreams.values() if upstream.lane != turn.lane)


def _node(session: ConnectionState, header: RequestHeader, buf: bytearray, end: int) -> BrokerLane | None:
    """Where a request goes, as far as that is plain before it is handled."""
    key = header.api_key
    here = session.here
    if key == ApiKey.PRODUCE:
        return here
    if key == ApiKey.FETCH:
        routes = session.routes(header.client_id)
        if routes.plain:
            return here
        topics = scan_fetch_request(buf, header.body_at, end, header.api_version).topics
        passes = not routes.closed and all(routes.topic(entry.topic).fetch is Way.PASS for entry in topics)
        return here if passes else None
    route = APIS[key].route
    if route is Route.GROUP:
        name = peek_group(key, header.api_version, buf, header.body_at, end)
        return session.routes(header.client_id).group(name).coordinator
    if key == ApiKey.END_TXN:
        limits = session.settings.limits
        body = memoryview(buf)[header.body_at : end]
        producer_id = decode(key, header.api_version, "request", body, limits=limits)["producer_id"]
        return here if issued_by(session.settings.nodes, producer_id).cluster == session.port.cluster else None
    return here if route in (Route.NODE, Route.TRANSACTION) else None
