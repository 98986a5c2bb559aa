"""Minimum, maximum and average of recent measurements, as Kafka's metrics keep them: over one to two windows."""

from dataclasses import dataclass, field
from typing import NamedTuple

WINDOW_S = 30.0
"""Kafka's `metrics.sample.window.ms`, of which it keeps two."""


class Recent(NamedTuple):
    """:ivar last: the newest measurement."""

    least: float
    most: float
    average: float
    last: float


@dataclass(slots=True)
class _Window:
    begun: float
    count: int = 0
    total: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")


@dataclass(slots=True)
class Sampled:
    """Measurements of one thing. Written by one thread, read by any."""

    _last: float = 0.0
    _windows: tuple[_Window, ...] = field(default_factory=tuple)

    def add(self, least: float, most: float, count: int, now: float) -> None:
        """Measurements between `least` and `most`; their average is taken as the middle."""
        windows = self._windows
        if not windows or now - windows[0].begun >= WINDOW_S:
            windows = self._windows = (_Window(now), *windows[:1])
        window = windows[0]
        window.count += count
        window.total += count * (least + most) / 2
        window.least = min(window.least, least)
        window.most = max(window.most, most)
        self._last = least

    def recent(self, now: float) -> Recent | None:
        """None: nothing was measured in the last two windows."""
        kept = [window for window in self._windows if now - window.begun < 2 * WINDOW_S]
        count = sum(window.count for window in kept)
        if not count:
            return None
        least, most = min(window.least for window in kept), max(window.most for window in kept)
        return Recent(least, most, sum(window.total for window in kept) / count, self._last)
