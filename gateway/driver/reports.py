"""What this gateway says of itself in the store: its revision, and the fences that are drained.

Invariant: a report of a revision is stored only when everything that clients were seen to use before it is stored too.
So whoever has waited for the report knows what this gateway knew (see `ha_core/operations/latecomers.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.driver.sightings import FLUSH_S, Sightings
from ha_core.model import GatewayRecord


class Reports:
    """Gives out the newest record; one that waits for sightings never replaces a newer one."""

    def __init__(self, sightings: Sightings, update: Callable[[GatewayRecord], None]) -> None:
        self._sightings = sightings
        self._update = update
        self._made = 0
        self._given = 0
        self._waiting: set[asyncio.Task[None]] = set()

    def report(self, record: GatewayRecord) -> None:
        self._made += 1
        if self._sightings.pending:
            task = asyncio.get_running_loop().create_task(self._later(record, self._made))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        else:
            self._give(record, self._made)

    def close(self) -> None:
        for task in self._waiting:
            task.cancel()

    async def _later(self, record: GatewayRecord, number: int) -> None:
        while not await self._sightings.flush():
            if number < self._made:
                return
            await asyncio.sleep(FLUSH_S)
        self._give(record, number)

    def _give(self, record: GatewayRecord, number: int) -> None:
        if number > self._given:
            self._given = number
            self._update(record)
