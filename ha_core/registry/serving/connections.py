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
MAX_WAITING = 100
"""Of those without a whole request: above that the oldest goes, so that who comes with a request finds a place."""
REQUEST_S = 10.0
ANSWER_S = 60.0
SAY_EVERY_S = 10.0
_LOG = logging.getLogger(__name__)


class PromptProtocol(H11Protocol):
    """HTTP/1.1 of which headers are bounded, too: 64 kB of a request, by h11."""

    _timer: asyncio.TimerHandle | None = None
    _waits = True
    """For a whole request."""
    _began_s = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._began_s = self.loop.time()
        self._within(REQUEST_S)
        waiting = [one for one in self.connections if isinstance(one, PromptProtocol) and one._waits]
        if len(waiting) > MAX_WAITING:
            min(waiting, key=lambda one: one._began_s)._end("had to make room for another one")

    def data_received(self, data: bytes) -> None:
        if self._timer is None:
            self._waits, self._began_s = True, self.loop.time()
            self._within(REQUEST_S)
        super().data_received(data)
        if self._waits and self.cycle is not None and not self.cycle.more_body:
            self._waits = False
            self._within(ANSWER_S)

    def on_response_complete(self) -> None:
        self._rest()
        answered = self.cycle
        super().on_response_complete()
        if self.cycle is not answered:  # The next one was there already.
            self._within(ANSWER_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def _within(self, seconds: float) -> None:
        self._rest()
        self._timer = self.loop.call_later(seconds, self._end, f"took more than {seconds:.0f} s")

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self, why: str) -> None:
        self._rest()
        self._waits = False
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
