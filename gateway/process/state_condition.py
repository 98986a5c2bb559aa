"""Waits on the event loop until the state that is in force is as somebody wants it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress


class StateCondition:
    def __init__(self) -> None:
        self._next = asyncio.Event()

    def another(self) -> None:
        """Is in force from now on."""
        self._next.set()
        self._next = asyncio.Event()

    async def until(self, holds: Callable[[], bool], most_s: float) -> None:
        """Until it holds, or it has taken too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                while not holds():
                    await self._next.wait()
