"""How far a copy is behind its source in time and in bytes, which offsets do not say. Without a clock of its own.

In time it is what a loss of the source would cost (RPO): how long ago the copy had all that was acknowledged there.
Times of records do not say that: producers set them as they like, and an hour without records is no loss. So the
source's end is remembered with the moment at which it was asked for, and when the copy has come to it, nothing that
was acknowledged by that moment can be lost any more.
"""

from __future__ import annotations

from typing import NamedTuple

MOST_SEEN = 64
"""Ends that are remembered. Of more every second is forgotten, which makes the time longer, never shorter."""
_MEMORY_BYTES = 64 << 20
"""How large records are is forgotten by half after so many."""


class EndSample(NamedTuple):
    asked_at: float
    end: int
    """What the source had acknowledged, exclusive."""


class LagTracker:
    """`since` is for any thread, the rest for one."""

    def __init__(self) -> None:
        self._level_at: float | None = None
        """The copy has all that the source had acknowledged by then."""
        self._ahead: tuple[EndSample, ...] = ()
        """Ascending; those that the copy had not come to."""
        self._bytes = self._offsets = 0

    def saw(self, asked_at: float, end: int, copied: int) -> None:
        """The source had acknowledged what lies below `end` when it was asked, or later; `copied` is in the copy."""
        # What was truncated is not acknowledged any more; an end that is the same was there later as well.
        seen = [one for one in self._ahead if one.end < end] + [EndSample(asked_at, end)]
        ahead = [one for one in seen if one.end > copied]
        if len(ahead) < len(seen):
            self._level_at = seen[-len(ahead) - 1].asked_at
        if len(ahead) > MOST_SEEN:
            ahead = [*ahead[:-1:2], ahead[-1]]
        self._ahead = tuple(ahead)

    def since(self, copied: int) -> float | None:
        """When the copy had all that was acknowledged; None: it never had, as far as is known here."""
        found = self._level_at
        for one in self._ahead:
            if one.end <= copied:
                found = one.asked_at
        return found

    @property
    def first_asked_at(self) -> float | None:
        """When the source was asked for the lowest end that the copy had not come to; None: it has come to all."""
        return self._ahead[0].asked_at if self._ahead else None

    def fetched(self, offsets: int, size: int) -> None:
        """So many offsets of the source had so many bytes."""
        self._offsets += offsets
        self._bytes += size
        if self._bytes > _MEMORY_BYTES:
            self._bytes, self._offsets = self._bytes // 2, self._offsets // 2

    def bytes_of(self, offsets: int) -> int | None:
        """How many bytes so many offsets will have, if they are as those before; None: there were none before."""
        if not offsets:
            return 0
        return self._bytes * offsets // self._offsets if self._offsets else None
