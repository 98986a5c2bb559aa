"""The ports that workers share: one socket each, which the parent binds and workers inherit, listen at and accept from.

Whoever comes first takes the next client, so one that hangs, or has no room, takes none and keeps none waiting. Were
each to bind a socket of its own (SO_REUSEPORT), the kernel would go on to give a part of the newcomers to one that
hangs, and would share the port with any other process of the same user that does so, without a word.

The parent never listens: before the first worker serves, and after the last has ended, clients are refused at once, and
go on to another gateway. The port stays the parent's all the while.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable


class SharedPorts:
    """The parent's side."""

    def __init__(self, named: Iterable[tuple[str, str, int]]) -> None:
        """:param named: the setting that says it, for whoever has to change it; host and port.
        :raises OSError: one is taken; the text names it.
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
        """Nobody serves: whoever waits there is sent away, until a worker listens again."""
        for bound in self._bound:
            # Linux remembers the shutdown of a socket that does not listen, and every connection that is accepted after
            # it listens again has ended for both sides.
            if bound.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                bound.shutdown(socket.SHUT_RDWR)
            _keep_others_out(bound)

    def close(self) -> None:
        for bound in self._bound:
            bound.close()


def inherited(number: int) -> socket.socket:
    """A worker's own, of a descriptor that its parent has handed down (`process/sockets/listeners` joins it)."""
    shared = socket.socket(fileno=number)
    shared.set_inheritable(False)
    return shared


def _bound(setting: str, host: str, port: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Connections of before a restart may still be there.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        _keep_others_out(bound)
    except OSError as error:
        bound.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}; change {setting} or free it") from error
    return bound


def _keep_others_out(bound: socket.socket) -> None:
    """Of a socket that does not listen: with the option, another process could bind the port as well."""
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
