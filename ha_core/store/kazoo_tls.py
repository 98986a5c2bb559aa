"""TLS for kazoo: with this project's contexts, which verify names and follow their files."""

from __future__ import annotations

import socket
import ssl
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from ha_core.tls.clients import context_of
from ha_core.wire.tls_files import TlsFiles


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo is not typed
    """Opens connections over TLS, and reports decrypted bytes that a selector cannot see."""

    def __init__(self, files: TlsFiles) -> None:
        super().__init__()
        self._files = files

    def create_connection(self, address: Any, hostname: str | None = None, timeout: Any = None, **_: Any) -> Any:
        """kazoo resolves names first, so `address` is numeric; `hostname` is the configured name."""
        sock = socket.create_connection(address, timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context_of(self._files, as_plain=False).wrap_socket(sock, server_hostname=hostname or address[0])
        except ValueError as error:
            sock.close()
            raise OSError(f"{hostname!r} cannot be verified by TLS: {error}") from None
        except BaseException:
            sock.close()
            raise

    def select(self, reading: Any, writing: Any, broken: Any, timeout: Any = None) -> Any:
        held = [one for one in reading if isinstance(one, ssl.SSLSocket) and one.pending()]
        if not held:
            return super().select(reading, writing, broken, timeout)
        ready, taking, bad = super().select(reading, writing, broken, 0)
        return [*held, *(one for one in ready if one not in held)], taking, bad
