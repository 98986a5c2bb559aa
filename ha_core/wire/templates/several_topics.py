"""What patterns of requests that name several topics have in common: which topics, and how many of them are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable

AFTER_CORRELATION = 12
"""In a frame."""
MAX_COUNT = 126
"""Of topics, and where there are tags of partitions and a name's bytes: one byte says it. All else is read anew."""
_MAX_BYTES, _NAME_BYTES = 16 << 10, 64
"""Of a pattern: some are kept for as long as a connection. A name takes as much beside its letters."""
_MOST_LEFT_OUT = 1_000
"""Requests that a full pattern leaves out: then one is begun anew. To fill it takes some hundred."""


class SeveralTopicsTemplate(ABC):
    """:ivar head: API key and version.
    :ivar begin: from behind the correlation id, as far as all that are found are the same.
    :ivar names: the topics that one of them may name.
    """

    __slots__ = ("_left_out", "_size", "begin", "head", "names")

    def __init__(self, head: bytes, begin: bytes, names: frozenset[bytes], more_bytes: int = 0) -> None:
        """:param more_bytes: that are kept besides."""
        self.head, self.begin, self.names = head, begin, names
        self._size = len(begin) + more_bytes + _size(names)
        self._left_out = 0

    @property
    def short(self) -> bool:
        """Whether it may be kept."""
        return self._size <= _MAX_BYTES

    @property
    def worn(self) -> bool:
        """Whether it has left out so many that its topics may be those of another time."""
        return self._left_out > _MOST_LEFT_OUT

    @abstractmethod
    def alike_but_for_topics(self, other: object) -> bool:
        """Whether the other one finds requests that are like those that are found here, but for what they name."""

    def takes(self, names: Collection[bytes]) -> bool:
        """Whether there is room for these."""
        return self._size + _size(frozenset(names) - self.names) <= _MAX_BYTES

    def has_no_room_for(self, buf: bytearray, at: int, names: Collection[bytes]) -> bool:
        """Whether the request at `at`, which names these, would be found if it were not full. To make one pattern after
        the other, of what each request happens to name, takes longer than to read them."""
        return (
            buf.startswith(self.begin, at + AFTER_CORRELATION)
            and buf.startswith(self.head, at + 4)
            and not self.takes(names)
        )

    def wear(self) -> None:
        """A request was left out, and is not remembered, or another one in its place."""
        self._left_out += 1

    def with_room_for(self, others: Iterable[Collection[bytes]]) -> frozenset[bytes]:
        """Its names, and of these groups one after the other, where there is room for all of it."""
        names, size = set(self.names), self._size
        for other in others:
            more = frozenset(other) - names
            if size + (more_bytes := _size(more)) <= _MAX_BYTES:
                names |= more
                size += more_bytes
        return frozenset(names)


def _size(names: Collection[bytes]) -> int:
    return sum(map(len, names)) + len(names) * _NAME_BYTES
