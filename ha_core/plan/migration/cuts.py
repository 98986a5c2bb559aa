"""Cuts that are chosen, not read under a fence.

*Predicted*: the log end expected after the preparation, by the log's rate.

*Forced*, if the origin is dead: fixed once, above the last known end by more than the log can have grown since, and
never changed. The hole that this leaves makes it final: all records that the origin has when it returns fit below.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ha_core.model import Extent
from ha_core.plan.facts.clusters import Partition, PartitionEnds
from ha_core.plan.facts.verdict import duration

SERVED_WITHIN_S = 1.0
"""Time within which gateways nearly always serve a new cut."""
RESERVE = 1_000_000
"""Minimum number of offsets between the last known end of a dead origin and the forced cut."""
FASTEST_PER_S = 10_000_000
"""Records per second, more than any partition's leader can append. A known end ages by so many offsets per second."""
LEAST_RATE = 1_000
"""Records per second: an operator cannot rule out that a partition reaches this rate in the next minute."""
BURST = 10
"""Bound on a leader's rate, as a multiple of the highest rate measured between two readings a minute apart."""
RESERVE_S = 100
"""With an operator's bound on the rate, the reserve is the records of so many seconds at that rate."""
MIN_AGE_S = 300.0
"""Minimum age of a known end: two clocks may differ by as much, and a leader that still answers may have been replaced.
A higher value would only lengthen the hole, which jobs cross portion by portion."""
UNKNOWN_RESERVE = 1 << 40
"""The reserve if no end is known, or its age is not: years of records."""


class Rate(NamedTuple):
    """Records per second of a partition."""

    highest: float = 0.0
    """Rate that its log hardly exceeds; used to choose cuts."""
    expected: float = 0.0
    """Rate at which it is expected to grow; used to predict when it reaches its cut."""
    source: str = ""
    """Source of the rate, in a word or two."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates of partitions in the origin. A missing one counts as idle."""

    by_partition: Mapping[Partition, Rate]
    words: str
    """Source of the rates, for people."""

    def of(self, partition: Partition) -> Rate:
        return self.by_partition.get(partition, Rate())


def cut_ahead(end: int, rate_per_s: float, preparation_s: float) -> int:
    """The client offset that a log at `end` reaches in `preparation_s` seconds, at least one above the end.

    With a cut at the end itself, the origin's log could not decide which record comes first above the cut.
    """
    return end + max(1, math.ceil(rate_per_s * preparation_s))


def reached_words(records: int, rate_per_s: float, source: str = "") -> str:
    """When a log that ends `records` below its cut will reach it, for people."""
    if rate_per_s <= 0:
        return f"with its next {records} records; it is idle now" if records > 1 else "with its next record"
    by = f" ({source})" if source else ""
    return f"in about {duration(records / rate_per_s)} at {rate_per_s:,.1f} records/s{by}"


def outrun_margin(grown: Collection[int], rates: Collection[float], attempt: int) -> int:
    """Minimum distance in records from log end to cut, after a log of the topic has passed its cut.

    Producers spread records over partitions at random. So each partition gets the records that the mean one receives
    until gateways serve a cut, plus three standard deviations.

    :param grown: records that each partition has received since the last cuts were chosen.
    :param attempt: number of failed proposals.
    """
    partitions = max(1, len(grown))
    mean = max(sum(grown) / partitions, sum(rates) / partitions * SERVED_WITHIN_S, 1.0)
    expected: float = mean * 2**attempt
    return math.ceil(expected + 3 * math.sqrt(expected))


def doubled_records(logs: Collection[tuple[int, float]]) -> float | None:
    """Records of a topic that will be written to both clusters: those of busy partitions from reaching their cut until
    the last partition has. None: a partition is idle, so the number is unknown.

    :param logs: for each partition the records between its end and its cut, and its rate.
    """
    busy = [(ahead / rate, rate) for ahead, rate in logs if rate > 0]
    if len(busy) < len(logs):
        return None if busy else 0.0
    last, _ = max(busy, default=(0.0, 0.0))
    return sum(rate * (last - time) for time, rate in busy)


def known_ends(extent: Extent, ends: PartitionEnds) -> list[int]:
    """Known log ends of the origin, as client offsets of its `extent`."""
    return [extent.clip(end) for end in (ends.origin, ends.seen) if end is not None]


def hole(age_s: float | None, fastest_per_s: int | None = None) -> int:
    """Offsets between a known end of a dead origin and the forced cut.

    :param age_s: age of the end; None: not known.
    :param fastest_per_s: the operator's bound on records per second and partition; None: more than any leader can
        append.
    """
    if age_s is None:
        return UNKNOWN_RESERVE
    fastest = FASTEST_PER_S if fastest_per_s is None else fastest_per_s
    return min(RESERVE, fastest * RESERVE_S) + int(max(age_s, MIN_AGE_S) * fastest)


def least_rate(measured_per_s: float) -> int:
    """The lowest bound that an operator may give for a topic with this highest measured rate of a partition."""
    return max(LEAST_RATE, math.ceil(measured_per_s * BURST))


def forced_cut(
    current: Extent, found: PartitionEnds, mirrored: int | None = None, fastest_per_s: int | None = None
) -> tuple[int, int]:
    """The cut and the extent's known end, both client offsets.

    :param current: the writer's extent, in the origin.
    :param mirrored: end of its copy, in the origin's offsets. The log once was that long, at an unknown time.
    :param fastest_per_s: see `hole`.
    """
    ends = known_ends(current, found)
    age_s = found.seen_age_s if found.seen is not None else 0.0
    room = hole(age_s if ends else None, fastest_per_s)
    copied = [] if mirrored is None else [current.clip(mirrored)]
    known = max([current.start, *ends, *copied])
    # Clients can commit any offset: one beyond all that the log can hold means nothing.
    if found.known is not None and known < found.known <= known + room:
        known = found.known
    return known + room, known
