"""Token buckets of many names: a burst at once, then a token each so many seconds.

A bucket is stored as the time at which it is full again, so nothing refills it (GCRA). The number of buckets is
bounded; the least recently used one is evicted first, and is full when its name comes again.
"""

import math
from collections import OrderedDict
from collections.abc import Hashable


class TokenBuckets:
    """Pure: the caller passes the time, and for each bucket the time that a token takes, which may change."""

    __slots__ = ("_full_at", "_max_buckets")

    def __init__(self, max_buckets: int) -> None:
        """:param max_buckets: number of buckets that are kept."""
        self._max_buckets = max_buckets
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def wait_s(self, name: Hashable, now: float, each_s: float, burst: float) -> float:
        """Seconds until the bucket has a token; none is needed if they are not above 0.

        :param burst: tokens of a full bucket, 1 at least.
        """
        return max(self._full_at.get(name, now) - now, 0.0) - (burst - 1) * each_s

    def spend(self, name: Hashable, now: float, each_s: float, owed_s: float = math.inf) -> None:
        """Spends a token, also one that is not there yet.

        :param owed_s: longest time until the bucket is full again.
        """
        full_at = max(self._full_at.get(name, now), now) + each_s
        self._full_at[name] = min(full_at, now + owed_s)
        self._full_at.move_to_end(name)
        if len(self._full_at) > self._max_buckets:
            self._full_at.popitem(last=False)
