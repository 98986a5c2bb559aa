"""Non-blocking sockets: what one does not take at once is kept, and goes first when it takes more."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable

from gateway.session.commands import BrokerLane

BUFFER = bytearray(256 * 1024)
"""Shared by all connections of the process: nothing in it outlives one event."""


class Channel:
    """One socket: what could not be sent yet, and which events are wanted."""

    __slots__ = ("_stuck", "fd", "loop", "pending", "reading", "sock", "writing")

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
        self.loop = loop
        self.sock = sock
        self.fd = sock.fileno()
        self.pending: deque[memoryview] = deque()
        self.reading = False
        self.writing = False
        self._stuck: tuple[float, memoryview] | None = None

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Sends what the socket takes and keeps a copy of the rest. OSError if the connection broke."""
        if self.pending:
            self._keep(data)
            return
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self._keep(memoryview(data)[sent:])

    def _keep(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        # What lies in the shared buffer is overwritten by the next event; everything else is nobody's but ours.
        self.pending.append(memoryview(bytes(view)) if view.obj is BUFFER else view)

    def flush(self) -> bool:
        """Sends what was kept; whether all of it went. OSError if the connection broke."""
        while self.pending:
            data = self.pending[0]
            try:
                sent = self.sock.send(data)
            except BlockingIOError:
                return False
            if sent < len(data):
                self.pending[0] = data[sent:]
                return False
            self.pending.popleft()
        return True

    def stuck_s(self, now: float) -> float:
        """How long nothing of what is pending has gone; as far as it was asked for."""
        if not self.pending:
            self._stuck = None
            return 0.0
        if self._stuck is None or self._stuck[1] is not self.pending[0]:
            self._stuck = (now, self.pending[0])
        return now - self._stuck[0]

    def want(self, reading: bool, on_readable: Callable[[], None], on_writable: Callable[[], None]) -> None:
        if reading != self.reading:
            self.reading = reading
            if reading:
                self.loop.add_reader(self.fd, on_readable)
            else:
                self.loop.remove_reader(self.fd)
        writing = bool(self.pending)
        if writing != self.writing:
            self.writing = writing
            if writing:
                self.loop.add_writer(self.fd, on_writable)
            else:
                self.loop.remove_writer(self.fd)

    def finish(self) -> None:
        """Tells the other side that nothing more comes, if all that was to be sent is. OSError if it is gone."""
        if not self.pending:
            self.sock.shutdown(socket.SHUT_WR)

    def release(self) -> socket.socket:
        """The socket, which is somebody else's from here on."""
        self._forget()
        return self.sock

    def close(self) -> None:
        self._forget()
        self.sock.close()

    def _forget(self) -> None:
        if self.reading:
            self.loop.remove_reader(self.fd)
        if self.writing:
            self.loop.remove_writer(self.fd)
        self.reading = self.writing = False
        self.pending.clear()


class BrokerChannel:
    """What is not with the broker yet was accepted under a lease, and is sent under the same one only.

    A request of which a part was never sent is never executed.
    """

    __slots__ = ("channel", "dialling", "early", "generation", "lane", "outdated", "renewal", "shut")

    def __init__(self, lane: BrokerLane) -> None:
        self.lane = lane
        self.channel: Channel | None = None
        self.dialling: asyncio.Task[None] | None = None
        self.early: list[bytes] = []
        """Requests for a connection that is not open yet."""
        self.generation: int | None = None
        """Of the lease under which the first bytes that are still here were accepted; None: under none."""
        self.shut = False
        """Nothing more is to be sent than what is still pending."""
        self.renewal: asyncio.TimerHandle | None = None
        self.outdated = False
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
