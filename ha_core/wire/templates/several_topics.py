"""Common parts of templates for requests with several topics: the topic names, and limits on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable

AFTER_CORRELATION = 12
"""Position in a frame."""
MAX_COUNT = 126
"""Limit for the number of topics, for partitions in versions with tags, and for a name's bytes, each in a single byte.
Other requests are decoded."""
_MAX_BYTES, _NAME_BYTES = 16 << 10, 64
"""Limits of a template; connections keep some. A name costs as much again beside its letters."""
_MOST_LEFT_OUT = 1_000
"""Misses of a full template after which it is replaced. Filling one takes some hundred requests."""


class SeveralTopicsTemplate(ABC):
    """:ivar head: API key and version.
    :ivar begin: bytes after the correlation id that all matching requests share.
    :ivar names: the topics that matching requests may name.
    """

    __slots__ = ("_left_out", "_size", "begin", "head", "names")

    def __init__(self, head: bytes, begin: bytes, names: frozenset[bytes], more_bytes: int = 0) -> None:
        """:param more_bytes: further bytes that are kept."""
        self.head, self.begin, self.names = head, begin, names
        self._size = len(begin) + more_bytes + _size(names)
        self._left_out = 0

    @property
    def short(self) -> bool:
        """True if it may be kept."""
        return self._size <= _MAX_BYTES

    @property
    def stale(self) -> bool:
        """True after so many misses that its topics may be out of date."""
        return self._left_out > _MOST_LEFT_OUT

    @abstractmethod
    def differs_only_in_topics(self, other: object) -> bool:
        """True if the other one matches requests that differ from those matched here only in their topics."""

    def takes(self, names: Collection[bytes]) -> bool:
        """True if there is room for these names."""
        return self._size + _size(frozenset(names) - self.names) <= _MAX_BYTES

    def would_match_if_larger(self, buf: bytearray, at: int, names: Collection[bytes]) -> bool:
        """True if the request at `at`, with these names, would match if the template were not full. Making a new
        template for each combination of names takes longer than decoding the requests."""
        return (
            buf.startswith(self.begin, at + AFTER_CORRELATION)
            and buf.startswith(self.head, at + 4)
            and not self.takes(names)
        )

    def note_miss(self) -> None:
        """A request did not match, and is not remembered, or replaces another one."""
        self._left_out += 1

    def names_that_fit(self, others: Iterable[Collection[bytes]]) -> frozenset[bytes]:
        """Its names and those of the groups that fit as a whole, in order."""
        names, size = set(self.names), self._size
        for other in others:
            more = frozenset(other) - names
            if size + (more_bytes := _size(more)) <= _MAX_BYTES:
                names |= more
                size += more_bytes
        return frozenset(names)


def _size(names: Collection[bytes]) -> int:
    return sum(map(len, names)) + len(names) * _NAME_BYTES
