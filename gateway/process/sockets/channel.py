"""Non-blocking sockets: bytes that a socket does not take at once are kept, and sent first when it takes more."""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.model.counts import BrokerBytes
from gateway.session.commands import BrokerLane
from ha_core.tls.sockets import TlsSocket

BUFFER = bytearray(256 * 1024)
"""Shared by all connections of the process: its content is valid for one event only."""


@dataclass(slots=True, eq=False)
class Channel:
    """One socket, its unsent bytes, and the events that it waits for."""

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
            # The next event overwrites the shared buffer; any other object belongs to this channel alone.
            self.pending.append(memoryview(bytes(rest)) if rest.obj is BUFFER else rest)

    def flush(self) -> None:
        """Sends the kept bytes. OSError if the connection broke."""
        while self.pending:
            data = self.pending[0]
            sent = self._sent(data)
            if sent < len(data):
                if sent:
                    self.pending[0] = data[sent:]
                return
            del self.pending[0]

    def _sent(self, data: bytes | bytearray | memoryview) -> int:
        """The number of bytes that the socket has taken."""
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0

    @property
    def reader(self) -> Callable[[], None]:
        """The loop's callback for a readable socket."""
        return self.on_readable

    def keep(self, rest: bytes) -> None:
        """Keeps bytes that a transfer outside `send` could not deliver."""
        self.pending.append(memoryview(rest))

    @property
    def splices(self) -> bool:
        """Whether the kernel can splice into the socket now: it is not encrypted, and no bytes are pending."""
        return type(self) is Channel and not self.pending

    @property
    def pending_bytes(self) -> int:
        return sum(map(len, self.pending))

    def stuck_s(self, now: float) -> float:
        """Seconds for which no pending byte was taken, measured between calls of this method."""
        if not self.pending:
            self._stuck = None
            return 0.0
        if self._stuck is None or self._stuck[1] is not self.pending[0]:
            self._stuck = (now, self.pending[0])
        return now - self._stuck[0]

    def want(self, reading: bool) -> None:
        """Whether to read; pending bytes are always sent."""
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
        """Shuts down the sending direction if all bytes are sent. OSError if the connection broke."""
        if not self.pending:
            self.sock.shutdown(socket.SHUT_WR)

    def release(self) -> socket.socket:
        """The socket, which belongs to the caller from now on."""
        self.pending.clear()
        self.want(False)
        del self.on_readable, self.on_writable  # they refer back to the connection: ended ones must leave no cycle
        return self.sock

    def close(self) -> None:
        self.release().close()


@dataclass(slots=True, eq=False)
class TlsChannel(Channel):
    """Over TLS: decrypted bytes that are not read yet do not wake the loop, so each read checks for more."""

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
    """Wraps a socket, plain or TLS, after its handshake."""
    kind = TlsChannel if isinstance(sock, TlsSocket) else Channel
    return kind(loop, sock, on_readable, on_writable)


@dataclass(slots=True, eq=False)
class BrokerChannel:
    """Pending bytes for a broker were accepted under a lease, and are sent under that lease only.

    A broker never executes a request whose end was not sent.
    """

    lane: BrokerLane
    traffic: BrokerBytes
    """Counters of its cluster."""
    channel: Channel | None = None
    dialling: asyncio.Task[None] | None = None
    early: list[bytes] = field(default_factory=list)
    """Requests for a connection that is not open yet."""
    generation: int | None = None
    """Generation of the lease under which the first pending bytes were accepted; None: none are pending."""
    shut: bool = False
    """Nothing is sent any more but the pending bytes."""
    renewal: asyncio.TimerHandle | None = None
    outdated: bool = False
    """Its login ends soon: it is closed as soon as it is idle."""

    def send(self, data: bytes | bytearray | memoryview, lease: Callable[[], int | None]) -> None:
        """:param lease: returns the lease's generation while it holds; called only where bytes are kept.
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
        """Keeps bytes that a transfer outside `send`, begun with nothing pending, could not deliver."""
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

    def attach(self, channel: Channel) -> None:
        """OSError if the connection broke."""
        self.channel = channel
        early, self.early = self.early, []
        for data in early:
            channel.send(data)
        self.finish()

    def finish(self) -> None:
        """Shuts down the sending direction when all bytes are sent. OSError if the connection broke."""
        if self.shut and self.channel is not None:
            self.channel.finish()
