"""How far ahead a cut lies: the log's end when the preparation is over, by the rate at which it grows."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ha_core.plan.facts import Partition
from ha_core.plan.verdict import duration

SERVED_WITHIN_S = 1.0
"""In which gateways serve a new cut, nearly always."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Records per second of partitions, in the origin. One that is missing counts as idle."""

    per_s: Mapping[Partition, float]
    """Which a log hardly exceeds: cuts are chosen by them."""
    words: str
    """Where they come from, for people."""
    expected_per_s: Mapping[Partition, float] = field(default_factory=dict)
    """At which it is expected to go on, where that is not the same: when a cut is reached is told by them."""
    sources: Mapping[Partition, str] = field(default_factory=dict)
    """Where the rate of each comes from, in a word or two."""

    def of(self, partition: Partition) -> float:
        return self.per_s.get(partition, 0.0)

    def expected(self, partition: Partition) -> float:
        return self.expected_per_s.get(partition, self.of(partition))


def cut_ahead(end: int, rate_per_s: float, preparation_s: float) -> int:
    """The client offset that a log at `end` reaches in `preparation_s` seconds; above the end, whatever the rate.

    A cut at the end itself would leave nothing to the origin to decide, so it is always one record ahead.
    """
    return end + max(1, math.ceil(rate_per_s * preparation_s))


def reached_words(records: int, rate_per_s: float, source: str = "") -> str:
    """When a log that lies `records` before its cut will get there, for people."""
    if rate_per_s <= 0:
        return f"with its next {records} records; it is idle now" if records > 1 else "with its next record"
    by = f" ({source})" if source else ""
    return f"in about {duration(records / rate_per_s)} at {rate_per_s:,.1f} records/s{by}"


def outrun_margin(grown: Collection[int], rates: Collection[float], attempt: int) -> int:
    """Records that a cut of a topic has to lie ahead at least, after one of its logs has passed its cut.

    A producer that spreads its records over many partitions may give any of them the next ones, so what its topic's
    mean partition gets until gateways serve a cut counts for each, with three standard deviations of a random spread.

    :param grown: what each partition has got since the last cuts were chosen.
    :param rates: records/s of each.
    :param attempt: how many proposals have failed.
    """
    partitions = max(1, len(grown))
    mean = max(sum(grown) / partitions, sum(rates) / partitions * SERVED_WITHIN_S, 1.0)
    expected: float = mean * 2**attempt
    return math.ceil(expected + 3 * math.sqrt(expected))


def doubled_records(ahead: Mapping[int, int], rates: Mapping[int, float]) -> float | None:
    """Records of a topic that will be written to both clusters: what comes to busy partitions that have reached their
    cut, until the last one has. None: a partition is idle, so nobody knows.

    :param ahead: partition → records between its end and its cut.
    """
    times = {p: ahead[p] / rates[p] if rates.get(p, 0.0) > 0 else None for p in ahead}
    known = [time for time in times.values() if time is not None]
    if len(known) < len(times):
        return None if known else 0.0
    last = max(known, default=0.0)
    return sum(rates[p] * (last - time) for p, time in times.items() if time is not None)
