"""Connections with deadlines: each has a limited time for its request, and for taking the answer.

uvicorn bounds their number (`limit_concurrency`), their headers, and their idle time after an answer
(`timeout_keep_alive`). It gives a connection any time for its first request, and for taking an answer, and it asks for
a token after reading a request only. So 200 clients that only connect, or send a byte at a time, would lock out all
gateways for good. A proxy in front of the service could do this instead, but a service without one has to be safe too.
"""

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 200
MAX_AT_REST = 150
"""Limit of connections without a complete request, idle ones included: above it the one that has waited longest is
closed, so that new requests find a place."""
REQUEST_S = 10.0
ANSWER_S = 60.0
SAY_EVERY_S = 10.0
_LOG = logging.getLogger(__name__)


class PromptProtocol(H11Protocol):
    """HTTP/1.1 with bounded headers: 64 kB per request, by h11."""

    _timer: asyncio.TimerHandle | None = None
    _at_rest = True
    """No complete request is being worked on."""
    _since_s = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since_s = self.loop.time()
        self._within(REQUEST_S)
        at_rest = [
            connection
            for connection in self.connections
            if isinstance(connection, PromptProtocol) and connection._at_rest
        ]
        if len(at_rest) > MAX_AT_REST:
            min(at_rest, key=lambda one: one._since_s)._end("had to make room for a new one")

    def data_received(self, data: bytes) -> None:
        if self._timer is None:
            self._within(REQUEST_S)
        before = self.cycle
        super().data_received(data)
        if self._at_rest and self._has_whole(before):
            self._at_rest = False
            self._within(ANSWER_S)

    def on_response_complete(self) -> None:
        self._stop()
        self._at_rest, self._since_s = True, self.loop.time()
        answered = self.cycle
        super().on_response_complete()
        if self.cycle is not answered:  # The next request has already arrived, at least in part.
            self._at_rest = self.cycle.more_body
            self._within(REQUEST_S if self._at_rest else ANSWER_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _has_whole(self, before: object) -> bool:
        """Whether there is a complete request without an answer."""
        cycle = self.cycle
        return cycle is not None and not cycle.more_body and (cycle is not before or not cycle.response_complete)

    def _within(self, seconds: float) -> None:
        self._stop()
        self._timer = self.loop.call_later(seconds, self._end, f"took more than {seconds:.0f} s")

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, why: str) -> None:
        self._stop()
        self._at_rest = False
        self.connections.discard(self)  # At once: it counts toward the server's limit.
        _ENDED.log_closed(self.loop.time(), self.client[0] if self.client else "?", why)
        self.transport.abort()


class _Ended:
    """Logs one line for many closed connections."""

    def __init__(self) -> None:
        self._said_s = float("-inf")
        self._left_out = 0

    def log_closed(self, now_s: float, address: str, why: str) -> None:
        if now_s - self._said_s < SAY_EVERY_S:
            self._left_out += 1
            return
        more = f" ({self._left_out} others since the last line)" if self._left_out else ""
        _LOG.warning("a connection of %s was closed: its request or answer %s%s", address, why, more)
        self._said_s, self._left_out = now_s, 0


_ENDED = _Ended()
