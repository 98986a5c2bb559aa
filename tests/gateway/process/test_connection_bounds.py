"""A client that does not read makes the gateway keep little, and one that reads late gets everything."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
import yaml

from gateway.config import load
from gateway.process.gateway import Gateway
from gateway.process.sockets.connection import ClientConnection
from gateway.session.commands import Cause
from gateway.session.lifecycle import Over
from ha_core.wire import encode_request
from stack.memory_store import MemoryStore
from tests.gateway.process.host import FakeHost
from tests.kit.own_gateway import free_port

VERSIONS = 18


def buffered_bytes(connection: ClientConnection) -> int:
    return sum(map(len, connection.client.pending)) + len(connection.session.intake.carry)


def test_answers_are_not_made_for_a_client_that_does_not_read() -> None:
    async def scenario() -> None:
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

    asyncio.run(scenario())


@pytest.mark.parametrize("over", [False, True], ids=["in the middle", "after its session has ended"])
def test_the_client_with_the_most_untaken_answers_is_disconnected_at_the_limit(tmp_path: Path, over: bool) -> None:
    async def scenario() -> None:
        # Given a gateway that keeps 8 MiB of answers, and clients that read nothing
        port = free_port()
        document = {
            "id": "gw",
            "zookeeper": {"hosts": "nowhere:1"},
            "listen": {"port": port},
            "authentication": {"anonymous": True},
            "limits": {"max_request_bytes": 1 << 20, "max_held_bytes": 8 << 20},
            "record_facts_s": 0,
        }
        (tmp_path / "gateway.yaml").write_text(yaml.safe_dump(document))
        gateway = Gateway(load(tmp_path / "gateway.yaml"), MemoryStore(), "test")
        await gateway.start()
        socks: list[socket.socket] = []
        connections: list[ClientConnection] = []
        for _ in range(3):
            sock = socket.socket()
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.setblocking(False)
            await gateway.loop.sock_connect(sock, ("127.0.0.1", port))
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
        assert [one.ended for one in connections] == [False, True, False]
        assert gateway.clients.ended == {Cause.HELD_TOO_MUCH.value: 1}
        assert gateway.clients.kept_bytes == modest.kept_bytes + last.kept_bytes
        # And answers of closed connections no longer count
        for sock in socks:
            sock.close()
        async with asyncio.timeout(5):
            while gateway.clients.open:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert gateway.clients.kept_bytes == 0
        await gateway.stop()

    asyncio.run(scenario())
