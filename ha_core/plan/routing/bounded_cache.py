"""Answers that are kept by names which come from the wire, so that each is found once: bounded, whatever comes.

Who asks has a table of his own, and there may be very many who ask. So the tables of all who ask are bounded together,
too: when they are full all are emptied, and what is still asked for is found again.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K")
V = TypeVar("V")

MAX_EACH = 10_000
MAX_ALL = 500_000
"""Some 200 MB of the longest names."""
MAX_NAME = 255
"""Longer than any topic's. Groups and transactional ids may be called by 32,767: of those nothing is kept."""


class BoundedCache(dict[K, V]):
    """The table of one who asks. It is read as any other."""

    __slots__ = ("__weakref__",)


class CacheBudget:
    """For all tables. They may be kept in from several threads: then there is room for a few more, or fewer."""

    def __init__(self, most: int = MAX_ALL, each: int = MAX_EACH) -> None:
        self._most, self._each = most, each
        self._tables: WeakValueDictionary[int, BoundedCache[Any, Any]] = WeakValueDictionary()
        self._count = 0
        """Of answers that were kept since they were counted. Some are gone by now."""

    def keep(self, table: BoundedCache[K, V], name: Sized, key: K, value: V) -> None:
        """:param name: the part of the key that somebody has made up."""
        if len(name) > MAX_NAME:
            return
        if len(table) >= self._each:
            table.clear()
        if self._count >= self._most:
            self._make_room()
        if not table:
            self._tables[id(table)] = table
        table[key] = value
        self._count += 1

    def _make_room(self) -> None:
        live = [table for kept in self._tables.valuerefs() if (table := kept()) is not None]
        self._count = sum(map(len, live))
        if self._count > self._most // 2:
            for table in live:
                table.clear()
            self._count = 0
