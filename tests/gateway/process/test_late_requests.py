"""The time for a request to arrive is bounded."""

import asyncio
import socket
from pathlib import Path

import pytest

from gateway.session.commands import Cause
from ha_core.wire import encode, encode_request
from tests.gateway.process.lone_gateway import lone_gateway
from tests.gateway.process.loopback import Loopback, answer, asked, frame, played, request

METADATA = encode_request(3, 4, 1, "app", encode(3, 4, "request", {"topics": []}))
FRAME_S = 0.2


async def looks(host: Loopback, seconds: float, frame_s: float = FRAME_S, min_bytes_s: float = 1e9) -> None:
    for _ in range(int(seconds / 0.05)):
        await asyncio.sleep(0.05)
        host.connection.end_if_late(frame_s, min_bytes_s)


@played
async def test_half_a_request_is_waited_for_until_the_configured_time(host: Loopback) -> None:
    host.sock.sendall(METADATA[:11])
    await looks(host, 0.5, frame_s=600)
    assert host.causes == []
    await looks(host, 0.5)
    assert host.causes == [Cause.LATE]


@played
async def test_a_request_that_comes_byte_by_byte_has_no_more_time(host: Loopback) -> None:
    for byte in METADATA[:-1]:
        host.sock.sendall(bytes([byte]))
        await looks(host, 0.05)
        if host.causes:
            break
    assert host.causes == [Cause.LATE]


@played
async def test_a_produce_that_is_forwarded_as_it_comes_has_the_time_of_its_size(host: Loopback) -> None:
    # Given the beginning of a produce of 100 kB
    produce = request(1, payload=b"y" * 100_000)
    host.sock.sendall(produce[:50_000])
    await host.until(lambda: host.connection.session.intake.reading is not None)

    async def trickle(seconds: float) -> None:
        for at in range(50_000, 50_000 + int(seconds / 0.05)):
            host.sock.sendall(produce[at : at + 1])
            await looks(host, 0.05, frame_s=0.0, min_bytes_s=250_000)
            if host.causes:
                break

    # Then 0.4 s are enough for all of it at 250 kB/s, and its client has no more
    await trickle(0.2)
    assert host.causes == []
    await trickle(0.8)
    assert host.causes == [Cause.LATE]


@played
async def test_a_late_client_gets_the_answers_that_it_is_owed(host: Loopback) -> None:
    # Given a produce in flight, and after it a request that does not come
    broker = await asked(host, request(1))
    host.sock.sendall(METADATA[:11])
    await looks(host, 0.5)
    assert host.causes == []
    # When the broker has written the produce
    broker.send(answer(1))
    assert await asyncio.to_thread(frame, host.sock) == answer(1)
    assert await asyncio.to_thread(frame, host.sock) == b""
    assert host.causes == [Cause.LATE]


@played
async def test_an_idle_client_is_not_late(host: Loopback) -> None:
    await looks(host, 0.5)
    assert host.causes == []


async def test_an_address_has_as_many_connections_as_it_may_have(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    # Given a gateway that takes three from each address
    async with lone_gateway(tmp_path, limits={"max_connections_per_address": 3}) as gateway:

        async def stays(address: str) -> tuple[bool, socket.socket]:
            sock = socket.socket()
            sock.bind((address, 0))
            sock.setblocking(False)
            await gateway.loop.sock_connect(sock, ("127.0.0.1", gateway.config.listen.port))
            try:
                return await asyncio.wait_for(gateway.loop.sock_recv(sock, 1), 0.3) != b"", sock
            except TimeoutError:
                return True, sock

        # When one comes with five, and another one with one
        greedy = [await stays("127.0.0.2") for _ in range(5)]
        modest = [await stays("127.0.0.3")]
        # Then
        assert [stayed for stayed, _ in (*greedy, *modest)] == [True, True, True, False, False, True]
        assert gateway.clients.turned_away == {"max_connections_per_address": 2}
        assert "limits.max_connections_per_address=3 is reached address=127.0.0.2" in caplog.text
        # And when one of those has ended another is admitted
        greedy[0][1].close()
        async with asyncio.timeout(5):
            while len(gateway.clients.open) == 4:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        again = await stays("127.0.0.2")
        assert again[0]
        for _, sock in (*greedy, *modest, again):
            sock.close()
    assert not gateway.clients._from
