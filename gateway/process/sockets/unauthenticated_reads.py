"""Limits reading from clients that have not logged in to a few milliseconds in each turn of the loop.

Their requests take longer than forwarded ones, and anyone may send them: read as they arrive, requests of a thousand
clients would be one turn of the loop, and clients that are logged in would wait for its end.

The kernel reports clients that were not read again in the next turn, in their order, so none is starved.
"""

from __future__ import annotations

import asyncio
import time

SLICE_S = 0.002
MAX_LEFT = 32


class UnauthenticatedReads:
    """Used on one event loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.slice_s = SLICE_S
        self._until: float | None = None
        """When this turn's time is over; None: no client was read in it."""
        self._left = self._left_before = 0
        """Clients not read in this turn, and in the one before it."""
        self._looking = False

    @property
    def busy(self) -> bool:
        """Whether to accept no more: clients stay in the kernel's queue, in order, lest those that wait here are ended
        to make room for later ones."""
        return self._left_before >= MAX_LEFT

    def may_be_read(self) -> bool:
        """To be called by each client with input, in each turn until it returns true."""
        if not self._looking:
            self._looking = True
            self._loop.call_soon(self._next_turn)
        now = time.monotonic()
        if self._until is None:
            self._until = now + self.slice_s
        elif now >= self._until:
            self._left += 1
            return False
        return True

    def _next_turn(self) -> None:
        self._until = None
        self._left_before, self._left = self._left, 0
        self._looking = self._left_before > 0
        if self._looking:
            self._loop.call_soon(self._next_turn)
