"""Answers of the platform: stored entries, and pages of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ha_core.platform.entry import Entry, kind_of


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One version of one entry, with author, time and reason.

    :ivar version: of this key, from 1. Deletions count, too, and a new entry with the key continues.
    :ivar changed_us: microseconds since the epoch, later than all changes before it.
    :ivar entry: None: it was deleted.
    """

    kind: str
    key: str
    version: int
    changed_us: int
    by: str
    reason: str
    entry: Entry | None

    def to_json(self) -> dict[str, Any]:
        """The document that people see, without hidden fields."""
        return {
            "kind": self.kind,
            "key": self.key,
            "version": self.version,
            "changed": datetime.fromtimestamp(self.changed_us / 1e6, UTC).isoformat(timespec="milliseconds"),
            "changed_us": self.changed_us,
            "by": self.by,
            "reason": self.reason,
            "value": None if self.entry is None else dict(self.entry.summary()),
        }


@dataclass(frozen=True, slots=True)
class EntryPage:
    """:ivar after: the next page starts after this; None: this is the last page."""

    stored: tuple[StoredEntry, ...]
    after: str | None

    def to_json(self) -> dict[str, Any]:
        return {"items": [entry.to_json() for entry in self.stored], "after": self.after}


def stored_of(row: Mapping[str, Any]) -> StoredEntry:
    """From a row of `changes`."""
    value = row["value"]
    entry = None if value is None else kind_of(row["kind"]).model_validate(json.loads(value))
    return StoredEntry(row["kind"], row["key"], row["version"], row["changed_us"], row["by"], row["reason"], entry)
