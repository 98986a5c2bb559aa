"""What the data path counts: plain integers, which become metrics only when somebody scrapes."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Durations:
    """A histogram of plain integers."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds

    def buckets(self) -> list[tuple[str, float]]:
        """(upper bound, how many were at or below it), the last one `+Inf`."""
        bounds = (*(str(bound) for bound in BUCKETS_S), "+Inf")
        return list(zip(bounds, (float(n) for n in accumulate(self.counts)), strict=True))


class Counts:
    """What the data path counts. Used on the event loop only; a scrape may read it in between."""

    __slots__ = (
        "bytes_from_brokers",
        "bytes_from_clients",
        "bytes_to_brokers",
        "bytes_to_clients",
        "composed",
        "refusals",
        "requests",
    )

    def __init__(self) -> None:
        self.requests: Counter[tuple[int, str]] = Counter()
        """By (API key, outcome): `passed`, `mapped`, `composed`, `local`, `refused`."""
        self.refusals: Counter[str] = Counter()
        """By the label of their `Refusal`: partitions of produce and fetch, and other requests."""
        self.bytes_from_clients = 0
        self.bytes_to_clients = 0
        self.bytes_from_brokers = 0
        self.bytes_to_brokers = 0
        self.composed: dict[int, Durations] = {}

    def composed_took(self, api_key: int, seconds: float) -> None:
        self.composed.setdefault(api_key, Durations()).add(seconds)
