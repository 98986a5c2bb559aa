"""One non-blocking socket, plain or TLS, for those who wait for what it does."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any

from ha_core.tls.sockets import TlsSocket

AT_ONCE_BYTES = 256 << 10
"""Read of one socket without a pause, where there are always more: of a long list of topics there may be megabytes."""


class SocketStream:
    """One reads, several may write. It owns the socket until `take`.

    No stream of asyncio's, which takes no TLS socket that has shaken hands already, and reads ahead.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._loop = asyncio.get_running_loop()
        self._pending: deque[memoryview] = deque()
        self._taken: asyncio.Future[None] | None = None
        self._waited: Callable[[int], Any] | None = None
        """What ends the waiting of whoever waits for the socket."""
        self._at_once = 0
        """Bytes that were read since others had their turn."""

    async def shake_hands(self) -> None:
        """Of TLS, as its client. OSError: it failed."""
        sock, loop = self.sock, self._loop
        assert isinstance(sock, TlsSocket)
        while True:
            try:
                sock.do_handshake()
            except ssl.SSLWantReadError:
                await self._until(loop.add_reader, loop.remove_reader)
            except ssl.SSLWantWriteError:
                await self._until(loop.add_writer, loop.remove_writer)
            else:
                return

    async def read(self, most: int) -> bytes:
        """What has come, at least one byte; b"" at the end. OSError if the connection broke."""
        if self._at_once >= AT_ONCE_BYTES:
            self._at_once = 0
            await asyncio.sleep(0)
        while True:
            try:
                data = self.sock.recv(most)
            except BlockingIOError:
                self._at_once = 0
                await self._until(self._loop.add_reader, self._loop.remove_reader)
            else:
                self._at_once += len(data)
                return data

    def write(self, data: bytes) -> None:
        """What is not taken at once goes later. Whoever reads learns that the connection broke."""
        self._pending.append(memoryview(data))
        if len(self._pending) == 1:
            self._flush()

    async def drain(self) -> None:
        """Until all that was written is on its way."""
        if self._pending:
            if self._taken is None:
                self._taken = self._loop.create_future()
            await asyncio.shield(self._taken)

    def close(self) -> None:
        self.take().close()

    def take(self) -> socket.socket:
        """The socket, which is somebody else's from here on; who waits for it is cancelled by whoever takes it."""
        self._end_waiting()
        self._all_taken()
        return self.sock

    def _flush(self) -> None:
        try:
            while self._pending:
                sent = self.sock.send(self._pending[0])
                if sent < len(self._pending[0]):
                    self._pending[0] = self._pending[0][sent:]
                else:
                    self._pending.popleft()
        except BlockingIOError:
            self._loop.add_writer(self.sock.fileno(), self._flush)
            return
        except OSError:
            pass
        self._all_taken()

    def _all_taken(self) -> None:
        self._pending.clear()
        if self.sock.fileno() >= 0:
            self._loop.remove_writer(self.sock.fileno())
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)
        self._taken = None

    async def _until(self, add: Callable[..., Any], remove: Callable[[int], Any]) -> None:
        ready = self._loop.create_future()
        add(self.sock.fileno(), _ready, ready)
        self._waited = remove
        try:
            await ready
        finally:
            self._end_waiting()

    def _end_waiting(self) -> None:
        # At once and once: by the time at which a cancelled task goes on, another socket may have this number.
        remove, self._waited = self._waited, None
        if remove is not None and self.sock.fileno() >= 0:
            remove(self.sock.fileno())


def _ready(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
