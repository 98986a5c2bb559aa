"""The rows of a content, stored as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ha_core.datacache.core.packed import Record, record_of, row_of
from ha_core.datacache.core.source import Row
from ha_core.model.layered import Layered


class Rows(Mapping[str, Row]):
    """Immutable; `after` makes a changed copy. A row is made from its record each time.

    :ivar records: by key.
    """

    __slots__ = ("records",)

    def __init__(self, records: Layered[Record] | None = None) -> None:
        self.records = Layered[Record]() if records is None else records

    def __getitem__(self, key: str) -> Row:
        return row_of(key, self.records[key])

    def __contains__(self, key: object) -> bool:
        return key in self.records

    def __iter__(self) -> Iterator[str]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def all(self) -> Iterator[Row]:
        """As `values`, in half the time."""
        for key, record in self.records.entries():
            yield row_of(key, record)

    def after(self, versions: Sequence[Row]) -> Rows:
        """With newer versions, in order of their times."""
        newest = {row.key: row for row in versions}
        return Rows(
            self.records.changed({key: None if row.value is None else record_of(row) for key, row in newest.items()})
        )


def rows_of(rows: Iterable[Row]) -> Rows:
    """:param rows: without deletions."""
    return Rows(Layered({row.key: record_of(row) for row in rows}))
