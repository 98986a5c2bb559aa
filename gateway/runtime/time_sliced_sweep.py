"""Goes round all connections, or whatever there is many of, a few milliseconds at a time: the loop runs in between.

Nothing waits for this to decide rightly: a connection that is called for anything follows the newest snapshot first
(`Connection`). What comes here is what somebody has been waiting for without a word: answers that a snapshot sets free,
the look at what each still has in flight for a fence, a lease that is back, news of topics that nobody writes to.
"""

from __future__ import annotations

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
        """Whether everybody was visited."""
        return not self._rest

    def begin(self, everyone: Collection[C]) -> None:
        """Everybody is visited, from now on; those who have waited for longer first."""
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
