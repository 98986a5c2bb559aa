"""A client that does not read makes the gateway keep little, and one that reads late gets everything."""

from __future__ import annotations

import asyncio

from gateway.driver.connection import ClientConnection
from gateway.session.commands import Cause
from ha_core.wire import encode_request
from tests.gateway.driver.host import FakeHost

VERSIONS = 18


def buffered_bytes(connection: ClientConnection) -> int:
    return sum(map(len, connection.client.pending)) + len(connection.session.carry)


def test_what_a_client_does_not_read_is_not_made_for_it() -> None:
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
