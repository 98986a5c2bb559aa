"""The listening sockets. While there is no room for another connection, clients wait in the kernel's queues.

A full gateway stops watching its listeners: a readable one would make the loop spin, accept nothing, and log that a
hundred thousand times a second.
"""

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable

from gateway.runtime.descriptors import EXHAUSTED
from gateway.runtime.log_rate_limiter import LogRateLimiter
from gateway.session.snapshot import Port

_log = logging.getLogger(__name__)

BACKLOG = 4096
"""With the default of 100, a reconnect storm gets 364 connections a second in, with retried SYNs, not 12,000."""
ACCEPTS_PER_TURN = 16
PAUSE_S = 0.05
EXHAUSTED_PAUSE_S = 0.5


class Listeners:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        has_room: Callable[[], bool],
        busy: Callable[[], bool],
        arrived: Callable[[socket.socket, Port, str], None],
        log_rate_limiter: LogRateLimiter,
    ) -> None:
        """:param busy: whether this turn of the loop has accepted enough, and has other work left.
        :param arrived: called with socket, listener and the client's address.
        """
        self._loop, self._has_room, self._busy, self._arrived = loop, has_room, busy, arrived
        self._log_rate_limiter = log_rate_limiter
        self._open: dict[socket.socket, Port] = {}
        self._resuming: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    @property
    def paused(self) -> bool:
        return self._resuming is not None

    def listen(self, host: str, number: int, port: Port) -> None:
        """OSError if another socket has the port."""
        self._take(socket.create_server((host, number), backlog=BACKLOG), port)

    def join(self, shared: socket.socket, port: Port) -> None:
        """Listens at a bound socket with the other workers of this gateway (`gateway/process/workers/ports`)."""
        _listen_with_others(shared)
        self._take(shared, port)

    def _take(self, listener: socket.socket, port: Port) -> None:
        listener.setblocking(False)
        self._open[listener] = port
        if not self.paused:
            self._loop.add_reader(listener.fileno(), self._accept, listener, port)

    def close(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
        for listener in self._open:
            self._loop.remove_reader(listener.fileno())
            listener.close()
        self._open.clear()

    def _accept(self, listener: socket.socket, port: Port) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if self._busy():
                return
            if not self._has_room():
                self._pause(PAUSE_S)
                return
            try:
                sock, address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EINVAL:
                    self._sent_away(listener)
                    return
                if self._log_rate_limiter.lets("accept", time.monotonic()):
                    _log.warning("no connection is accepted at the moment: %s", error)
                if error.errno in EXHAUSTED:
                    self._pause(EXHAUSTED_PAUSE_S)
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._arrived(sock, port, address[0])

    def _sent_away(self, listener: socket.socket) -> None:
        """The parent of the workers has stopped listening: all workers end, or it has not seen this one listen yet."""
        self._loop.remove_reader(listener.fileno())
        self._loop.call_later(EXHAUSTED_PAUSE_S, self._join_again, listener)

    def _join_again(self, listener: socket.socket) -> None:
        if listener in self._open:
            _listen_with_others(listener)
            if not self.paused:
                self._loop.add_reader(listener.fileno(), self._accept, listener, self._open[listener])

    def _pause(self, for_s: float) -> None:
        if self._resuming is None:
            for listener in self._open:
                self._loop.remove_reader(listener.fileno())
            self._resuming = self._loop.call_later(for_s, self._resume)

    def _resume(self) -> None:
        self._resuming = None
        for listener, port in self._open.items():
            self._loop.add_reader(listener.fileno(), self._accept, listener, port)


def _listen_with_others(shared: socket.socket) -> None:
    # Lingering connections of other workers must not prevent it.
    shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    shared.listen(BACKLOG)
