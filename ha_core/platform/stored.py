"""Answers of the platform: stored entries, and pages of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ha_core.model.change_seal import SealedChange, shown_time
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

    def row(self) -> dict[str, Any]:
        """A row of `changes`, without its seal."""
        return {
            "kind": self.kind,
            "key": self.key,
            "version": self.version,
            "changed_us": self.changed_us,
            "by": self.by,
            "reason": self.reason,
            "value": None if self.entry is None else self.entry.text(),
        }

    def to_json(self) -> dict[str, Any]:
        """The document that people see, without hidden fields."""
        return {
            "kind": self.kind,
            "key": self.key,
            "version": self.version,
            "changed": shown_time(self.changed_us),
            "changed_us": self.changed_us,
            "by": self.by,
            "reason": self.reason,
            "value": None if self.entry is None else dict(self.entry.summary()),
        }


class RecordedChange(NamedTuple):
    """A change as people see it, and as it is sealed."""

    stored: StoredEntry
    sealed: SealedChange

    def to_json(self) -> dict[str, Any]:
        """The document that people see; that of a deletion has the value `before` it, too."""
        document = self.stored.to_json()
        if self.stored.entry is None:
            document["before"] = None if self.sealed.deleted is None else dict(self.sealed.deleted)
        return document


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


def sealed_of(row: Mapping[str, Any], deleted: str | None, before: str | None, seal: str | None = None) -> SealedChange:
    """
    :param row: of `changes`.
    :param deleted: stored value that a deletion has ended.
    :param before: seal of the change before.
    """
    kind = kind_of(row["kind"])
    value, ended = (None if text is None else kind.shown(text) for text in (row["value"], deleted))
    return SealedChange(
        row["kind"], row["key"], row["version"], row["changed_us"], row["by"], row["reason"], value, ended, before, seal
    )
