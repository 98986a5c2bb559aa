"""Requests of one connection take effect in their order, as on a broker, which executes one of them at a time.

What goes the same way (to one broker, by one connection) is kept in order there, and is pipelined. Of two that go
different ways the second waits for the answer to the first if both concern the same (logs, groups, topics), and one of
them changes it. Nothing else waits, so a reader's long poll delays no heartbeat.

Invariant: of the requests in flight no two that could tell which was first go different ways.
"""

from __future__ import annotations

from gateway.session import streaming
from gateway.session.commands import BrokerLane
from gateway.session.fetch.handle import names_many, reads_here
from gateway.session.pending import InFlight, Ready
from gateway.session.readiness import Turn
from gateway.session.request import Request
from gateway.session.state import ConnectionState
from gateway.session.transactions import ends_here
from ha_core.wire import APIS, ApiKey, Route

_PRODUCE = int(ApiKey.PRODUCE)
_WRITES = APIS[_PRODUCE].effect


def admit(session: ConnectionState, request: Request) -> bool:
    """Lets a request be handled now. False: it is held, and all after it: `session.waits_for` says what for. Brokers
    are asked for the end of what they do not answer.

    Of a produce, whose way needs no look at it, the rest may be missing.
    """
    produce = request.api_key == _PRODUCE
    if not session.queue and not session.unacknowledged:
        session.only_produce = produce
        return True
    if produce and session.only_produce:
        return True
    api = APIS.get(request.api_key)
    if api is None or not api.min_version <= request.api_version <= api.max_version or not session.entry.entered:
        return True  # it goes nowhere
    if not has_come(session, Turn(api.effect, None)):
        turn = Turn(api.effect, _lane(session, request, api.route))
        if turn.lane is None or not has_come(session, turn):
            for upstream in session.upstreams.values():
                if api.effect.clashes(_WRITES) and upstream.lane != turn.lane:
                    streaming.ask_for_the_end(session, upstream)
            session.waits_for = turn
            return False
    session.only_produce = produce and all(
        pending.request.api_key == _PRODUCE for pending in session.queue if not isinstance(pending, Ready)
    )
    return True


def has_come(session: ConnectionState, turn: Turn) -> bool:
    """Whether nothing is in flight any more that has to come first."""
    for pending in session.queue:
        together = turn.lane is not None and isinstance(pending, InFlight) and pending.lane == turn.lane
        if together or isinstance(pending, Ready):
            continue
        if turn.effect.clashes(pending.request.api.effect):
            return False
    if not turn.effect.clashes(_WRITES):
        return True
    return not any(upstream.unsure() for upstream in session.upstreams.values() if upstream.lane != turn.lane)


def _lane(session: ConnectionState, request: Request, route: Route) -> BrokerLane | None:
    """The broker that a request goes to, if it is certain that it goes to one."""
    if route is Route.GROUP:
        return session.routes(request.client_id).group(request.group()).coordinator
    if request.api_key == ApiKey.FETCH:
        here = not names_many(request) and reads_here(session, request)
    elif request.api_key == ApiKey.END_TXN:
        here = ends_here(session, request)
    else:
        here = route in (Route.TOPIC, Route.NODE, Route.TRANSACTION)
    return session.here if here else None
