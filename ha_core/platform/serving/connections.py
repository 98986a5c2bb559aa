"""Connections that keep nobody else out: each has so long for a request, and for taking its answer.

The server itself bounds how many there are, and how long one may be idle between two requests. Without this, who only
connects, or sends a request a byte at a time, would stay for ever, and a few hundred of those would keep all gateways
from reading: before anybody is asked for a token.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 200
MAX_AT_REST = 150
"""Of those without a whole request, idle ones too: above that the one that has been so for longest goes, so that
whoever comes with a request finds a place."""
REQUEST_S = 10.0
ANSWER_S = 60.0
SAY_EVERY_S = 10.0
_LOG = logging.getLogger(__name__)


class PromptProtocol(H11Protocol):
    """HTTP/1.1 of which headers are bounded, too: 64 kB of a request, by h11."""

    _timer: asyncio.TimerHandle | None = None
    _at_rest = True
    """No whole request is worked on."""
    _since_s = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since_s = self.loop.time()
        self._within(REQUEST_S)
        at_rest = [one for one in self.connections if isinstance(one, PromptProtocol) and one._at_rest]
        if len(at_rest) > MAX_AT_REST:
            min(at_rest, key=lambda one: one._since_s)._end("had to make room for another one")

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
        if self.cycle is not answered:  # The next one was there already, or a part of it.
            self._at_rest = self.cycle.more_body
            self._within(REQUEST_S if self._at_rest else ANSWER_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _has_whole(self, before: object) -> bool:
        """A request that is not answered yet."""
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
        self.connections.discard(self)  # At once: it counts for the bound of the server.
        _ENDED.tell(self.loop.time(), self.client[0] if self.client else "?", why)
        self.transport.abort()


class _Ended:
    """Says so once for many."""

    def __init__(self) -> None:
        self._said_s = float("-inf")
        self._left_out = 0

    def tell(self, now_s: float, address: str, why: str) -> None:
        if now_s - self._said_s < SAY_EVERY_S:
            self._left_out += 1
            return
        more = f" ({self._left_out} others since the last line)" if self._left_out else ""
        _LOG.warning("a connection of %s was ended: its request or answer %s%s", address, why, more)
        self._said_s, self._left_out = now_s, 0


_ENDED = _Ended()
