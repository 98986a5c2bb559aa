"""Detects that this process stood still, for example because it or its machine was suspended.

Brokers expire a fence by the timestamps of records, and copies have those of their sources. So after a standstill
longer than others wait, the loop takes its partitions over again before it sends anything. A busy loop does not stand
still, however long a step takes: if it counted as standstill, takeover and refetch would repeat endlessly.
"""

from collections.abc import Callable

STOOD_STILL_S = 10.0


class Standstill:
    """
    :param clock: seconds, which continue while the process is suspended.
    :param worked: seconds of processor time of this process.
    """

    def __init__(self, clock: Callable[[], float], worked: Callable[[], float]) -> None:
        self._clock, self._worked = clock, worked
        self._at, self._worked_at = clock(), worked()
        self._longest_s = 0.0

    def look(self) -> None:
        """Called between two pieces of work, because on a machine short of processors each piece takes longer."""
        now, worked = self._clock(), self._worked()
        self._longest_s = max(self._longest_s, now - self._at - (worked - self._worked_at))
        self._at, self._worked_at = now, worked

    def found_s(self) -> float:
        """Longest standstill between two looks since the last call; 0.0 below `STOOD_STILL_S`."""
        self.look()
        longest_s, self._longest_s = self._longest_s, 0.0
        return longest_s if longest_s > STOOD_STILL_S else 0.0
