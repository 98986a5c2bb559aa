"""Visits all connections, or other large sets, a few milliseconds at a time: the loop runs in between.

Correct decisions do not depend on it: a connection follows the newest snapshot before every event (`Connection`). The
sweep serves connections without events: answers that a snapshot releases, checks of requests in flight at a fence, a
lease that is back, changes of topics without producers.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

SLICE_S = 0.002

C = TypeVar("C")


class TimeSlicedSweep(Generic[C]):
    def __init__(self, loop: asyncio.AbstractEventLoop, visit: Callable[[C], None]) -> None:
        self._loop, self._visit = loop, visit
        self._rest: deque[C] = deque()
        self._scheduled = False

    @property
    def done(self) -> bool:
        """Whether all were visited."""
        return not self._rest

    def visit_all(self, everyone: Collection[C]) -> None:
        """Visits all from now on; those that have waited longest first."""
        if self._rest:
            before = set(self._rest)
            self._rest.extend(one for one in everyone if one not in before)
        else:
            self._rest.extend(everyone)
        if not self._scheduled:
            self._slice()

    def _slice(self) -> None:
        self._scheduled = False
        rest, until = self._rest, time.monotonic() + SLICE_S
        while rest:
            self._visit(rest.popleft())
            if rest and time.monotonic() >= until:
                self._scheduled = True
                self._loop.call_soon(self._slice)
                return
