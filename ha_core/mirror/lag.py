"""Lag of a copy in time and in bytes, which offsets do not show. Without a clock of its own.

The lag in time is the RPO, the cost of losing the source: the time since the copy had every record acknowledged there.
Timestamps of records do not show it: producers choose them, and an hour without records is no loss. So the source's end
is remembered with the time at which it was requested; once the copy has reached it, nothing acknowledged by that time
can be lost.
"""

from typing import NamedTuple

MOST_SEEN = 64
"""Ends remembered. With more, every second one is dropped, which makes the lag longer, never shorter."""
_MEMORY_BYTES = 64 << 20
"""The measured record size is halved in weight after this many bytes."""


class EndSample(NamedTuple):
    asked_at: float
    end: int
    """The end that the source had acknowledged, exclusive."""


class LagTracker:
    """`since` may be called from any thread, the rest from one."""

    def __init__(self) -> None:
        self._level_at: float | None = None
        """Time up to which the copy has everything that the source had acknowledged."""
        self._ahead: tuple[EndSample, ...] = ()
        """Ascending ends that the copy had not reached."""
        self._bytes = self._offsets = 0

    def saw(self, asked_at: float, end: int, copied: int) -> None:
        """The source had acknowledged everything below `end` at `asked_at` or later; `copied` is in the copy."""
        # Truncated ends are no longer acknowledged; of equal ends the later one adds nothing.
        seen = [sample for sample in self._ahead if sample.end < end] + [EndSample(asked_at, end)]
        ahead = [sample for sample in seen if sample.end > copied]
        if len(ahead) < len(seen):
            self._level_at = seen[-len(ahead) - 1].asked_at
        if len(ahead) > MOST_SEEN:
            ahead = [*ahead[:-1:2], ahead[-1]]
        self._ahead = tuple(ahead)

    def since(self, copied: int) -> float | None:
        """Time at which the copy last had everything acknowledged; None: never, as far as is known."""
        found = self._level_at
        for sample in self._ahead:
            if sample.end <= copied:
                found = sample.asked_at
        return found

    @property
    def first_asked_at(self) -> float | None:
        """Time of the lowest end that the copy had not reached; None: it has reached all."""
        return self._ahead[0].asked_at if self._ahead else None

    def fetched(self, offsets: int, size: int) -> None:
        """Adds a measurement: these offsets of the source had this size."""
        self._offsets += offsets
        self._bytes += size
        if self._bytes > _MEMORY_BYTES:
            self._bytes, self._offsets = self._bytes // 2, self._offsets // 2

    def bytes_of(self, offsets: int) -> int | None:
        """Estimated size of `offsets` offsets from earlier ones; None: there were none."""
        if not offsets:
            return 0
        return self._bytes * offsets // self._offsets if self._offsets else None
