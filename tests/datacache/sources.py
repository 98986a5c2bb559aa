"""A source that remembers its whole history, and returns as much of it as a test wants."""

from bisect import bisect_right
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from ha_core.datacache.core import digest
from ha_core.datacache.core.packed import record_of
from ha_core.datacache.core.source import Changes, Row
from ha_core.datacache.core.uncommitted import Content

_TIME = attrgetter("changed_us")


def damage(content: Content, key: str) -> None:
    """Changes a value in memory, bypassing the immutable interface."""
    content.rows.records = content.rows.records.changed({key: record_of(Row(key, 1, {"is": "damaged"}))})


class History:
    """
    :ivar versions: all that were ever made, to compute the right content.
    :ivar down: why it cannot be read; empty: it can.
    :ivar keeps_all: False: only the newest version of each key is kept, as where rows are replaced in place.
    :ivar asked: how often it was read.
    """

    def __init__(self, keeps_all: bool = True) -> None:
        self.versions: list[Row] = []
        self.down = ""
        self.keeps_all = keeps_all
        self.asked = 0
        self._kept: list[Row] = []
        self._exact_from_us = self._deletions_from_us = 0
        self.last_us = 0

    def change(self, key: str, value: Any, at_us: int = 0) -> int:
        """:param at_us: by the source's clock, which may stand still or go back."""
        self.last_us = max(at_us, self.last_us + 1)
        row = Row(key, self.last_us, None if value is None else {"is": value})
        self.versions.append(row)
        self._kept.append(row)
        if not self.keeps_all:
            self.prune(self.last_us)
        return self.last_us

    def prune(self, at_us: int) -> None:
        """Forget versions that were replaced at or before that time."""
        newest = {row.key: row for row in self._kept if row.changed_us <= at_us}
        self._kept = [row for row in self._kept if row.changed_us > at_us or newest[row.key] is row]
        self._exact_from_us = max(self._exact_from_us, at_us)

    def forget_deletions(self, at_us: int) -> None:
        """Forget deletions that were made at or before that time."""
        self.prune(at_us)
        self._kept = [row for row in self._kept if row.changed_us > at_us or row.value is not None]
        self._deletions_from_us = max(self._deletions_from_us, at_us)

    def restore(self, at_us: int) -> None:
        """As from a backup of that time: later changes are lost, and times go on above them."""
        self.versions = [row for row in self.versions if row.changed_us <= at_us]
        self._kept = list(self.versions)
        self._exact_from_us = self._deletions_from_us = 0
        if not self.keeps_all:
            self.prune(at_us)

    @property
    def newest_us(self) -> int:
        return self.versions[-1].changed_us if self.versions else 0

    def content(self, at_us: int) -> dict[str, Any]:
        """The right content at a time: key → value."""
        found: dict[str, Any] = {}
        for row in self.versions[: bisect_right(self.versions, at_us, key=_TIME)]:
            found[row.key] = row.value
        return {key: value for key, value in found.items() if value is not None}

    def changes(self, after_us: int, limit: int) -> Changes:
        self.asked += 1
        if self.down:
            raise ConnectionError(self.down)
        rows = self._kept[bisect_right(self._kept, after_us, key=_TIME) :][:limit]
        through_us = rows[-1].changed_us if len(rows) == limit else self.newest_us
        return Changes(tuple(rows), through_us, self._exact_from_us, self._deletions_from_us)

    def digest(self, through_us: int) -> str | None:
        if self.down:
            raise ConnectionError(self.down)
        if through_us > self.newest_us:
            return None
        newest = {row.key: row for row in self.versions if row.changed_us <= through_us}
        return digest.of_rows(row for row in newest.values() if row.value is not None)


def values(rows: Mapping[str, Row]) -> dict[str, Any]:
    """Key → value."""
    return {key: row.value for key, row in rows.items()}
