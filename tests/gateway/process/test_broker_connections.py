"""Connections of clients to brokers beyond the first of each client: bounded for all clients together."""

import asyncio
import socket
from pathlib import Path

from gateway.process.sockets.admission import LOOKED_AT, BrokerConnections
from gateway.session.commands import BrokerLane, Cause, Command
from tests.gateway.process.lone_gateway import lone_gateway
from tests.gateway.process.loopback import Loopback, answer, asked, frame, played, request


class Client:
    """Has so many connections to brokers, some of them idle."""

    def __init__(self, connections: BrokerConnections, count: int, idle: int) -> None:
        self.connections, self.count, self.idle = connections, count, idle
        connections.holds(self, count)

    def close_idle_brokers(self, last: bool = False) -> int:
        self.count, self.idle = self.count - self.idle, 0
        self.connections.holds(self, self.count)
        return self.count


def test_the_first_broker_connection_of_a_client_does_not_count() -> None:
    connections = BrokerConnections(limit=4)
    clients = [Client(connections, count, 0) for count in (1, 1, 3, 2)]
    assert connections.further == 3
    connections.holds(clients[2], 0)
    assert connections.further == 1


def test_idle_connections_are_closed_for_a_further_one_the_clients_own_first() -> None:
    connections = BrokerConnections(limit=4)
    other, own = Client(connections, 3, idle=1), Client(connections, 3, idle=1)
    assert connections.room(own)
    assert (other.count, own.count) == (3, 2)
    # When it has that one, and needs one more
    own.count = 3
    connections.holds(own, own.count)
    assert connections.room(own)
    # Then another client's idle one is closed
    assert (other.count, connections.further, connections.refused) == (2, 3, 0)


def test_no_further_connection_is_opened_while_all_are_in_use() -> None:
    connections = BrokerConnections(limit=2)
    clients = [Client(connections, 2, idle=0) for _ in range(2)]
    assert not connections.room(clients[0])
    assert (connections.further, connections.refused) == (2, 1)


def test_an_idle_connection_is_found_however_many_clients_have_none() -> None:
    connections = BrokerConnections(limit=2 * LOOKED_AT + 1)
    clients = [Client(connections, 2, idle=0) for _ in range(2 * LOOKED_AT)]
    last = Client(connections, 2, idle=1)
    # It is not among those that are checked first
    assert not connections.room(clients[0])
    assert any(connections.room(clients[0]) for _ in range(3))
    assert last.count == 1


def to_broker(host: Loopback, broker: int, in_use: bool = False) -> BrokerLane:
    """The session decides to send something to another broker of its cluster."""
    lane, session = BrokerLane("east", broker), host.connection.session

    def decide(_: float) -> list[Command]:
        upstream = session.upstreams.send(lane, b"a request")
        if in_use:
            upstream.unacknowledged.add([b"orders"], True, 1)
        return session.pop_commands()

    host.connection._carry_out(decide)
    return lane


async def served(host: Loopback) -> BrokerLane:
    """Its client has been served by the port's broker."""
    broker = await asked(host, request(1))
    broker.send(answer(1))
    assert await asyncio.to_thread(frame, host.sock) == answer(1)
    (own,) = host.connection.brokers
    return own


@played
async def test_a_client_at_the_bound_has_an_idle_broker_closed_for_the_next_one(host: Loopback) -> None:
    host.broker_connections.limit = 1
    own = await served(host)
    to_broker(host, 2)
    await host.until(lambda: len(host.brokers) == 2)
    # When it needs a third one
    third = to_broker(host, 3)
    await host.until(lambda: len(host.brokers) == 3)
    # Then the idle one is closed, not that to the port's broker, and the client stays
    assert [*host.connection.brokers] == [own, third]
    host.brokers[1].setblocking(True)
    host.brokers[1].settimeout(5)
    assert await asyncio.to_thread(host.brokers[1].recv, 100) in (b"", b"a request")
    assert (host.broker_connections.further, host.broker_connections.refused) == (1, 0)
    assert not host.ended


@played
async def test_a_client_at_the_bound_gets_no_further_broker_while_all_are_in_use(host: Loopback) -> None:
    host.broker_connections.limit = 1
    own = await served(host)
    second = to_broker(host, 2, in_use=True)
    third = to_broker(host, 3)
    await host.until(lambda: third not in host.connection.brokers)
    # Then no socket was opened for it, and it counts as lost
    assert [*host.connection.brokers] == [own, second]
    assert third not in host.connection.session.upstreams
    assert (len(host.brokers), host.broker_connections.further, host.broker_connections.refused) == (2, 1, 1)


@played
async def test_a_client_at_the_bound_has_its_only_broker_closed_for_another_one_if_idle(host: Loopback) -> None:
    # Given no room, and a client with one idle connection, which is not to the port's broker
    host.broker_connections.limit = 0
    to_broker(host, 2)
    await host.until(lambda: len(host.brokers) == 1)
    # When it needs the port's broker
    host.sock.send(request(1))
    await host.until(lambda: len(host.brokers) == 2)
    # Then it gets that: it has no more descriptors than before
    assert [lane.broker for lane in host.connection.brokers] == [1]
    assert (host.broker_connections.further, host.broker_connections.refused) == (0, 0)
    assert not host.ended


@played
async def test_a_client_that_leaves_gives_its_further_connections_back(host: Loopback) -> None:
    await served(host)
    to_broker(host, 2, in_use=True)
    assert host.broker_connections.further == 1
    host.connection.end(Cause.CLIENT_LEFT)
    assert host.broker_connections.further == 0


async def test_clients_that_have_left_make_room_for_those_that_come(tmp_path: Path) -> None:
    # Given a gateway whose descriptors are all in use, some by clients that take their last answers
    async with lone_gateway(tmp_path, limits={"max_connections": 2}) as gateway:
        gateway.clients.max_leaving = 1
        pairs = [socket.socketpair() for _ in range(3)]
        for ours, _ in pairs:
            ours.setblocking(False)
            gateway.clients.lingering.linger(ours)
        # When a client comes
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.config.listen.port)
        async with asyncio.timeout(5):
            while not gateway.clients.open:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        # Then it is let in, and the one that left first is not waited for any longer
        assert [ours.fileno() >= 0 for ours, _ in pairs] == [False, True, True]
        writer.close()
        for _, theirs in pairs:
            theirs.close()
