"""A listener of a gateway that speaks TLS, and clients of it: real sockets, in tests written as one scenario."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gateway.model.counts import Counts
from gateway.process.sockets.handshakes import Arrived, Handshakes
from gateway.runtime import clock
from gateway.runtime.log_rate_limiter import LogRateLimiter
from gateway.runtime.tls_server import tls_server
from gateway.session.certificate import parse_rule
from gateway.session.snapshot import Port
from ha_core.tls.contexts import Certificates
from ha_core.wire.tls_files import TlsFiles
from stack.certificates import Authority

HOST = "127.0.0.1"
RULE = r"RULE:CN=([^,\\]+),O=Apps/$1/"


class TlsPort:
    """
    :ivar came: clients whose handshake is over.
    """

    def __init__(
        self,
        folder: Path,
        certificates: Certificates = Certificates.NONE,
        rules: tuple[str, ...] = (RULE,),
        limit: int = 100,
        patience_s: float = 30.0,
    ) -> None:
        self.authority = Authority(folder / "authority")
        self.own = self.authority.issue("gateway", [HOST], file="own")
        files = TlsFiles(str(self.authority.file), str(self.own.certificate), str(self.own.key))
        server = tls_server(files, certificates, tuple(map(parse_rule, rules)))
        self.counts, self.came = Counts(), list[Arrived]()
        self.loop = asyncio.get_running_loop()
        self.handshakes = Handshakes(
            self.loop, server, limit, patience_s, self.counts, LogRateLimiter(), self.came.append
        )
        self._listener = socket.create_server((HOST, 0), backlog=1024)
        self.address = self._listener.getsockname()

    def connect(self) -> socket.socket:
        """A client of which nothing was read yet."""
        theirs = socket.create_connection(self.address)
        theirs.settimeout(60)
        ours, address = self._listener.accept()
        ours.setblocking(False)
        self.handshakes.start(Arrived(ours, Port(), address[0]))
        return theirs

    def trusting(self, **more: Any) -> ssl.SSLContext:
        """A client's context, that of another implementation: Python's own."""
        context = ssl.create_default_context(cafile=str(self.authority.file))
        for key, value in more.items():
            setattr(context, key, value)
        return context

    async def shake(self, context: ssl.SSLContext, host: str = HOST) -> ssl.SSLSocket:
        """The result of a client's handshake, in a thread. OSError: it failed on the client's side."""
        sock = self.connect()
        try:
            return await asyncio.to_thread(context.wrap_socket, sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise

    async def until(self, true: Callable[[], Any], seconds: float = 60.0) -> None:
        until = clock.now() + seconds
        while not true():
            assert clock.now() < until
            await asyncio.sleep(0.005)

    def close(self) -> None:
        self.handshakes.close()
        self._listener.close()
        for client in self.came:
            client.sock.close()


@contextmanager
def tls_port(folder: Path, **more: Any) -> Iterator[TlsPort]:
    port = TlsPort(folder, **more)
    try:
        yield port
    finally:
        port.close()
