"""Where cuts lie that are not read behind a fence.

*Predicted*: at the log's end when the preparation is over, by the rate at which it grows.

*Forced*, where the origin is dead: fixed once, above the last known end by more than the log can have grown since, and
never changed. The hole that this leaves makes it final: whatever the origin holds when it returns has its place below.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ha_core.model import Extent
from ha_core.plan.facts.clusters import Partition, PartitionEnds
from ha_core.plan.facts.verdict import duration

SERVED_WITHIN_S = 1.0
"""In which gateways serve a new cut, nearly always."""
RESERVE = 1_000_000
"""Offsets between the last known end of a dead origin and the forced cut, at least."""
FASTEST_PER_S = 10_000_000
"""Records per second that no partition's leader can append: what is known ages by as many offsets."""
LEAST_RATE = 1_000
"""Records per second: an operator who says that a partition takes fewer cannot say it of the next minute."""
BURST = 10
"""A leader may append so many times faster than it was ever seen to between two looks, which are a minute apart."""
RESERVE_S = 100
"""Where an operator has said how fast a partition grows at most, the reserve is what it gets in so many seconds."""
MIN_AGE_S = 300.0
"""However fresh it is said to be, what is known counts as so old: this is how far two clocks may be wrong together, and
a leader that still answers may have been replaced. More would only make the hole longer, over which jobs go portion by
portion."""
UNKNOWN_RESERVE = 1 << 40
"""The reserve where no end is known at all, or nobody can say how long ago it was: years of records."""


class Rate(NamedTuple):
    """Records per second of a partition."""

    highest: float = 0.0
    """Which its log hardly exceeds: cuts are chosen by it."""
    expected: float = 0.0
    """At which it is expected to go on: when a cut is reached is told by it."""
    source: str = ""
    """Where that is known from, in a word or two."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Of partitions, in the origin. One that is missing counts as idle."""

    known: Mapping[Partition, Rate]
    words: str
    """Where they come from, for people."""

    def of(self, partition: Partition) -> Rate:
        return self.known.get(partition, Rate())


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

    Producers spread records over partitions at random, so what the mean partition gets until gateways serve a cut
    counts for each, with three standard deviations.

    :param grown: what each partition has got since the last cuts were chosen.
    :param attempt: how many proposals have failed.
    """
    partitions = max(1, len(grown))
    mean = max(sum(grown) / partitions, sum(rates) / partitions * SERVED_WITHIN_S, 1.0)
    expected: float = mean * 2**attempt
    return math.ceil(expected + 3 * math.sqrt(expected))


def doubled_records(logs: Collection[tuple[int, float]]) -> float | None:
    """Records of a topic that will be written to both clusters: what comes to busy partitions that have reached their
    cut, until the last one has. None: a partition is idle, so nobody knows.

    :param logs: of each partition the records between its end and its cut, and its rate.
    """
    busy = [(ahead / rate, rate) for ahead, rate in logs if rate > 0]
    if len(busy) < len(logs):
        return None if busy else 0.0
    last, _ = max(busy, default=(0.0, 0.0))
    return sum(rate * (last - time) for time, rate in busy)


def known_ends(extent: Extent, found: PartitionEnds) -> list[int]:
    """Where the origin is known to have ended, in client offsets of its `extent`."""
    return [extent.clip(end) for end in (found.origin, found.seen) if end is not None]


def hole(age_s: float | None, fastest_per_s: int | None = None) -> int:
    """Offsets between a known end of a dead origin and the forced cut.

    :param age_s: how long ago the end was seen; None: nobody can say.
    :param fastest_per_s: records that a partition gets in a second at most, by an operator's word; None: nobody has
        said, so it is what no leader can append.
    """
    if age_s is None:
        return UNKNOWN_RESERVE
    fastest = FASTEST_PER_S if fastest_per_s is None else fastest_per_s
    return min(RESERVE, fastest * RESERVE_S) + int(max(age_s, MIN_AGE_S) * fastest)


def least_rate(measured_per_s: float) -> int:
    """The smallest number that an operator may say, of a topic whose partitions were seen to get so many at most."""
    return max(LEAST_RATE, math.ceil(measured_per_s * BURST))


def forced_cut(
    current: Extent, found: PartitionEnds, mirrored: int | None = None, fastest_per_s: int | None = None
) -> tuple[int, int]:
    """The cut and the extent's known end, both client offsets.

    :param current: the writer's extent, in the origin.
    :param mirrored: up to where its copy has the origin's log. It says that the log was as long once, not when.
    :param fastest_per_s: as of `hole`.
    """
    ends = known_ends(current, found)
    age_s = found.seen_age_s if found.seen is not None else 0.0
    room = hole(age_s if ends else None, fastest_per_s)
    copied = [] if mirrored is None else [current.clip(mirrored)]
    known = max([current.start, *ends, *copied])
    # Anybody can commit anything: a commit beyond what the log can hold says nothing.
    if found.known is not None and known < found.known <= known + room:
        known = found.known
    return known + room, known
