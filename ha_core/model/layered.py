"""A mapping that never changes, and of which a changed one costs little: what was not changed is shared.

It lies in two layers: a dict that all share, and above it what was changed since. Of a million entries a change copies
the upper one, of some thousands at most; once that is full, all is copied into one again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar, overload

V = TypeVar("V")
D = TypeVar("D")

LEAST = 1024
"""Entries that the upper layer may have, however few lie below."""
PART = 128
"""Where many do, it may have such a part of them."""


class Layered(Mapping[str, V]):
    """Equal to a dict; what was changed of late comes last. Values are never None."""

    __slots__ = ("_below", "_len", "_upper")

    def __init__(self, entries: dict[str, V] | None = None) -> None:
        """:param entries: nobody changes them any more."""
        self._below: dict[str, V] = {} if entries is None else entries
        self._upper: dict[str, V | None] = {}
        """None: it is there no more."""
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
        """With these in place of what they had. None: without the key."""
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
