"""A gateway around single connections: real sockets on loopback, everything else by hand."""

import asyncio
import math
import socket
from typing import Any

from gateway.model.counts import Counts
from gateway.process.sockets.admission import BrokerConnections, UnauthenticatedReads
from gateway.process.sockets.connection import ClientConnection
from gateway.process.sockets.lingering_close import LingeringClose
from gateway.process.sockets.splicing import Pipe
from gateway.runtime import clock
from gateway.session.commands import AwaitLease, BrokerLane, Cause, Wish
from gateway.session.session import Session
from gateway.session.shared import Shared
from gateway.session.snapshot import Port
from gateway.upstream.dial import BrokerSocket
from tests.gateway.session.talk import Talk, snapshot


class FakeHost:
    """Answers composed requests from `answers`, at once; brokers come from `brokers`."""

    def __init__(self, shared: Shared | None = None, state: Any = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.counts = Counts()
        self.shared = shared or Talk(state).session.context.shared
        self.snapshot = state or snapshot()
        self.ended: list[tuple[Cause, str]] = []
        self.brokers: list[socket.socket] = []
        self.broker_connections = BrokerConnections()
        self.good_for_s = math.inf
        """Seconds for which a login to a broker is valid."""
        self.in_house: list[ClientConnection] = []
        """Connections that have logged in."""
        self.without_lease: list[ClientConnection] = []
        self.lingering = LingeringClose(self.loop)
        self.pipe = Pipe()
        self.unauthenticated_reads = UnauthenticatedReads(self.loop)

    def client(self, port: Port = Port("east", 1)) -> tuple[ClientConnection, socket.socket]:  # noqa: B008 - frozen
        """A connection of the gateway and the client's end of it."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        return ClientConnection(self, ours, Session(port, self.shared, self.snapshot)), theirs

    async def open(self, lane: BrokerLane) -> BrokerSocket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self.brokers.append(theirs)
        return BrokerSocket(ours, 0.8 * self.good_for_s)

    def fulfil(self, connection: ClientConnection, wish: Wish) -> None:
        if isinstance(wish, AwaitLease):
            self.without_lease.append(connection)

    def entered(self, connection: ClientConnection) -> None:
        self.in_house.append(connection)

    def lease_generation(self) -> int | None:
        lease = self.shared.lease
        return lease.generation if lease.holds(clock.now()) else None

    def connection_closed(self, connection: ClientConnection, cause: Cause, detail: str) -> None:
        self.ended.append((cause, detail))

    def linger(self, client: socket.socket) -> None:
        self.lingering.linger(client)

    def progressed(self, connection: ClientConnection) -> None: ...

    def holds_brokers(self, connection: ClientConnection, count: int) -> None:
        self.broker_connections.holds(connection, count)

    def has_room_for_broker(self, connection: ClientConnection) -> bool:
        return self.broker_connections.room(connection)

    def keeps(self, connection: ClientConnection, count: int) -> None:
        connection.kept_bytes = count
