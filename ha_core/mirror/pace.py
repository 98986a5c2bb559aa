"""How much is copied in a second: what it may be, and what it was. Without a clock of its own.

A limit is kept behind, not ahead: nobody knows how many bytes an answer will have, so it is paid for when it is there,
and nothing is asked for while something is owed. Over a minute that is exact; over a moment it is off by an answer.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

_BURST_S = 0.25
"""What was not used is kept for so long."""
_AT_ONCE_S, _LEAST_AT_ONCE = 0.5, 1 << 16
_MEMORY_S = 10.0
"""A rate forgets: what lies so far back counts e times less."""


class Bucket:
    """
    :param bytes_s: None: as fast as it goes.
    """

    def __init__(self, bytes_s: float | None, now: float) -> None:
        self.bytes_s = bytes_s
        self._left = 0.0
        self._at = now

    def change(self, bytes_s: float | None, now: float) -> None:
        """From now on. What is owed stays owed, but is no longer waited for than before: what was taken while more was
        allowed must not hold up for hours who is allowed little."""
        if self.bytes_s is not None:
            self._fill(self.bytes_s, now)
        if self.bytes_s is None or bytes_s is None:
            self._left = 0.0
        elif self._left < 0:
            self._left *= min(bytes_s / self.bytes_s, 1.0)
        self.bytes_s, self._at = bytes_s, now

    def spend(self, amount: int, now: float) -> None:
        if self.bytes_s is not None:
            self._fill(self.bytes_s, now)
            self._left -= amount

    def wait_s(self, now: float) -> float:
        """How long nothing may be asked for; 0: something may."""
        if self.bytes_s is None:
            return 0.0
        self._fill(self.bytes_s, now)
        return max(-self._left / self.bytes_s, 0.0)

    def _fill(self, bytes_s: float, now: float) -> None:
        # A clock that goes back gives nothing and takes nothing.
        self._left = min(self._left + max(now - self._at, 0.0) * bytes_s, bytes_s * _BURST_S)
        self._at = now


LinkedTopic = tuple[str, str]
"""(link, topic): a mirror, as copiers know it."""


class Throttle:
    """What all mirrors may take together, and each of them."""

    def __init__(self, now: float) -> None:
        self._in_all = Bucket(None, now)
        self._mirrors: dict[LinkedTopic, Bucket] = {}

    def limit(self, in_all: float | None, mirrors: Mapping[LinkedTopic, float], now: float) -> None:
        """From now on; mirrors that are not named go as fast as it goes. What is owed stays owed."""
        self._in_all.change(in_all, now)
        for gone in self._mirrors.keys() - mirrors.keys():
            del self._mirrors[gone]
        for mirror, bytes_s in mirrors.items():
            self._mirrors.setdefault(mirror, Bucket(None, now)).change(bytes_s, now)

    def at_once(self, mirror: LinkedTopic, partitions: int) -> int:
        """So many bytes each of so many partitions is asked for at most, lest one answer has the bytes of a minute."""
        limits = [one.bytes_s for one in (self._in_all, self._mirrors.get(mirror)) if one and one.bytes_s is not None]
        return max(int(min(limits) * _AT_ONCE_S / partitions), _LEAST_AT_ONCE) if limits else sys.maxsize

    def spend(self, mirror: LinkedTopic, amount: int, now: float) -> None:
        self._in_all.spend(amount, now)
        if (bucket := self._mirrors.get(mirror)) is not None:
            bucket.spend(amount, now)

    def wait_s(self, mirror: LinkedTopic, now: float) -> float:
        """How long nothing of this mirror may be asked for."""
        bucket = self._mirrors.get(mirror)
        return max(self._in_all.wait_s(now), bucket.wait_s(now) if bucket is not None else 0.0)


class RateMeter:
    """What came in a second, of late."""

    def __init__(self, now: float) -> None:
        self.total = 0
        self._weighted = 0.0
        self._begun = self._at = now

    def add(self, amount: int, now: float) -> None:
        self.total += amount
        self._fade(now)
        self._weighted += amount

    def per_s(self, now: float) -> float:
        """Of the last `_MEMORY_S`, or of all the time where that is less."""
        self._fade(now)
        known = 1 - math.exp(-(now - self._begun) / _MEMORY_S)
        return self._weighted / (_MEMORY_S * known) if known > 0 else 0.0

    def _fade(self, now: float) -> None:
        if now > self._at:
            self._weighted *= math.exp((self._at - now) / _MEMORY_S)
            self._at = now
