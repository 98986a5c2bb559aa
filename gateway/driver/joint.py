"""One question to a cluster for all who ask the same at the same time.

Each hears what was asked after it came: who creates a topic and then lists them all has to find it. So whoever comes
while a question is on its way waits for the next one, together with all others who come meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Joint(Generic[T]):
    def __init__(self) -> None:
        self._asked: dict[Hashable, asyncio.Task[T]] = {}
        """On its way."""
        self._next: dict[Hashable, asyncio.Task[T]] = {}
        """Not put yet."""

    async def ask(self, key: Hashable, put: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer to the question `key`, for which `put` asks. Whoever stops waiting stops nobody else."""
        if key not in self._next:
            self._next[key] = asyncio.create_task(self._put(key, put))
        return await asyncio.shield(self._next[key])

    async def _put(self, key: Hashable, put: Callable[[], Coroutine[Any, Any, T]]) -> T:
        before = self._asked.get(key)
        if before is not None:
            await asyncio.wait({before})
        own = self._asked[key] = self._next.pop(key)
        try:
            return await put()
        finally:
            if self._asked.get(key) is own:
                del self._asked[key]
