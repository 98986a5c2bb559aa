"""Values that lie in memory a million times: what many have in common is there once.

A dict of seven fields takes 270 bytes, and its texts, which nearly all are those of others as well, 50 each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from sys import intern
from typing import Any

from ha_core.datacache.core.source import Row

MAX_SHAPES = 1000
"""Sets of field names that are kept for others: a source has a few."""
_shapes: dict[tuple[str, ...], tuple[str, ...]] = {}


class Packed(Mapping[str, Any]):
    """Equal to a dict.

    :ivar fields: the names of its fields; many have the same tuple.
    :ivar values_in_order: of these fields.
    """

    __slots__ = ("fields", "values_in_order")

    def __init__(self, fields: tuple[str, ...], values: Iterable[Any]) -> None:
        """:param fields: as `shared` gives them."""
        self.fields = fields
        self.values_in_order = tuple(values)

    def __getitem__(self, field: str) -> Any:
        try:
            return self.values_in_order[self.fields.index(field)]
        except ValueError:
            raise KeyError(field) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        return f"Packed({', '.join(self.fields)})"  # what its fields say may be a secret

    def plain(self) -> dict[str, Any]:
        found = dict(zip(self.fields, self.values_in_order, strict=True))
        for field, said in found.items():
            if type(said) is Packed:
                found[field] = said.plain()
        return found


def shared(fields: tuple[str, ...]) -> tuple[str, ...]:
    """The same, as others have them."""
    if fields not in _shapes and len(_shapes) < MAX_SHAPES:
        _shapes[fields] = fields
    return _shapes.get(fields, fields)


def lean(values: Collection[Any]) -> Iterable[Any]:
    """The same, with texts that are there once: but for those inside of others, as keys of passwords, of which each is
    another one."""
    try:
        return tuple(map(intern, values))
    except TypeError:  # not only texts
        return [intern(said) if type(said) is str else _inner(said) for said in values]


def of(value: Mapping[str, Any]) -> Packed:
    return Packed(shared(tuple(value)), lean(value.values()))


def _inner(said: Any) -> Any:
    return Packed(shared(tuple(said)), map(_inner, said.values())) if type(said) is dict else said


def packed(row: Row) -> Row:
    """The same, in less memory."""
    value = row.value
    if value is None or type(value) is Packed:
        return row
    return Row(row.key, row.changed_us, of(value))


def plain(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """As a dict, which JSON is made of."""
    if type(value) is Packed:
        return value.plain()
    return None if value is None else dict(value)
