"""Caches keyed by names from the wire, bounded for any input.

Each user and address has its own table, and there may be very many. So all tables together are bounded as well: when
they are full, all are emptied, and entries still in use are computed again.
"""

from collections.abc import Sized
from typing import Any, TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K")
V = TypeVar("V")

MAX_EACH = 10_000
MAX_ALL = 500_000
"""Some 200 MB with the longest names."""
MAX_NAME = 255
"""Longer than any topic's. Groups and transactional ids may have up to 32,767 characters; such ones are not cached."""


class BoundedCache(dict[K, V]):
    """One table, read like any dict."""

    __slots__ = ("__weakref__",)


class CacheBudget:
    """Bound on all tables. With several threads, the number of entries may exceed it, or miss it, by a few."""

    def __init__(self, max_entries: int = MAX_ALL, each: int = MAX_EACH) -> None:
        self._most, self._each = max_entries, each
        self._tables: WeakValueDictionary[int, BoundedCache[Any, Any]] = WeakValueDictionary()
        self._count = 0
        """Entries at the last count, plus those added since. Some may be gone by now."""

    def keep(self, table: BoundedCache[K, V], name: Sized, key: K, value: V) -> None:
        """:param name: the part of the key that a client chose."""
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
        tables = [table for kept in self._tables.valuerefs() if (table := kept()) is not None]
        self._count = sum(map(len, tables))
        if self._count > self._most // 2:
            for table in tables:
                table.clear()
            self._count = 0
