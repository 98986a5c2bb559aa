"""Health and metrics over HTTP, in a thread of its own: it answers even while the event loop is busy.

`/healthz`: the process lives; masked or dead clusters do not matter, restarting would not heal them.
`/readyz`: clients may be sent here, or 503 with the reasons why not.
`/metrics`: for Prometheus.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ha_core.metrics.text import CONTENT_TYPE

_JSON = "application/json"
_MAX_CALLERS = 32
_IDLE_S = 5.0


class HttpServer:
    """`start` binds and serves, `stop` ends both. `render` gives the metrics, `unready` why clients should not come."""

    def __init__(
        self, host: str, port: int, render: Callable[[], bytes], unready: Callable[[], Sequence[str]], setting: str
    ) -> None:
        """:param setting: that says the port, for whoever has to change it."""
        self._address, self._setting = (host, port), setting
        self._handler = _handler(render, unready)
        self._server: _Server | None = None

    def start(self) -> int:
        """Returns the port that it listens on.

        :raises OSError: the port cannot be bound; the text names it.
        """
        try:
            server = self._server = _Server(self._address, self._handler)
        except OSError as error:
            host, port = self._address
            words = f"http {host}:{port}: {error.strerror}; change {self._setting} or free it"
            raise OSError(error.errno, words) from error
        threading.Thread(target=server.serve_forever, args=(0.1,), name="http", daemon=True).start()
        return int(server.server_address[1])

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._callers: dict[socket.socket, None] = {}
        """In the order in which they came."""
        self._changing = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        # Each caller is a thread: one that opens connections and says nothing, or a letter now and then, must neither
        # fill the process with them nor keep out the probe by whose answer the process lives. The oldest has had most
        # time.
        with self._changing:
            self._callers[request] = None
            if len(self._callers) > _MAX_CALLERS:
                oldest = next(iter(self._callers))
                del self._callers[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._changing:
                self._callers.pop(request, None)

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that hangs up is no event."""


def _handler(render: Callable[[], bytes], unready: Callable[[], Sequence[str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _IDLE_S
        server_version = "switchyard"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/healthz":
                self._send(200, _JSON, b'{"alive": true}\n')
            elif path == "/readyz":
                reasons = list(unready())
                body = json.dumps({"ready": not reasons, "reasons": reasons}) + "\n"
                self._send(503 if reasons else 200, _JSON, body.encode())
            elif path == "/metrics":
                self._send(200, CONTENT_TYPE, render())
            else:
                self._send(404, _JSON, b'{"error": "there are /healthz, /readyz and /metrics"}\n')

        do_HEAD = do_GET  # noqa: N815 - the name is the standard library's

        def _send(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the standard library's name
            """Probes come every second: they are not worth a line."""

    return Handler
