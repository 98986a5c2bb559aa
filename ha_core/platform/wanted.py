"""Entries as a caller wants them, in the JSON of REST: fields that are left out stay as they are.

Entries that are so already change nothing, so every request may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ha_core.platform.changing import Edit, keeping_hidden, put
from ha_core.platform.entry import Entry
from ha_core.platform.errors import BusyError, NotThereError, StaleVersionError
from ha_core.platform.reading import EntryReader

TRIES = 5
"""Attempts, as other writers may change the same entries."""
T = TypeVar("T")


@dataclass(frozen=True)
class WantedEntry:
    """
    :ivar value: fields of the entry, at least those of its key.
    :ivar gone: it shall not exist.
    :ivar only_new: fields for an entry that does not exist yet.
    """

    kind: type[Entry]
    value: Mapping[str, Any]
    gone: bool = False
    only_new: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def key(self) -> str:
        """:raises InvalidError: the value names no entry."""
        return self.kind.key_in(self.value)

    def contradicts(self, other: WantedEntry) -> bool:
        """:param other: wants something of the same entry."""
        return self.gone != other.gone or (not self.gone and self._beside_key() != other._beside_key())

    def edit(self, read: EntryReader) -> Edit | None:
        """None: it is so already.

        :raises InvalidError: the entry would be invalid.
        """
        key = self.key
        stored_entry = read.find(self.kind.KIND, key)
        before = None if stored_entry is None else stored_entry.entry
        version = None if stored_entry is None else stored_entry.version
        whole = {**self.only_new, **self.value} if before is None else before.fields() | dict(self.value)
        if self.gone or (self._beside_key() and self.kind.is_none(whole)):
            return None if before is None else Edit(self.kind.KIND, key, None, version)
        after = self.kind.read(whole)
        return None if before is not None and keeping_hidden(before, after) == before else put(after, version)

    def _beside_key(self) -> dict[str, Any]:
        return {name: value for name, value in self.value.items() if name not in self.kind.KEY}


def without_races(attempt: Callable[[], T]) -> T:
    """The result of the first attempt in which no other writer changes the same entries.

    :raises BusyError: others do in each.
    """
    for _ in range(TRIES):
        try:
            return attempt()
        except (StaleVersionError, NotThereError):
            continue
    raise BusyError("others keep changing the same entries: try again")
