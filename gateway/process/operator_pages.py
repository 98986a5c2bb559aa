"""Pages for operators of a running gateway, over HTTP: the connected clients, and how a client's requests are routed.

Both name users and addresses, so they need a loopback connection, or the token of `http.token_file`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from hmac import compare_digest
from typing import Final

from gateway.config import Http
from gateway.model.local_names import local_names
from gateway.process.gateway import Gateway
from gateway.process.sockets.connection import ClientConnection
from gateway.runtime import clock
from gateway.session.auth_state import Authenticated, TlsAuthenticated
from ha_core.metrics.http import Asked, JsonPage
from ha_core.model import ANONYMOUS
from ha_core.model.access import address, on_loopback
from ha_core.model.numeral import whole_number
from ha_core.plan.routing.explaining import RESOURCES, Kind, explain

FILTERS = ("user", "address", "client_id", "instance", "software", "cluster")
MAX_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Connected:
    """
    :ivar user: None: not logged in.
    :ivar login: SASL mechanism, `certificate`, or None.
    :ivar client_id: of its newest request that was parsed.
    :ivar instance: the client id without the parts that its user's forms remove; None: not logged in.
    :ivar software: `NAME/VERSION`, as the client reports it (KIP-511); None: the client is too old to report it.
    :ivar cluster: of the listener that it connected to; None: the bootstrap listener.
    :ivar clusters: those that it is connected to through the gateway now.
    :ivar in_flight: requests without an answer.
    """

    user: str | None
    address: str
    login: str | None
    client_id: str | None
    instance: str | None
    software: str | None
    cluster: str | None
    broker: int | None
    clusters: tuple[str, ...]
    since: str
    idle_ms: int
    in_flight: int


def connected(connection: ClientConnection) -> Connected:
    session = connection.session
    auth_state, now = session.client.auth_state, clock.now()
    login = auth_state.mechanism if isinstance(auth_state, Authenticated) else None
    identity = (
        session.context.snapshot.view.identify(auth_state.user, session.client.client_id)
        if auth_state.may_request
        else None
    )
    return Connected(
        user=auth_state.user or (ANONYMOUS if auth_state.may_request else None),
        address=session.context.address,
        login="certificate" if isinstance(auth_state, TlsAuthenticated) else login,
        client_id=session.client.client_id,
        instance=None if identity is None else identity.instance,
        software=session.client.software,
        cluster=session.context.port.cluster,
        broker=session.context.port.broker,
        clusters=tuple(sorted({lane.cluster for lane in tuple(session.upstreams)})),
        since=datetime.fromtimestamp(connection.came_at, UTC).isoformat(timespec="seconds"),
        idle_ms=max(0, round((now - connection.used_at) * 1000)),
        in_flight=len(session.in_flight.queue),
    )


def selected(
    connections: Iterable[ClientConnection], wanted: Mapping[str, str], limit: int
) -> tuple[list[Connected], int]:
    """Rows whose fields equal `wanted`, in order of user and client id; and their number before the limit.

    :param connections: a copy, since the event loop goes on.
    """
    rows = [connected(connection) for connection in connections]
    matching = [row for row in rows if all(str(getattr(row, field) or "") == value for field, value in wanted.items())]
    matching.sort(key=_order)
    return matching[:limit], len(matching)


def _order(row: Connected) -> tuple[str, str, str, str]:
    return row.user or "", row.client_id or "", row.address, row.since


DEFAULT_ROWS: Final = 1_000
_Answer = tuple[int, object]


def pages(gateway: Gateway, http: Http) -> Mapping[str, JsonPage]:
    """Path → page."""
    return {
        "/connections": _guarded(http, partial(_connections, gateway)),
        "/explain": _guarded(http, partial(_explanation, gateway)),
    }


def _guarded(http: Http, page: JsonPage) -> JsonPage:
    def guarded(request: Asked) -> _Answer:
        if http.token is None:
            if http.on_loopback and request.host and not on_loopback(request.host):
                # DNS rebinding: a browser on this machine shows a page of a site whose name now resolves to loopback.
                return 403, {"error": f"Host {request.host[:50]!r}: ask for this gateway by a loopback address"}
            if http.on_loopback:
                return page(request)
            return 403, {"error": f"http.host={http.host} is no loopback address: set http.token_file to be answered"}
        if not compare_digest(request.token.encode(), http.token):
            return 401, {"error": "show the token of http.token_file: Authorization: Bearer TOKEN"}
        return page(request)

    return guarded


def _connections(gateway: Gateway, request: Asked) -> _Answer:
    wanted = dict(request.fields)
    limit_text = wanted.pop("limit", str(DEFAULT_ROWS))
    limit = whole_number(limit_text, MAX_ROWS)
    if not limit:
        return 400, {"error": f"limit={limit_text[:20]!r}: give a number from 1 to {MAX_ROWS}"}
    if unknown := sorted(wanted.keys() - set(FILTERS)):
        return 400, {"error": f"{unknown[0][:40]!r}: no such field; there are limit, {', '.join(FILTERS)}"}
    rows, total = selected(list(gateway.clients.open), wanted, limit)
    return 200, {"gateway": gateway.config.id, "total": total, "connections": [asdict(row) for row in rows]}


def _explanation(gateway: Gateway, request: Asked) -> _Answer:
    fields = {"user": "", "instance": "", "address": "", **request.fields}
    named = [kind for kind in RESOURCES if fields.get(kind)]
    if len(named) != 1 or fields.keys() - {"user", "instance", "address", *RESOURCES} or not fields["user"]:
        return 400, {"error": "give user, topic or group (one of them), and, if you like, instance and address"}
    kind: Kind = named[0]
    try:
        host = address(fields["address"]) if fields["address"] else ""
    except ValueError:
        return 400, {"error": f"address={fields['address'][:50]!r}: no IP address"}
    snapshot = gateway.snapshot
    identity = snapshot.view.identify(fields["user"], fields["instance"])
    existing, rights = snapshot.topology.existing, snapshot.rights
    names = local_names(snapshot.view, identity, snapshot.remote_topics, snapshot.topology)
    real = None if names is None or kind != "topic" else names.real(fields[kind])
    name = fields[kind] if real is None else real
    explanation = explain(snapshot.view, identity, kind, name, rights, host, existing, snapshot.zone)
    explanation = replace(explanation, name=fields[kind], remote_topic=real)
    return 200, {"gateway": gateway.config.id, **asdict(explanation)}
