"""Values that memory holds a million times: parts that many have in common are stored once.

A dict of seven fields takes 270 bytes, and its texts, which nearly all occur in other rows, too, 50 each. So a row is a
*record*: one tuple with its time, its *shape* (the names of its fields, including inner ones, which many rows share)
and the fields' values, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import Any

from ha_core.datacache.core.source import Row
from ha_core.model.layered import Layered

MAX_SHAPES = 1000
"""Most shared shapes: a source has a few."""
BEGIN = 2
"""Index of the first value in a record."""
Record = tuple[Any, ...]
"""(changed_us, shape, *values)"""
Structure = dict[str, Any]
"""A shape in JSON: name of a field → None, or the structure of its inner fields."""
ShapeKey = tuple[Any, ...]
_shapes: dict[ShapeKey, RowShape] = {}


class RowShape:
    """
    :ivar fields: name → index of the value, or the inner shape and the index where that begins.
    :ivar key: equal for all shapes with equal fields in equal order.
    :ivar width: number of values, including those of inner fields.
    :ivar outer: for each value, whether it belongs to a field of the row itself.
    """

    __slots__ = ("fields", "key", "outer", "width")
    width: int

    def __init__(self, key: ShapeKey) -> None:
        self.key = key
        self.fields: dict[str, int | tuple[RowShape, int]] = {}
        outer: list[bool] = []
        for part in key:
            if type(part) is str:
                self.fields[part] = len(outer)
                outer.append(True)
            else:
                name, inner = part
                shape = _shared(inner)
                self.fields[name] = (shape, len(outer))
                outer += [False] * shape.width
        self.outer = tuple(outer)
        self.width = len(outer)

    @property
    def structure(self) -> Structure:
        return {name: None if type(at) is int else at[0].structure for name, at in self.fields.items()}  # type: ignore[index]


class Packed(Mapping[str, Any]):
    """Equal to the dict of a record, or of a field inside it."""

    __slots__ = ("_begin", "record", "shape")

    def __init__(self, record: Record, shape: RowShape, begin: int = BEGIN) -> None:
        self.record, self.shape, self._begin = record, shape, begin

    def __getitem__(self, field: str) -> Any:
        at = self.shape.fields[field]
        if type(at) is int:
            return self.record[self._begin + at]
        shape, begin = at  # type: ignore[misc]
        return Packed(self.record, shape, self._begin + begin)

    def get(self, field: str, default: Any = None) -> Any:
        return self[field] if field in self.shape.fields else default

    def __iter__(self) -> Iterator[str]:
        return iter(self.shape.fields)

    def __len__(self) -> int:
        return len(self.shape.fields)

    def __repr__(self) -> str:
        return f"Packed({', '.join(self.shape.fields)})"  # without values, which may be secret

    def plain(self) -> dict[str, Any]:
        return {name: value.plain() if type(value := self[name]) is Packed else value for name in self.shape.fields}


def shape_of(value: Mapping[str, Any]) -> RowShape:
    """One shape for all values with equal fields, in equal order."""
    return _shared(_key(value))


def record_of(row: Row) -> Record:
    """:param row: not a deletion."""
    value = row.value
    if type(value) is Packed and value.record[0] == row.changed_us and value.record[1] is value.shape:
        return value.record
    fields = plain(value) or {}
    try:
        return (row.changed_us, _shared(tuple(fields)), *map(intern, fields.values()))
    except TypeError:  # not only texts
        return (row.changed_us, shape_of(fields), *_values(fields, True))


def row_of(key: str, record: Record) -> Row:
    return Row(key, record[0], Packed(record, record[1]))


def packed(row: Row) -> Row:
    """An equal row that takes less memory."""
    if row.value is None or type(row.value) is Packed:
        return row
    return row_of(row.key, record_of(row))


def plain(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """As a dict, for JSON."""
    if type(value) is Packed:
        return value.plain()
    return None if value is None else dict(value)


def _key(value: Mapping[str, Any]) -> ShapeKey:
    return tuple([(name, _key(inner)) if type(inner) is dict else name for name, inner in value.items()])


def _shared(key: ShapeKey) -> RowShape:
    shape = _shapes.get(key)
    if shape is None:
        shape = RowShape(key)
        if len(_shapes) < MAX_SHAPES:
            _shapes[key] = shape
    return shape


def _values(value: Mapping[str, Any], outer: bool) -> Iterator[Any]:
    """Texts are shared, except those of inner fields, such as password keys, which are all different."""
    for inner in value.values():
        if type(inner) is dict:
            yield from _values(inner, False)
        else:
            yield intern(inner) if outer and type(inner) is str else inner


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
