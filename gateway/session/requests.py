"""What becomes of each request: a table from API key to the function that handles it."""

from __future__ import annotations

from collections.abc import Callable

from gateway.session import authentication, coordinated, streaming, transactions
from gateway.session.commands import Cause
from gateway.session.fetch.handle import fetch
from gateway.session.produce.handle import produce, stream_produce
from gateway.session.request import Request
from gateway.session.state import ConnectionState
from ha_core.wire import APIS, ApiKey, Route

LONG_BYTES = 32 << 10
"""Of a composed request: a longer one is decoded by the driver, beside its event loop."""
_NONE = (0, -1)
"""Versions of what is not offered."""

Handler = Callable[[ConnectionState, Request], None]


def whole(session: ConnectionState, request: Request) -> None:
    """A complete request."""
    key, version = request.api_key, request.api_version
    line = APIS.get(key)
    if key == ApiKey.API_VERSIONS:
        authentication.api_versions(session, request)
        return
    if line is None or line.route is Route.HIDDEN or not line.min_version <= version <= line.max_version:
        session.close(
            Cause.UNSUPPORTED,
            f"API key {key} version {version} is not offered by this gateway; the client did not follow the "
            f"ApiVersions answer",
        )
        return
    if not authentication.entered(session, request):
        return
    low, high = session.snapshot.offered.get(key, _NONE)
    if not low <= version <= high:
        # A cluster that speaks less was found since the client read what is offered. Any cluster may be asked for any
        # client, across a cut or for a group, so it is sent nowhere, and the client asks for versions anew.
        common = f"the clusters have {low} to {high} in common" if low <= high else "not every cluster has it"
        streaming.leave(session, Cause.UNSUPPORTED, f"API key {key} version {version}: {common}")
        return
    handle = HANDLERS.get(key)
    if handle is not None:
        handle(session, request)
    elif line.route is Route.GROUP:
        coordinated.group(session, request)
    elif line.route is Route.TRANSACTION:
        transactions.transaction(session, request)
    elif line.route is Route.NODE:
        coordinated.node(session, request)
    else:
        _compose(session, request)


def partial(session: ConnectionState, request: Request) -> bool:
    """A request of which something is missing. True if it is already on its way to a broker."""
    if request.api_key != ApiKey.PRODUCE or session.closed is not None:
        return False
    low, high = session.snapshot.offered.get(request.api_key, _NONE)
    if not session.entered or not low <= request.api_version <= high:
        return False
    return stream_produce(session, request)


def _compose(session: ConnectionState, request: Request) -> None:
    if request.api.by_map and not session.settings.lease.holds(session.now):
        # There is no one retriable error for them all; whose connection ends asks again.
        streaming.leave(session, Cause.LEASE_LOST, "a change of topics or groups came while the lease was lost")
        return
    body = request.body
    session.compose(request, bytes(body) if len(body) >= LONG_BYTES else request.decode())


HANDLERS: dict[int, Handler] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: coordinated.newer_protocol,
    ApiKey.SASL_HANDSHAKE: authentication.handshake,
    ApiKey.SASL_AUTHENTICATE: authentication.authenticate,
}
