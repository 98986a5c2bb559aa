"""The ports that workers share, held by their parent, so that no other process can have them.

Whoever binds a port with SO_REUSEPORT shares it with all of the same user that do so, another gateway too, and nobody
is told. So the parent binds it alone, and lets others join only then: its workers may, and whoever comes to bind it
alone is refused. The parent's socket never listens, so the kernel gives it no connection.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable


class HeldPorts:
    def __init__(self, named: Iterable[tuple[str, str, int]]) -> None:
        """:param named: the setting that says it, for whoever has to change it; host and port.
        :raises OSError: one is taken; the text names it.
        """
        self._held: list[socket.socket] = []
        try:
            for setting, host, port in named:
                self._held.append(_hold(setting, host, port))
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        for held in self._held:
            held.close()


def _hold(setting: str, host: str, port: int) -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Connections of before a restart may still be there.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, port))
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
    except OSError as error:
        held.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}; change {setting} or free it") from error
    return held
