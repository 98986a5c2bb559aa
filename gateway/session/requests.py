"""What becomes of each request: a table from API key to the function that handles it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.session import authentication, coordinated, data_path, leaving, transactions
from gateway.session.commands import Cause, Compose
from gateway.session.pending import Kind, Slot
from gateway.session.state import ConnectionState
from ha_core.wire import APIS, ApiKey, RequestHeader, Route, decode

LONG_BYTES = 32 << 10
"""Of a composed request: a longer one is decoded by the driver, beside its event loop."""
_NONE = (0, -1)
"""Versions of what is not offered."""

Whole = Callable[[ConnectionState, RequestHeader, bytearray, int, int], None]


def whole(session: ConnectionState, header: RequestHeader, buf: bytearray, pos: int, end: int) -> None:
    """A complete request: the frame `buf[pos:end]`, size first."""
    line = APIS.get(header.api_key)
    if header.api_key == ApiKey.API_VERSIONS:
        authentication.api_versions(session, header, buf, end)
        return
    if line is None or line.route is Route.HIDDEN or not line.min_version <= header.api_version <= line.max_version:
        session.close(
            Cause.UNSUPPORTED,
            f"API key {header.api_key} version {header.api_version} is not offered by this gateway; the client did "
            f"not follow the ApiVersions answer",
        )
        return
    if not authentication.entered(session, header):
        return
    low, high = session.snapshot.offered.get(header.api_key, _NONE)
    if not low <= header.api_version <= high:
        # A cluster that speaks less was found since the client read what is offered. Any cluster may be asked for any
        # client, across a cut or for a group, so it is sent nowhere, and the client asks for versions anew.
        common = f"the clusters have {low} to {high} in common" if low <= high else "not every cluster has it"
        detail = f"API key {header.api_key} version {header.api_version}: {common}"
        leaving.leave(session, Cause.UNSUPPORTED, detail)
        return
    handle = HANDLERS.get(header.api_key)
    if handle is not None:
        handle(session, header, buf, pos, end)
    elif line.route is Route.GROUP:
        coordinated.group(session, header, buf, pos, end)
    elif line.route is Route.TRANSACTION:
        transactions.transaction(session, header, buf, pos, end)
    elif line.route is Route.NODE:
        coordinated.node(session, header, buf, pos, end)
    else:
        _compose(session, header, buf, end)


def partial(
    session: ConnectionState, header: RequestHeader, buf: bytearray, pos: int, end: int, frame_end: int
) -> bool:
    """A request of which only `buf[pos:end]` has arrived. True if it is already on its way to a broker."""
    if header.api_key != ApiKey.PRODUCE or session.closed is not None:
        return False
    low, high = session.snapshot.offered.get(header.api_key, _NONE)
    if not session.entered or not low <= header.api_version <= high:
        return False
    return data_path.stream_produce(session, header, buf, pos, end, frame_end)


def _compose(session: ConnectionState, header: RequestHeader, buf: bytearray, end: int) -> None:
    if APIS[header.api_key].by_map and not session.settings.lease.holds(session.now):
        # There is no one retriable error for them all; whose connection ends asks again.
        leaving.leave(session, Cause.LEASE_LOST, "a change of topics or groups came while the lease was lost")
        return
    slot = Slot(header.api_key, header.api_version, header.correlation_id, Kind.WAIT)
    body = memoryview(buf)[header.body_at : end]
    request: dict[str, Any] | bytes = bytes(body)
    if len(body) < LONG_BYTES:
        request = decode(header.api_key, header.api_version, "request", body, limits=session.settings.limits)
    token = session.await_answer(slot)
    session.emit(Compose(token, header.api_key, header.api_version, session.identity(header.client_id), request))


HANDLERS: dict[int, Whole] = {
    ApiKey.PRODUCE: data_path.produce,
    ApiKey.FETCH: data_path.fetch,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: coordinated.newer_protocol,
    ApiKey.SASL_HANDSHAKE: authentication.handshake,
    ApiKey.SASL_AUTHENTICATE: authentication.authenticate,
}
