"""Clients that have not logged in yet are read for a few milliseconds in each turn of the loop: its other work goes on
in between. What they send takes longer than what is passed on, and anybody may send it: read as it comes, what comes
from a thousand would be one turn of the loop, and those that are in would wait for its end.

Whoever is not read is told of by the kernel again in the next turn, and in the same order: so nobody is passed over.
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
        """When this turn's time is over; None: nobody was read in it."""
        self._left = self._left_before = 0
        """Not read in this turn, and in the one before it."""
        self._looking = False

    @property
    def busy(self) -> bool:
        """Whether more are better left to the kernel, which keeps them in order: who has waited here is not to be given
        up for those that come later."""
        return self._left_before >= MAX_LEFT

    def may_be_read(self) -> bool:
        """To be asked by each who has sent something, in each turn until he may."""
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
