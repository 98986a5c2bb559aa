"""Clients that have not logged in yet are read one after the other, for a few milliseconds: the rest of the loop's work
goes on in between. What they send takes longer than what is passed on, and anybody may send it: read as it comes, what
comes from a thousand would be one turn of the loop, and those that are in would wait for its end.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

SLICE_S = 0.002
MAX_WAITING = 32


class Newcomers:
    """Used on one event loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Callable[[], None]] = deque()
        self._until = 0.0
        """Until when they are read in this turn of the loop."""
        self._scheduled = False

    @property
    def busy(self) -> bool:
        """Whether more are better left to the kernel, which keeps them in order: who has waited here is not to be given
        up for those that come later."""
        return len(self._waiting) >= MAX_WAITING

    def admits(self, go_on: Callable[[], None]) -> bool:
        """Whether it is the turn of whoever has sent something. If not, `go_on` is called when it is."""
        if not self._scheduled:
            self._begin_turn()
        if not self._waiting and time.monotonic() < self._until:
            return True
        self._waiting.append(go_on)
        return False

    def _begin_turn(self) -> None:
        self._until = time.monotonic() + SLICE_S
        self._scheduled = True
        self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._scheduled = False
        if self._waiting:
            self._begin_turn()
        while self._waiting:
            self._waiting.popleft()()
            if time.monotonic() >= self._until:
                return
