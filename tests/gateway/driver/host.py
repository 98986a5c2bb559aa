"""A gateway around single connections: real sockets on loopback, everything else by hand."""

from __future__ import annotations

import asyncio
import math
import socket
from typing import Any

from gateway import clock
from gateway.counts import Counts
from gateway.driver.connection import Connection
from gateway.driver.farewell import Farewells
from gateway.session.commands import AwaitLease, BrokerLane, Cause, Wish
from gateway.session.session import Session
from gateway.session.settings import Settings
from gateway.session.snapshot import Port
from gateway.upstream.dial import BrokerSocket
from tests.gateway.session.talk import Talk, snapshot


class FakeHost:
    """Composed requests are answered with what is in `answers`, at once; brokers are what `brokers` makes."""

    def __init__(self, settings: Settings | None = None, state: Any = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.counts = Counts()
        self.settings = settings or Talk(state).session.settings
        self.snapshot = state or snapshot()
        self.ended: list[tuple[Cause, str]] = []
        self.brokers: list[socket.socket] = []
        self.good_for_s = math.inf
        """How long a login to a broker is good."""
        self.in_house: list[Connection] = []
        """Those who have logged in."""
        self.without_lease: list[Connection] = []
        self.farewells = Farewells(self.loop)

    def client(self, port: Port = Port("east", 1)) -> tuple[Connection, socket.socket]:  # noqa: B008 - frozen
        """A connection of the gateway and the client's end of it."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        return Connection(self, ours, Session(port, self.settings, self.snapshot)), theirs

    async def open(self, lane: BrokerLane) -> BrokerSocket:
        pair, theirs = socket.socketpair()
        ours = BrokerSocket(fileno=pair.detach())
        ours.good_for_s = self.good_for_s
        ours.setblocking(False)
        theirs.setblocking(False)
        self.brokers.append(theirs)
        return ours

    def fulfil(self, connection: Connection, wish: Wish) -> None:
        if isinstance(wish, AwaitLease):
            self.without_lease.append(connection)

    def entered(self, connection: Connection) -> None:
        self.in_house.append(connection)

    def lease_generation(self) -> int | None:
        lease = self.settings.lease
        return lease.generation if lease.holds(clock.now()) else None

    def closed(self, connection: Connection, cause: Cause, detail: str) -> None:
        self.ended.append((cause, detail))

    def farewell(self, client: socket.socket) -> None:
        self.farewells.take(client)

    def progressed(self, connection: Connection) -> None: ...
