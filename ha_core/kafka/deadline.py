"""A point in time at which an operation gives up."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """`seconds` is the granted time, for error texts; `at` is on the monotonic clock."""

    seconds: float
    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(seconds, time.monotonic() + seconds)

    @property
    def left_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    @property
    def left_ms(self) -> int:
        """Timeout for the broker in requests: at least 1."""
        return max(1, int(self.left_s * 1000))

    def within(self, seconds: float) -> Deadline:
        """The earlier one of this deadline and `seconds` from now."""
        return self if self.left_s <= seconds else Deadline.after(seconds)
