"""Splices long bodies that the session does not inspect from socket to socket inside the kernel (splice(2)).

One pipe serves all connections in turn, since it is empty after each event: bytes that the receiving socket does not
take are read out of it, and wait as all pending bytes do.
"""

import fcntl
import os
import socket
from contextlib import suppress

LEAST_BYTES = 64 << 10
"""For less, a copy through user space costs no more than the two system calls of a splice."""
_PIPE_BYTES = 256 << 10
"""As much as is read at once elsewhere: a receiver that takes nothing more makes the gateway keep that much. Four times
as much would cost a quarter less CPU per byte."""


class Pipe:
    """:ivar held: bytes that were taken from a socket and are still in the pipe."""

    __slots__ = ("_into", "_out", "held")

    def __init__(self) -> None:
        self._out, self._into = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError):
            fcntl.fcntl(self._into, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self.held = 0

    def fill(self, sock: socket.socket, max_bytes: int) -> int:
        """The number of bytes taken from a socket; 0: the other side has closed it.

        :raises BlockingIOError: there are none. :raises OSError: the connection broke.
        """
        assert self.held == 0
        self.held = os.splice(sock.fileno(), self._into, max_bytes, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK)
        return self.held

    def empty(self, sock: socket.socket) -> bytes:
        """Moves them to another socket; returns the bytes that it does not take.

        :raises OSError: the connection broke, and they are gone with it.
        """
        try:
            while self.held:
                self.held -= os.splice(
                    self._out, sock.fileno(), self.held, flags=os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK
                )
        except BlockingIOError:
            return self._read_out()
        except OSError:
            self._read_out()
            raise
        return b""

    def drop(self) -> None:
        """Discards them."""
        self._read_out()

    def close(self) -> None:
        os.close(self._out)
        os.close(self._into)

    def _read_out(self) -> bytes:
        rest = b""
        while len(rest) < self.held:
            rest += os.read(self._out, self.held - len(rest))
        self.held = 0
        return rest
