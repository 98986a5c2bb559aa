"""Order of one connection's requests: they take effect as on a broker, which executes one of them at a time.

Requests to one broker over one connection are kept in order there, and are pipelined. If two requests take different
routes, the second waits for the first one's answer if both concern the same logs, groups or topics, and one of them
changes these. No other request waits, so a reader's long poll delays no heartbeat.

Invariant: no two requests in flight whose order is observable take different routes.
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
    """True: the request may be handled now. False: it and all later ones are held; `session.waits_for` has the reason,
    and probes are sent after acks=0 requests.

    The rest of a produce may be missing: its route does not depend on it.
    """
    produce = request.api_key == _PRODUCE
    if not session.queue and not session.unacknowledged:
        session.only_produce = produce
        return True
    if produce and session.only_produce:
        return True
    api = APIS.get(request.api_key)
    if api is None or not api.min_version <= request.api_version <= api.max_version or not session.entry.entered:
        return True  # it is not forwarded
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
    """True if no request in flight has to come first."""
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
    """The broker that a request goes to, if it certainly goes to one."""
    if route is Route.GROUP:
        return session.routes(request.client_id).group(request.group()).coordinator
    if request.api_key == ApiKey.FETCH:
        here = not names_many(request) and reads_here(session, request)
    elif request.api_key == ApiKey.END_TXN:
        here = ends_here(session, request)
    else:
        here = route in (Route.TOPIC, Route.NODE, Route.TRANSACTION)
    return session.here if here else None
