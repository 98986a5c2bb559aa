"""One non-blocking socket: what it does not take at once is kept, and goes first when it takes more."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable

BUFFER = bytearray(256 * 1024)
"""Shared by all connections of the process: nothing in it outlives one event."""


class Wire:
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
