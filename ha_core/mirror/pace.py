"""Rate limits of copying, and measured rates. Without a clock of its own.

A limit is enforced after the fact: the size of an answer is unknown in advance, so it is charged on arrival, and
nothing is requested while the balance is negative. Over a minute that is exact; over a moment it is off by an answer.
"""

import math
import sys
from collections.abc import Mapping

_BURST_S = 0.25
"""Time for which an unused allowance is kept."""
_AT_ONCE_S, _LEAST_AT_ONCE = 0.5, 1 << 16
_MEMORY_S = 10.0
"""Averaging time of a rate: bytes this long ago count 1/e."""


class Bucket:
    """
    :param bytes_s: None: unlimited.
    """

    def __init__(self, bytes_s: float | None, now: float) -> None:
        self.bytes_s = bytes_s
        self._left = 0.0
        self._at = now

    def change(self, bytes_s: float | None, now: float) -> None:
        """Changes the limit. A debt remains, but is not waited for longer than before: bytes taken under a high limit
        must not block a low one for hours."""
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
        """Time during which nothing may be requested; 0: none."""
        if self.bytes_s is None:
            return 0.0
        self._fill(self.bytes_s, now)
        return max(-self._left / self.bytes_s, 0.0)

    def _fill(self, bytes_s: float, now: float) -> None:
        # A clock that goes back changes nothing.
        self._left = min(self._left + max(now - self._at, 0.0) * bytes_s, bytes_s * _BURST_S)
        self._at = now


LinkedTopic = tuple[str, str]
"""(link, topic) of a mirror."""


class Throttle:
    """Limits for all mirrors together and for each of them."""

    def __init__(self, now: float) -> None:
        self._in_all = Bucket(None, now)
        self._mirrors: dict[LinkedTopic, Bucket] = {}

    def limit(self, in_all: float | None, mirrors: Mapping[LinkedTopic, float], now: float) -> None:
        """Changes the limits; unnamed mirrors are unlimited. Debts remain."""
        self._in_all.change(in_all, now)
        for gone in self._mirrors.keys() - mirrors.keys():
            del self._mirrors[gone]
        for mirror, bytes_s in mirrors.items():
            self._mirrors.setdefault(mirror, Bucket(None, now)).change(bytes_s, now)

    @property
    def unlimited(self) -> bool:
        return self._in_all.bytes_s is None and not self._mirrors

    def at_once(self, mirror: LinkedTopic, partitions: int) -> int:
        """Most bytes to request from each of `partitions` partitions, so that one answer does not use up a minute."""
        limits = [
            bucket.bytes_s
            for bucket in (self._in_all, self._mirrors.get(mirror))
            if bucket and bucket.bytes_s is not None
        ]
        return max(int(min(limits) * _AT_ONCE_S / partitions), _LEAST_AT_ONCE) if limits else sys.maxsize

    def spend(self, mirror: LinkedTopic, amount: int, now: float) -> None:
        self._in_all.spend(amount, now)
        if (bucket := self._mirrors.get(mirror)) is not None:
            bucket.spend(amount, now)

    def wait_s(self, mirror: LinkedTopic, now: float) -> float:
        """Time during which nothing of this mirror may be requested."""
        bucket = self._mirrors.get(mirror)
        return max(self._in_all.wait_s(now), bucket.wait_s(now) if bucket is not None else 0.0)


class RateMeter:
    """Recent rate in bytes per second."""

    def __init__(self, now: float) -> None:
        self.total = 0
        self._weighted = 0.0
        self._begun = self._at = now

    def add(self, amount: int, now: float) -> None:
        self.total += amount
        self._fade(now)
        self._weighted += amount

    def per_s(self, now: float) -> float:
        """Average over the last `_MEMORY_S`, or since the beginning if that is shorter."""
        self._fade(now)
        known = 1 - math.exp(-(now - self._begun) / _MEMORY_S)
        return self._weighted / (_MEMORY_S * known) if known > 0 else 0.0

    def _fade(self, now: float) -> None:
        if now > self._at:
            self._weighted *= math.exp((self._at - now) / _MEMORY_S)
            self._at = now
