"""Order of one connection's requests: they take effect as on a broker, which executes one of them at a time.

Requests to one broker over one connection are kept in order there, and are pipelined. If two requests take different
routes, the second waits for the first one's answer if both concern the same logs, groups or topics, and one of them
changes these. No other request waits, so a reader's long poll delays no heartbeat.

Invariant: no two requests in flight whose order is observable take different routes.
"""

from gateway.session.commands import BrokerLane
from gateway.session.fetch.handle import names_many, reads_here
from gateway.session.in_flight import WRITES
from gateway.session.pending import Ready
from gateway.session.readiness import Turn
from gateway.session.request import Request
from gateway.session.state import ConnectionState
from gateway.session.transactions import Transactional
from ha_core.wire import APIS, ApiKey, Destination

_PRODUCE = int(ApiKey.PRODUCE)


def admit(session: ConnectionState, request: Request) -> bool:
    """True: the request may be handled now. False: it and all later ones are held; `session.intake.waits_for` has the
    reason, and probes are sent after acks=0 requests.

    The rest of a produce may be missing: its route does not depend on it.
    """
    produce = request.api_key == _PRODUCE
    if not session.in_flight.queue and not session.upstreams.unacknowledged:
        session.in_flight.only_produce = produce
        return True
    if produce and session.in_flight.only_produce:
        return True
    api = APIS.get(request.api_key)
    if (
        api is None
        or not api.min_version <= request.api_version <= api.max_version
        or not session.client.auth_state.may_request
    ):
        return True  # it is not forwarded
    if not session.in_flight.has_come(Turn(api.effect, None)):
        turn = Turn(api.effect, _lane(session, request, api.destination))
        if turn.lane is None or not session.in_flight.has_come(turn):
            for upstream in session.upstreams.values():
                if api.effect.clashes(WRITES) and upstream.lane != turn.lane:
                    session.upstreams.ask_for_the_end(upstream)
            session.intake.waits_for = turn
            return False
    session.in_flight.only_produce = produce and all(
        pending.request.api_key == _PRODUCE for pending in session.in_flight.queue if not isinstance(pending, Ready)
    )
    return True


def _lane(session: ConnectionState, request: Request, destination: Destination) -> BrokerLane | None:
    """The broker that a request goes to, if it certainly goes to one."""
    if destination is Destination.GROUP:
        return session.client.routes(request.client_id).group(request.group()).coordinator
    if request.api_key == ApiKey.FETCH:
        here = not names_many(request) and reads_here(session.client, request)
    elif request.api_key == ApiKey.END_TXN:
        here = Transactional(session, request).ends_here
    else:
        here = destination in (Destination.TOPIC, Destination.NODE, Destination.TRANSACTION)
    return session.context.here if here else None
