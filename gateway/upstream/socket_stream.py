"""One non-blocking socket, plain or TLS, for asyncio code that awaits it."""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any

from ha_core.tls.sockets import TlsSocket

AT_ONCE_BYTES = 256 << 10
"""Bytes read from one socket without a pause, while more arrive: a long list of topics may have megabytes."""


class SocketStream:
    """One task reads, several may write. It owns the socket until `detach`.

    asyncio's streams do not accept a TLS socket that has completed its handshake, and they read ahead.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._loop = asyncio.get_running_loop()
        self._pending: deque[memoryview] = deque()
        self._taken: asyncio.Future[None] | None = None
        self._waited: Callable[[int], Any] | None = None
        """Removes the callback that waits for the socket."""
        self._at_once = 0
        """Bytes read since other tasks had their turn."""

    async def shake_hands(self) -> None:
        """Completes the TLS handshake as the client.

        :raises OSError: it failed.
        """
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

    async def read(self, max_bytes: int) -> bytes:
        """The next bytes, at least one; b"" at the end.

        :raises OSError: the connection broke.
        """
        if self._at_once >= AT_ONCE_BYTES:
            self._at_once = 0
            await asyncio.sleep(0)
        while True:
            try:
                data = self.sock.recv(max_bytes)
            except BlockingIOError:
                self._at_once = 0
                await self._until(self._loop.add_reader, self._loop.remove_reader)
            else:
                self._at_once += len(data)
                return data

    def write(self, data: bytes) -> None:
        """Writes at once as much as possible, the rest later. The reader learns that the connection broke."""
        self._pending.append(memoryview(data))
        if len(self._pending) == 1:
            self._flush()

    async def drain(self) -> None:
        """Waits until all written bytes are sent."""
        if self._pending:
            if self._taken is None:
                self._taken = self._loop.create_future()
            await asyncio.shield(self._taken)

    def close(self) -> None:
        self.detach().close()

    def detach(self) -> socket.socket:
        """Hands over the socket; the caller cancels the tasks that wait for it."""
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
        # At once and only once: by the time a cancelled task continues, another socket may have this number.
        remove, self._waited = self._waited, None
        if remove is not None and self.sock.fileno() >= 0:
            remove(self.sock.fileno())


def _ready(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
