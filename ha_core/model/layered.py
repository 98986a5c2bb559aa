"""An immutable mapping whose changed copies are cheap, because they share all unchanged entries.

It has two layers: a dict that all copies share, and above it the entries changed since. With a million entries a change
copies only the upper layer of some thousands at most; once that is full, both are merged into one dict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar, overload

V = TypeVar("V")
D = TypeVar("D")

LEAST = 1024
"""Entries that the upper layer may always have."""
PART = 128
"""Above that, the upper layer may have one entry for so many in the lower one."""


class Layered(Mapping[str, V]):
    """Equal to a dict; recently changed entries come last. Values are never None."""

    __slots__ = ("_below", "_len", "_upper")

    def __init__(self, entries: dict[str, V] | None = None) -> None:
        """:param entries: the caller must not change it afterwards."""
        self._below: dict[str, V] = {} if entries is None else entries
        self._upper: dict[str, V | None] = {}
        """None: removed."""
        self._len = len(self._below)

    def __getitem__(self, key: str) -> V:
        found = self._upper[key] if key in self._upper else self._below[key]
        if found is None:
            raise KeyError(key)
        return found

    @overload
    def get(self, key: str, /) -> V | None: ...
    @overload
    def get(self, key: str, /, default: V | D) -> V | D: ...
    def get(self, key: str, /, default: V | D | None = None) -> V | D | None:
        found = self._upper[key] if key in self._upper else self._below.get(key)
        return default if found is None else found

    def __contains__(self, key: object) -> bool:
        if key in self._upper:
            return self._upper[key] is not None
        return key in self._below

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.entries())

    def __len__(self) -> int:
        return self._len

    def entries(self) -> Iterator[tuple[str, V]]:
        """As `items`, in half the time."""
        if not self._upper:
            return iter(self._below.items())
        return self._entries()

    def _entries(self) -> Iterator[tuple[str, V]]:
        upper = self._upper
        for key, value in self._below.items():
            if key not in upper:
                yield key, value
        for key, changed in upper.items():
            if changed is not None:
                yield key, changed

    def changed(self, entries: Mapping[str, V | None]) -> Layered[V]:
        """A copy with these entries set. None removes the key."""
        new: Layered[V] = Layered(self._below)
        new._upper = {**self._upper, **entries}
        new._len = self._len + sum((value is not None) - (key in self) for key, value in entries.items())
        return new._in_one() if len(new._upper) > max(LEAST, len(self._below) // PART) else new

    def _in_one(self) -> Layered[V]:
        below = dict(self._below)
        for key, value in self._upper.items():
            if value is None:
                below.pop(key, None)
            else:
                below[key] = value
        return Layered(below)
