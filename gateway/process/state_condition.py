"""Waits on the event loop until the state in force fulfils a condition."""

import asyncio
from collections.abc import Callable
from contextlib import suppress


class StateCondition:
    def __init__(self) -> None:
        self._next = asyncio.Event()

    def another(self) -> None:
        """Call this when a new state is in force."""
        self._next.set()
        self._next = asyncio.Event()

    async def until(self, holds: Callable[[], bool], max_s: float) -> None:
        """Waits until `holds` is true, at most `max_s` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max_s):
                while not holds():
                    await self._next.wait()
