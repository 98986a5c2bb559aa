"""One client of the east's broker between real sockets, in tests that are written as one scenario."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from gateway.session.commands import Cause
from ha_core.wire import encode, encode_request, encode_response
from tests.gateway.process.host import FakeHost
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import PRODUCE, produce, produced, state

VERSION = 9


class Loopback(FakeHost):
    """A gateway for which no topic was ever moved, and one client."""

    def __init__(self) -> None:
        super().__init__(state=state())
        self.connection, self.sock = self.client()
        self.sock.setblocking(True)
        self.sock.settimeout(5)

    @property
    def causes(self) -> list[Cause]:
        return [cause for cause, _ in self.ended]

    async def broker(self) -> socket.socket:
        """The broker's end of the first connection to it."""
        await self.until(lambda: bool(self.brokers))
        self.brokers[0].setblocking(True)
        self.brokers[0].settimeout(5)
        return self.brokers[0]

    async def until(self, true: Callable[[], bool], seconds: float = 5.0) -> None:
        """Lets the loop run until `true()`."""
        async with asyncio.timeout(seconds):
            while not true():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def close(self) -> None:
        self.connection.end(Cause.SHUTDOWN)
        self.lingering.close()
        self.pipe.close()
        for sock in (self.sock, *self.brokers):
            sock.close()


def played(scenario: Callable[[Loopback], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Makes a test of a scenario."""

    async def play() -> None:
        host = Loopback()
        try:
            await scenario(host)
        finally:
            host.close()

    @wraps(scenario)
    def run() -> None:
        asyncio.run(play())

    del run.__wrapped__  # pytest would look for the arguments of the scenario
    return run


def frame(sock: socket.socket) -> bytes:
    """The next whole frame of a socket; empty at its end."""
    head = sock.recv(4, socket.MSG_WAITALL)
    return head + sock.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL) if head else b""


def request(correlation: int, payload: bytes = b"x", acks: int = -1) -> bytes:
    body = produce(("orders", 0, batch(payload=payload)), acks=acks)
    return encode_request(PRODUCE, VERSION, correlation, "app", encode(PRODUCE, VERSION, "request", body))


def answer(correlation: int, offset: int = 5) -> bytes:
    body = encode(PRODUCE, VERSION, "response", produced(("orders", 0, 0, offset)))
    return encode_response(PRODUCE, VERSION, correlation, body)


async def asked(host: Loopback, first: bytes) -> Any:
    """Sends a first request; the socket of the broker that has it."""
    host.sock.send(first)
    broker = await host.broker()
    assert await asyncio.to_thread(frame, broker) == first
    return broker
