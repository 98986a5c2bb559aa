"""Keeps Python's cyclic garbage collector away from old objects, since a full collection stops the event loop.

Most objects of a gateway are old: maps, topologies, ten thousand connections. A full collection takes up to a second,
and each list of fifty thousand topics triggered one. A closed connection leaves no cycle, so only young objects are
collected. If cycles do build up, memory grows: that triggers a full collection, and a log line with its result.
"""

import asyncio
import gc
import logging
import resource
from pathlib import Path
from typing import NamedTuple

from gateway.runtime import clock

_log = logging.getLogger(__name__)

NEVER = 1 << 30
"""Collections of young objects before a full one."""
LOOK_EVERY_S = 60.0
MIN_PAUSE_S = 3600.0
GROWTH = 1.5


def exempt_old_objects() -> None:
    """Exempts objects that have survived two collections from further ones."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)


class SearchDue(NamedTuple):
    """Whether a full collection is due: memory has grown by half since the last one."""

    resident_bytes: int
    at: float

    def due(self, resident_bytes: int, now: float) -> bool:
        return now - self.at >= MIN_PAUSE_S and resident_bytes >= GROWTH * self.resident_bytes


async def keep() -> None:
    """Collects everything now, and later when due; never returns."""
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
