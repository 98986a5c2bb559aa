"""Requests of one connection take effect in their order, as on a broker, which executes one of them at a time.

What goes the same way (to one broker, by one connection) is kept in order there, and is pipelined. Of two that go
different ways the second waits for the answer to the first if both concern the same (logs, groups, topics), and one of
them changes it. Nothing else waits, so a reader's long poll delays no heartbeat.

Invariant: of the requests in flight no two that could tell which was first go different ways.
"""

from __future__ import annotations

from gateway.session import streaming
from gateway.session.commands import BrokerLane
from gateway.session.pending import Ready, Turn
from gateway.session.request import Request
from gateway.session.routes import Way
from gateway.session.state import ConnectionState
from ha_core.wire import APIS, ApiKey, Route
from ha_core.wire.fetch import scan_fetch_request

_PRODUCE = int(ApiKey.PRODUCE)
_WRITES = APIS[_PRODUCE].effect


def take(session: ConnectionState, request: Request) -> bool:
    """Lets a request be handled now. False: `session.turn` says what it waits for, and brokers are asked for the end of
    what they do not answer.

    Of a produce, whose way needs no look at it, the rest may be missing.
    """
    produce = request.api_key == _PRODUCE
    if produce and session.only_produce:
        return True
    line = APIS.get(request.api_key)
    if line is None or not line.min_version <= request.api_version <= line.max_version or not session.entered:
        return True  # it goes nowhere
    effect = line.effect
    turn = Turn(effect, None)
    if not has_come(session, turn):
        turn = Turn(effect, _lane(session, request))
        if turn.lane is None or not has_come(session, turn):
            for upstream in session.upstreams.values():
                if effect.clashes(_WRITES) and upstream.lane != turn.lane:
                    streaming.ask_for_the_end(session, upstream)
            session.turn = turn
            return False
    session.only_produce = produce and all(
        pending.request.api_key == _PRODUCE for pending in session.queue if not isinstance(pending, Ready)
    )
    return True


def has_come(session: ConnectionState, turn: Turn) -> bool:
    """Whether nothing is in flight any more that has to come first."""
    for pending in session.queue:
        if isinstance(pending, Ready) or (turn.lane is not None and pending.way == turn.lane):
            continue
        if turn.effect.clashes(pending.request.api.effect):
            return False
    if not turn.effect.clashes(_WRITES):
        return True
    return not any(upstream.unsure() for upstream in session.upstreams.values() if upstream.lane != turn.lane)


def _lane(session: ConnectionState, request: Request) -> BrokerLane | None:
    """Where a request goes, as far as it is known before it is handled."""
    key = request.api_key
    here = session.here
    if key == ApiKey.PRODUCE:
        return here
    if key == ApiKey.FETCH:
        routes = session.routes(request.client_id)
        if routes.plain:
            return here
        topics = scan_fetch_request(request.buf, request.body_at, request.end, request.api_version).topics
        passes = not routes.closed and all(routes.topic(topic).fetch is Way.PASS for topic in topics)
        return here if passes else None
    route = request.api.route
    if route is Route.GROUP:
        return session.routes(request.client_id).group(request.group()).coordinator
    if key == ApiKey.END_TXN:
        producer_id = request.decode()["producer_id"]
        return here if session.settings.issued(producer_id).cluster == session.port.cluster else None
    return here if route in (Route.NODE, Route.TRANSACTION) else None
