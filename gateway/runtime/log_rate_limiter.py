"""Limits log lines that one cause can write by the thousand, and counts those left out."""

from collections.abc import Iterator


class LogRateLimiter:
    """Allows `burst` lines of each kind in `per_s` seconds. Kinds are few: they are never forgotten.

    Periods instead of a token bucket: the lines left out are counted for one, and reported at its end.
    """

    def __init__(self, burst: int = 10, per_s: float = 10.0) -> None:
        self._burst, self._per_s = burst, per_s
        self._kinds: dict[str, list[float]] = {}
        """Kind → [start of its period, lines since, lines left out since]."""

    def lets(self, kind: str, now: float) -> bool:
        """Whether a line of the kind may be written now."""
        lines = self._kinds.setdefault(kind, [now, 0, 0])
        if now - lines[0] >= self._per_s and not lines[2]:
            lines[:2] = now, 0
        if lines[1] < self._burst:
            lines[1] += 1
            return True
        lines[2] += 1
        return False

    def left_out(self, now: float) -> Iterator[tuple[str, int]]:
        """Kinds whose period is over, with the number of lines left out; to be called regularly."""
        for kind, lines in self._kinds.items():
            if lines[2] and now - lines[0] >= self._per_s:
                yield kind, int(lines[2])
                lines[:] = now, 0, 0
