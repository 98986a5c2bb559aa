"""Composed requests that are worked on, and what becomes of them when nobody waits for them any more.

A client that asks much and leaves must not leave the work behind: what only reads ends with its connection. What has an
effect is carried to its end, or some of the topics of a request would be deleted and others not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

C = TypeVar("C")


class Errands(Generic[C]):
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends_with: dict[C, set[asyncio.Task[None]]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, connection: C, work: Coroutine[Any, Any, None], completes: bool) -> None:
        """:param completes: whether it goes on when the connection has gone."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        if not completes:
            self._ends_with.setdefault(connection, set()).add(task)
        task.add_done_callback(lambda done: self._done(connection, done))

    def gone(self, connection: C) -> None:
        for task in self._ends_with.pop(connection, ()):
            task.cancel()

    async def close(self) -> None:
        """Ends all that is left."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, connection: C, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        mine = self._ends_with.get(connection)
        if mine is not None:
            mine.discard(task)
            if not mine:
                del self._ends_with[connection]
