"""Values that lie in memory a million times: what many have in common is there once.

A dict of seven fields takes 270 bytes, and its texts, which nearly all are those of others as well, 50 each. So a row
is a *record*: one tuple with its time, its *shape* (the names of its fields, those of fields inside of others too,
which many rows share) and what the fields say, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from sys import intern
from typing import Any

from ha_core.datacache.core.source import Row

MAX_SHAPES = 1000
"""That are kept for others: a source has a few."""
BEGIN = 2
"""Where in a record its values begin."""
Record = tuple[Any, ...]
"""(changed_us, shape, *values)"""
Structure = dict[str, Any]
"""A shape in JSON: name of a field → None, or the structure of what is in it."""
ShapeKey = tuple[Any, ...]
_shapes: dict[ShapeKey, RowShape] = {}


class RowShape:
    """
    :ivar fields: name → place of the value, or the shape of what is in it and the place where that begins.
    :ivar key: equal for all that have the same fields in the same order.
    :ivar width: how many values there are, those of inner fields too.
    :ivar outer: for each value, whether it is of a field of the row itself.
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
    """Equal to a dict: what a record says, or a field inside of it."""

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
        return f"Packed({', '.join(self.shape.fields)})"  # what its fields say may be a secret

    def plain(self) -> dict[str, Any]:
        return {name: said.plain() if type(said := self[name]) is Packed else said for name in self.shape.fields}


def shape_of(value: Mapping[str, Any]) -> RowShape:
    """The same for all that have the same fields, in the same order."""
    return _shared(_key(value))


def record_of(row: Row) -> Record:
    """:param row: no deletion."""
    value = row.value
    if type(value) is Packed and value.record[0] == row.changed_us and value.record[1] is value.shape:
        return value.record
    said = plain(value) or {}
    try:
        return (row.changed_us, _shared(tuple(said)), *map(intern, said.values()))
    except TypeError:  # not only texts
        return (row.changed_us, shape_of(said), *_values(said, True))


def row_of(key: str, record: Record) -> Row:
    return Row(key, record[0], Packed(record, record[1]))


def packed(row: Row) -> Row:
    """The same, in less memory."""
    if row.value is None or type(row.value) is Packed:
        return row
    return row_of(row.key, record_of(row))


def plain(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """As a dict, which JSON is made of."""
    if type(value) is Packed:
        return value.plain()
    return None if value is None else dict(value)


def _key(value: Mapping[str, Any]) -> ShapeKey:
    return tuple([(name, _key(said)) if type(said) is dict else name for name, said in value.items()])


def _shared(key: ShapeKey) -> RowShape:
    found = _shapes.get(key)
    if found is None:
        found = RowShape(key)
        if len(_shapes) < MAX_SHAPES:
            _shapes[key] = found
    return found


def _values(value: Mapping[str, Any], outer: bool) -> Iterator[Any]:
    """Texts are there once, but for those inside of others, as keys of passwords, of which each is another one."""
    for said in value.values():
        if type(said) is dict:
            yield from _values(said, False)
        else:
            yield intern(said) if outer and type(said) is str else said
