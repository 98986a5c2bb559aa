"""Closing a client's connection so that it gets its last answers.

A socket that is closed with unread bytes, or gets some later, resets its connection, and the client's kernel discards
answers that the client has not read yet. So the gateway ends its own direction, and reads until the client has ended
the other one. Requests read so were never forwarded: the client retries them.
"""

import asyncio
import socket
import time
from collections.abc import Collection

from gateway.process.sockets.connection import ClientConnection
from gateway.session.commands import Cause

PATIENCE_S = 1.0
_SINK = bytearray(64 * 1024)


class LingeringClose:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: dict[socket.socket, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._open)

    def linger(self, sock: socket.socket) -> None:
        """Closes a socket that is no longer read or written to."""
        try:
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            sock.close()
            return
        self._open[sock] = self._loop.call_later(PATIENCE_S, self._close, sock)
        self._loop.add_reader(sock.fileno(), self._readable, sock)

    def end_oldest(self) -> None:
        """Closes the socket that has lingered longest."""
        self._close(next(iter(self._open)))

    def close(self) -> None:
        """Closes all sockets at once."""
        for sock in tuple(self._open):
            self._close(sock)

    def _readable(self, sock: socket.socket) -> None:
        try:
            if sock.recv_into(_SINK):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._close(sock)

    def _close(self, sock: socket.socket) -> None:
        self._open.pop(sock).cancel()
        self._loop.remove_reader(sock.fileno())
        sock.close()


READS_S = 2.0
"""Longest wait for reads, and for requests that wait for other clients."""
WRITES_S = 10.0
"""Longest wait for requests that may have changed a log or a group: unanswered, a client repeats them."""
_STEP_S = 0.02
RELEASES = 6
RELEASE_S = 0.4
"""Time between two rounds, in which a client comes back, asks where to go, and leaves for another gateway."""


async def release(connections: Collection[ClientConnection]) -> None:
    """Ends each connection after its last answer, while the listeners still accept new ones, in several rounds.

    The client comes back at once, asks where to go, and is sent to another gateway. A client that comes back to a
    closed port pauses, and doubles its pause at each try: librdkafka up to 10 s, which no answer shortens. Several
    rounds, because librdkafka does not ask after the first one if an answer about the topic was due, and Java stays at
    the address of an open connection.
    """
    for _ in range(RELEASES):
        for connection in tuple(connections):
            connection.leave(Cause.SHUTDOWN, "")
        await asyncio.sleep(RELEASE_S)


async def close_gracefully(connections: Collection[ClientConnection], lingering: LingeringClose) -> None:
    """Takes nothing more from clients, answers requests in flight, and ends each connection after its last answer.

    :param connections: shrinks as they end.
    """
    for connection in tuple(connections):
        connection.leave(Cause.SHUTDOWN, "")
    since = time.monotonic()
    while _unanswered(connections, time.monotonic() - since):  # noqa: ASYNC110
        await asyncio.sleep(_STEP_S)
    for connection in tuple(connections):
        connection.end(Cause.SHUTDOWN)
    until = time.monotonic() + PATIENCE_S
    while lingering and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(_STEP_S)
    lingering.close()


def _unanswered(connections: Collection[ClientConnection], waited_s: float) -> bool:
    if waited_s < READS_S:
        return bool(connections)
    return waited_s < WRITES_S and any(connection.session.writes for connection in connections)
