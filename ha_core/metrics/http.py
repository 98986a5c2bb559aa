"""Health, metrics and other pages over HTTP, in a thread of its own: it answers even while the event loop is busy.

`/healthz`: the process lives; masked or dead clusters do not matter, restarting would not heal them.
`/readyz`: clients may be sent here, or 503 with the reasons why not.
`/metrics`: for Prometheus.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from errno import EINVAL
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from prometheus_client import disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_JSON = "application/json"
_MAX_FIELDS = 20
_MAX_CALLERS = 32
_IDLE_S = 5.0


class Asked(NamedTuple):
    """
    :ivar fields: of the query.
    :ivar token: that the caller has shown (`Authorization: Bearer …`); "": none.
    :ivar host: the host in the header `Host`, without the port; "": there is no such header.
    """

    fields: Mapping[str, str]
    token: str
    host: str = ""


JsonPage = Callable[[Asked], tuple[int, object]]
"""Request → status and body. It is called in a thread of the caller's."""


class HttpServer:
    """`start` binds and serves, `stop` ends both. `render` makes the metrics, `unready` the reasons against clients."""

    def __init__(
        self,
        host: str,
        port: int,
        render: Callable[[], bytes],
        unready: Callable[[], Sequence[str]],
        setting: str,
        pages: Mapping[str, JsonPage] = {},
    ) -> None:
        """:param setting: the port's setting, for error texts.
        :param pages: further pages, by path.
        """
        self._address, self._setting = (host, port), setting
        self._handler = _handler(render, unready, pages)
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
        except OverflowError:
            host, port = self._address
            raise OSError(EINVAL, f"http {host}:{port}: ports are 0 to 65535; change {self._setting}") from None
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
        """In order of arrival."""
        self._changing = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        # Each caller is a thread: callers that open connections and send little or nothing must neither fill the
        # process with threads nor keep out the liveness probe. The oldest is closed first: it has had most time.
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
        """A caller that hangs up is not worth a line."""


def _handler(
    render: Callable[[], bytes], unready: Callable[[], Sequence[str]], pages: Mapping[str, JsonPage]
) -> type[BaseHTTPRequestHandler]:
    known = ", ".join(("/healthz", "/readyz", "/metrics", *pages))
    one_at_a_time = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        timeout = _IDLE_S
        server_version = "switchyard"
        sys_version = ""

        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path == "/healthz":
                self._send(200, _JSON, b'{"alive": true}\n')
            elif path == "/readyz":
                reasons = list(unready())
                self._send(503 if reasons else 200, _JSON, _json({"ready": not reasons, "reasons": reasons}))
            elif path == "/metrics":
                # Any host may scrape, and rendering takes CPU from serving clients: many scrapes at once would take all
                # of it.
                with one_at_a_time:
                    body = render()
                self._send(200, CONTENT_TYPE, body)
            elif path in pages:
                self._send_page(pages[path], query)
            else:
                self._send(404, _JSON, _json({"error": f"there are {known}"}))

        do_HEAD = do_GET  # noqa: N815 - the name is the standard library's

        def _send_page(self, page: JsonPage, query: str) -> None:
            scheme, _, token = self.headers.get("Authorization", "").partition(" ")
            try:
                host = urlsplit(f"//{self.headers.get('Host', '')}").hostname or ""
            except ValueError:
                self._send(400, _JSON, _json({"error": "the header Host names no host"}))
                return
            try:
                fields = dict(parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_FIELDS))
            except ValueError:
                self._send(400, _JSON, _json({"error": f"more than {_MAX_FIELDS} fields in the query"}))
                return
            shown = token.strip() if scheme.lower() == "bearer" else ""
            status, body = page(Asked(fields, shown, host))
            self._send(status, _JSON, _json(body))

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


def _json(body: object) -> bytes:
    return (json.dumps(body) + "\n").encode()


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Samples = float | Mapping[Any, float]
"""By label, or by the tuple of all labels where there are several."""

disable_created_metrics()  # type: ignore[no-untyped-call]


class _Joined(NamedTuple):
    collectors: Sequence[Collector]

    def collect(self) -> Iterable[Metric]:
        return (metric for collector in self.collectors for metric in collector.collect())


def render(*collectors: Collector) -> bytes:
    return generate_latest(_Joined(collectors))


class Families:
    """Metrics of one part of Switchyard, whose names begin alike."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def gauge(self, name: str, text: str, samples: Samples, *labels: str) -> Metric:
        return _filled(GaugeMetricFamily(self._prefix + name, text, labels=labels), samples)

    def counter(self, name: str, text: str, samples: Samples, *labels: str) -> Metric:
        return _filled(CounterMetricFamily(self._prefix + name, text, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for labels, value in samples.items() if isinstance(samples, Mapping) else [((), samples)]:
        family.add_metric([labels] if isinstance(labels, str) else labels, value)
    return family
