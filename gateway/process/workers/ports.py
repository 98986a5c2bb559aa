"""The ports that workers share: one socket each, which the parent binds and workers inherit, listen at and accept from.

The worker that accepts first takes the next client, so a worker that hangs, or has no room, delays none. If each worker
bound a socket of its own (SO_REUSEPORT), the kernel would go on to give a share of new clients to one that hangs, and
would silently share the port with any other process of the user that sets the option.

The parent never listens: before the first worker serves, and after the last has ended, clients are refused at once, and
go on to another gateway. The parent keeps the port bound all the while.
"""

import socket
from collections.abc import Iterable


class SharedPorts:
    """The parent's side."""

    def __init__(self, named: Iterable[tuple[str, str, int]]) -> None:
        """:param named: for each port: its setting, for error texts, host and port.
        :raises OSError: a port is taken; the text names it.
        """
        self._bound: list[socket.socket] = []
        try:
            for setting, host, port in named:
                self._bound.append(_bound(setting, host, port))
        except OSError:
            self.close()
            raise

    @property
    def numbers(self) -> tuple[int, ...]:
        """The descriptors, for workers to inherit, in the order of `named`."""
        return tuple(bound.fileno() for bound in self._bound)

    def refuse(self) -> None:
        """Resets the queued clients when no worker serves; the next worker listens again."""
        for bound in self._bound:
            # Linux remembers the shutdown of a socket that does not listen: connections accepted after it listens again
            # would have ended for both sides.
            if bound.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                bound.shutdown(socket.SHUT_RDWR)
            _keep_others_out(bound)

    def close(self) -> None:
        for bound in self._bound:
            bound.close()


def inherited(number: int) -> socket.socket:
    """A worker's socket, from a descriptor that it inherited (`process/sockets/listeners` joins it)."""
    shared = socket.socket(fileno=number)
    shared.set_inheritable(False)
    return shared


def _bound(setting: str, host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Connections from before a restart may still be there.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        _keep_others_out(bound)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}; change {setting} or free it") from error
    return bound


def _keep_others_out(bound: socket.socket) -> None:
    """Clears SO_REUSEADDR: with it, another process could bind the port while no socket listens."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
