"""A client that does not read makes the gateway keep little, and one that reads late gets everything."""

import asyncio
import socket
from pathlib import Path

import pytest

from gateway.process.sockets.connection import ClientConnection
from gateway.session.commands import Cause
from gateway.session.lifecycle import Over
from ha_core.wire import encode_request
from tests.gateway.process.host import FakeHost
from tests.gateway.process.lone_gateway import lone_gateway

VERSIONS = 18


def buffered_bytes(connection: ClientConnection) -> int:
    return sum(map(len, connection.client.pending)) + len(connection.session.intake.carry)


async def test_answers_are_not_made_for_a_client_that_does_not_read() -> None:
    # Given a client that asks for the versions a hundred thousand times, and reads nothing
    host = FakeHost()
    connection, client = host.client()
    request = encode_request(VERSIONS, 0, 7, None, b"")
    count = 100_000
    sending = asyncio.create_task(host.loop.sock_sendall(client, request * count))
    most = 0
    for _ in range(200):
        await asyncio.sleep(0.002)
        most = max(most, buffered_bytes(connection))
    # Then it is not read either, before long
    assert not sending.done()
    assert most < 1 << 20
    # When it reads at last, then every request was answered
    head = b""
    while len(head) < 4:
        head += await host.loop.sock_recv(client, 4)
    answer = 4 + int.from_bytes(head, "big")
    size = len(head)
    while size < answer * count:
        size += len(await asyncio.wait_for(host.loop.sock_recv(client, 1 << 20), 5))
    assert size == answer * count
    await sending
    connection.end(Cause.SHUTDOWN)
    client.close()


@pytest.mark.parametrize("over", [False, True], ids=["in the middle", "after its session has ended"])
async def test_the_client_with_the_most_untaken_answers_is_disconnected_at_the_limit(
    tmp_path: Path, over: bool
) -> None:
    # Given a gateway that keeps 8 MiB of answers, and clients that read nothing
    limits = {"max_request_bytes": 1 << 20, "max_held_bytes": 8 << 20}
    async with lone_gateway(tmp_path, limits=limits) as gateway:
        socks: list[socket.socket] = []
        connections: list[ClientConnection] = []
        for _ in range(3):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            await gateway.loop.sock_connect(sock, ("127.0.0.1", gateway.config.listen.port))
            socks.append(sock)
            while len(gateway.clients.open) < len(socks):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            (new,) = gateway.clients.open - {*connections}
            connections.append(new)
        modest, greedy, last = connections

        def told(connection: ClientConnection, kept: int) -> None:
            while connection.kept_bytes < kept and not connection.ended:
                connection.client.send(b"x" * (1 << 20))
                connection._want()

        # When their answers exceed that
        told(modest, 2 << 20)
        told(greedy, 5 << 20)
        if over:
            greedy.leave(Cause.UNSUPPORTED, "it asks for what no gateway serves")
            assert isinstance(greedy.session.context.life, Over)
        told(last, 2 << 20)
        # Then the gateway closes the connection with the most bytes, and the others stay
        assert [client_connection.ended for client_connection in connections] == [False, True, False]
        assert gateway.clients.ended == {Cause.HELD_TOO_MUCH.value: 1}
        assert gateway.clients.kept_bytes == modest.kept_bytes + last.kept_bytes
        # And answers of closed connections no longer count
        for sock in socks:
            sock.close()
        async with asyncio.timeout(5):
            while gateway.clients.open:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert gateway.clients.kept_bytes == 0
