"""Whether this process stood still, as where it was suspended, or its machine was.

Brokers forget a fence by the times of the records that were written, and copies have those of their sources: so a loop
that stood still for longer than others wait takes over what it has before anything is sent. A loop that works is not
one that stands still, however long: if it took itself for one it would take over, fetch the same, and so on for ever.
"""

from __future__ import annotations

from collections.abc import Callable

STOOD_STILL_S = 10.0


class Standstill:
    """
    :param clock: seconds, which go on while the process is suspended.
    :param worked: seconds of processor time of this process.
    """

    def __init__(self, clock: Callable[[], float], worked: Callable[[], float]) -> None:
        self._clock, self._worked = clock, worked
        self._at, self._worked_at = clock(), worked()
        self._longest_s = 0.0

    def look(self) -> None:
        """Asked between two pieces of work: a machine that is short of processors makes each take longer."""
        now, worked = self._clock(), self._worked()
        self._longest_s = max(self._longest_s, now - self._at - (worked - self._worked_at))
        self._at, self._worked_at = now, worked

    def found_s(self) -> float:
        """How long it stood still between two looks since this was asked last; 0.0: not at all, or hardly."""
        self.look()
        longest_s, self._longest_s = self._longest_s, 0.0
        return longest_s if longest_s > STOOD_STILL_S else 0.0
