"""A row for each client connection, for operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.process.sockets.connection import ClientConnection
from gateway.runtime import clock
from gateway.session.auth_state import Authenticated, TlsAuthenticated
from ha_core.model import ANONYMOUS

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
    entry, now = session.client.entry, clock.now()
    login = entry.mechanism if isinstance(entry, Authenticated) else None
    identity = session.context.snapshot.view.identify(entry.user, session.client.client_id) if entry.entered else None
    return Connected(
        user=entry.user or (ANONYMOUS if entry.entered else None),
        address=session.context.address,
        login="certificate" if isinstance(entry, TlsAuthenticated) else login,
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
