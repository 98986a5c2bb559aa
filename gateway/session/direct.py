"""The listener for discovery serves only the requests by which a client finds real brokers."""

from __future__ import annotations

from gateway.session.commands import Cause, NotServed
from gateway.session.refusal import Refusal
from gateway.session.request import Request
from gateway.session.state import ConnectionState
from ha_core.wire import ApiKey, Route

SERVED = frozenset(
    {
        *(ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.API_VERSIONS, ApiKey.INIT_PRODUCER_ID),
        *(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE),
    }
)
LONG_BYTES = 32 << 10
"""Longer requests are not decoded only to be refused."""


def refuse(session: ConnectionState, request: Request) -> bool:
    """Refuses requests that are not served here. False: the request is served, or the data path refuses it by itself,
    since this listener has no broker (produce and fetch)."""
    if not session.context.port.direct or request.api_key in SERVED:
        return False
    session.context.emit(NotServed(request.api_key))
    api = request.api
    if api.route is Route.TOPIC:
        return False
    refusal = Refusal.DISCOVERY_ONLY
    session.context.count_refused((refusal,))
    shape = api.denial or api.error
    if shape is None or len(request.body) > LONG_BYTES:
        session.intake.leave(Cause.UNSUPPORTED, f"API key {request.api_key}: {refusal.words}")
        return True
    answer = api.denied(request.api_version, request.read(), refusal.code(api), refusal.words)
    session.in_flight.answer_refused(request, answer, (refusal,), (request.api_key,))
    return True
