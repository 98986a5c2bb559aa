"""Values that lie in memory a million times: what many have in common is there once.

A dict of seven fields takes 270 bytes, and its texts, which nearly all are those of others as well, 50 each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from sys import intern
from typing import Any

from ha_core.datacache.core.source import Row

MAX_SHAPES = 1000
"""Sets of field names that are kept for others: a source has a few."""
_shapes: dict[tuple[str, ...], tuple[str, ...]] = {}


class Packed(Mapping[str, Any]):
    """Equal to the dict that it was made of."""

    __slots__ = ("_fields", "_values")

    def __init__(self, value: Mapping[str, Any]) -> None:
        fields = tuple(value)
        self._fields = _shapes.get(fields) or _shape(fields)
        try:
            self._values: tuple[Any, ...] = tuple(map(intern, value.values()))
        except TypeError:  # not only texts
            self._values = tuple([intern(said) if type(said) is str else said for said in value.values()])

    def __getitem__(self, field: str) -> Any:
        try:
            return self._values[self._fields.index(field)]
        except ValueError:
            raise KeyError(field) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __repr__(self) -> str:
        return f"Packed({', '.join(self._fields)})"  # what its fields say may be a secret

    def plain(self) -> dict[str, Any]:
        return dict(zip(self._fields, self._values, strict=True))


def _shape(fields: tuple[str, ...]) -> tuple[str, ...]:
    if len(_shapes) < MAX_SHAPES:
        fields = _shapes.setdefault(fields, fields)
    return fields


def packed(row: Row) -> Row:
    """The same, in less memory."""
    value = row.value
    if value is None or type(value) is Packed:
        return row
    return Row(row.key, row.changed_us, Packed(value))


def plain(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """As a dict, which JSON is made of."""
    if type(value) is Packed:
        return value.plain()
    return None if value is None else dict(value)
