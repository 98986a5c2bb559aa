"""When Python may search all objects for reference cycles: hardly ever, since the event loop stands still for it.

What a gateway holds is old: maps, topologies, ten thousand connections. To search all of it takes up to a second, and
each list of fifty thousand topics made that due. A closed connection leaves no cycle, so only young objects are
searched. Should anything leave cycles after all, memory grows: then everything is, and the log says what was found.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
from pathlib import Path
from typing import NamedTuple

from gateway.runtime import clock

_log = logging.getLogger(__name__)

NEVER = 1 << 30
"""Searches among the young ones before one among all."""
LOOK_EVERY_S = 60.0
MIN_PAUSE_S = 3600.0
GROWTH = 1.5


def spare_the_old() -> None:
    """Objects that have outlived two searches are not gone through again."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)


class SearchDue(NamedTuple):
    """Whether everything is to be searched: memory has grown by half since the last time."""

    resident_bytes: int
    at: float

    def due(self, resident_bytes: int, now: float) -> bool:
        return now - self.at >= MIN_PAUSE_S and resident_bytes >= GROWTH * self.resident_bytes


async def keep() -> None:
    """Searches everything now, and later where it is needed; for ever."""
    gc.collect()
    need = SearchDue(_resident_bytes(), clock.now())
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        grown, began = _resident_bytes(), clock.now()
        if need.due(grown, began):
            found = gc.collect()
            took_ms = (clock.now() - began) * 1000
            _log.info("%d MiB are in use: a search for cycles freed %d objects in %.0f ms", grown >> 20, found, took_ms)
            need = SearchDue(_resident_bytes(), clock.now())


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()
