"""Non-blocking sockets: what one does not take at once is kept, and goes first when it takes more."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.session.commands import BrokerLane
from ha_core.tls.sockets import TlsSocket

BUFFER = bytearray(256 * 1024)
"""Shared by all connections of the process: nothing in it outlives one event."""


@dataclass(slots=True, eq=False)
class Channel:
    """One socket: what could not be sent yet, and which events are wanted."""

    loop: asyncio.AbstractEventLoop
    sock: socket.socket
    on_readable: Callable[[], None]
    on_writable: Callable[[], None]
    pending: list[memoryview] = field(default_factory=list)
    """In order, and few: an empty deque takes 700 bytes more."""
    reading: bool = False
    writing: bool = False
    _stuck: tuple[float, memoryview] | None = None

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Sends what the socket takes and keeps a copy of the rest. OSError if the connection broke."""
        sent = 0
        if not self.pending:
            try:  # noqa: SIM105 - for every passed request and answer
                sent = self.sock.send(data)
            except BlockingIOError:
                pass
        if sent < len(data):
            rest = memoryview(data)[sent:]
            # What lies in the shared buffer is overwritten by the next event; everything else is nobody's but ours.
            self.pending.append(memoryview(bytes(rest)) if rest.obj is BUFFER else rest)

    def flush(self) -> None:
        """Sends what was kept. OSError if the connection broke."""
        while self.pending:
            data = self.pending[0]
            sent = self._sent(data)
            if sent < len(data):
                if sent:
                    self.pending[0] = data[sent:]
                return
            del self.pending[0]

    def _sent(self, data: bytes | bytearray | memoryview) -> int:
        """How much of it the socket has taken."""
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0

    @property
    def reader(self) -> Callable[[], None]:
        """What the loop calls when bytes have come."""
        return self.on_readable

    def keep(self, rest: bytes) -> None:
        """Of what was sent in another way, this was not taken."""
        self.pending.append(memoryview(rest))

    @property
    def splices(self) -> bool:
        """Whether bytes can go to it inside the kernel now: it enciphers nothing, and nothing has to go before them."""
        return type(self) is Channel and not self.pending

    @property
    def pending_bytes(self) -> int:
        return sum(map(len, self.pending))

    def stuck_s(self, now: float) -> float:
        """How long nothing of what is pending has gone; as far as it was asked for."""
        if not self.pending:
            self._stuck = None
            return 0.0
        if self._stuck is None or self._stuck[1] is not self.pending[0]:
            self._stuck = (now, self.pending[0])
        return now - self._stuck[0]

    def want(self, reading: bool) -> None:
        """Whether bytes are to be read; what is pending is always to be sent."""
        if reading != self.reading:
            self.reading = reading
            if reading:
                self.loop.add_reader(self.sock.fileno(), self.reader)
            else:
                self.loop.remove_reader(self.sock.fileno())
        writing = bool(self.pending)
        if writing != self.writing:
            self.writing = writing
            if writing:
                self.loop.add_writer(self.sock.fileno(), self.on_writable)
            else:
                self.loop.remove_writer(self.sock.fileno())

    def finish(self) -> None:
        """Tells the other side that nothing more comes, if all that was to be sent is. OSError if it is gone."""
        if not self.pending:
            self.sock.shutdown(socket.SHUT_WR)

    def release(self) -> socket.socket:
        """The socket, which is somebody else's from here on."""
        self.pending.clear()
        self.want(False)
        del self.on_readable, self.on_writable  # they lead back here, and what has ended must leave no cycle
        return self.sock

    def close(self) -> None:
        self.release().close()


@dataclass(slots=True, eq=False)
class TlsChannel(Channel):
    """Over TLS: what was deciphered and not read yet wakes nobody up, so it is asked for behind each read."""

    _again: asyncio.Handle | None = None

    @property
    def reader(self) -> Callable[[], None]:
        return self._read

    def want(self, reading: bool) -> None:
        Channel.want(self, reading)
        self._look()

    def _read(self) -> None:
        self.on_readable()
        self._look()

    def _look(self) -> None:
        if self.reading and self._again is None and isinstance(self.sock, TlsSocket) and self.sock.pending():
            self._again = self.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._again = None
        if self.reading:
            self._read()

    def release(self) -> socket.socket:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        return Channel.release(self)


def channel(
    loop: asyncio.AbstractEventLoop,
    sock: socket.socket,
    on_readable: Callable[[], None],
    on_writable: Callable[[], None],
) -> Channel:
    """Of a socket, plain or TLS, whose handshake is over."""
    kind = TlsChannel if isinstance(sock, TlsSocket) else Channel
    return kind(loop, sock, on_readable, on_writable)


@dataclass(slots=True, eq=False)
class BrokerChannel:
    """What is not with the broker yet was accepted under a lease, and is sent under the same one only.

    A request of which a part was never sent is never executed.
    """

    lane: BrokerLane
    channel: Channel | None = None
    dialling: asyncio.Task[None] | None = None
    early: list[bytes] = field(default_factory=list)
    """Requests for a connection that is not open yet."""
    generation: int | None = None
    """Of the lease under which the first bytes that are still here were accepted; None: under none."""
    shut: bool = False
    """Nothing more is to be sent than what is still pending."""
    renewal: asyncio.TimerHandle | None = None
    outdated: bool = False
    """Its login ends soon: it is left as soon as nothing is under way on it."""

    def send(self, data: bytes | bytearray | memoryview, lease: Callable[[], int | None]) -> None:
        """:param lease: its generation while it holds: asked for only where something is kept.
        :raises OSError: the connection broke.
        """
        channel = self.channel
        if channel is None:
            if not self.early:
                self.generation = lease()
            self.early.append(bytes(data))
            return
        kept = bool(channel.pending)
        channel.send(data)
        if channel.pending and not kept:
            self.generation = lease()

    def keep(self, rest: bytes, lease: Callable[[], int | None]) -> None:
        """Of what was sent in another way, when nothing was pending, this was not taken."""
        assert self.channel is not None
        self.channel.keep(rest)
        self.generation = lease()

    def close(self) -> None:
        if self.dialling is not None:
            self.dialling.cancel()
        if self.renewal is not None:
            self.renewal.cancel()
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def begin(self, channel: Channel) -> None:
        """OSError if the connection broke."""
        self.channel = channel
        early, self.early = self.early, []
        for data in early:
            channel.send(data)
        self.finish()

    def finish(self) -> None:
        """Ends its own direction when all that was to be sent is. OSError if the connection broke."""
        if self.shut and self.channel is not None:
            self.channel.finish()
