"""Client producer ids: blocks from the store, handed out one by one on the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

_log = logging.getLogger(__name__)

BLOCK = 1000
REFILL_BELOW = 300


class ProducerIds:
    """A block ahead of demand, so that no client waits for ZooKeeper."""

    def __init__(self, allocate: Callable[[int], int]) -> None:
        self._allocate = allocate
        self._blocks: list[range] = []
        self._refilling: asyncio.Task[None] | None = None

    def next(self) -> int | None:
        """The next id; None while none is at hand (the client is told to ask again)."""
        while self._blocks and not self._blocks[0]:
            self._blocks.pop(0)
        if sum(map(len, self._blocks)) < REFILL_BELOW:
            self.refill()
        if not self._blocks:
            return None
        first = self._blocks[0]
        self._blocks[0] = first[1:]
        return first[0]

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
        self._blocks.append(range(first, first + BLOCK))
