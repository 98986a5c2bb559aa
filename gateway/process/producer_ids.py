"""Client producer ids: blocks from the store, handed out one by one on the event loop."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

_log = logging.getLogger(__name__)

BLOCK = 1000
REFILL_BELOW = 300


class ProducerIds:
    """Fetches blocks ahead of demand, so that no client waits for ZooKeeper."""

    def __init__(self, allocate: Callable[[int], int]) -> None:
        self._allocate = allocate
        self._ids: deque[int] = deque()
        self._refilling: asyncio.Task[None] | None = None

    def next(self) -> int | None:
        """The next id; None: none is left, and the client has to retry."""
        if len(self._ids) < REFILL_BELOW:
            self.refill()
        return self._ids.popleft() if self._ids else None

    def refill(self) -> None:
        """Fetches a block in the background, one at a time."""
        if self._refilling is None or self._refilling.done():
            self._refilling = asyncio.get_running_loop().create_task(self._refill())

    async def _refill(self) -> None:
        try:
            first = await asyncio.to_thread(self._allocate, BLOCK)
        except Exception as error:
            _log.warning("no producer ids: %s", error)
            return
        self._ids.extend(range(first, first + BLOCK))
