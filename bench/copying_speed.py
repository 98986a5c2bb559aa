"""Growth of a copy and its CPU time, measured from outside, in one way for all copiers."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bench.copiers import Program
from bench.ground import BenchError
from ha_core.kafka.admin import Admin

LOOK_S = 0.1


class Look(NamedTuple):
    at_s: float
    records: int
    """Records in the copy."""
    cpu_s: float


@dataclass(frozen=True)
class Bounds:
    """The measured part of a copy: not its start, when a JVM still compiles its code, and not its end.

    :ivar warm_cpu_s: CPU time after which a JVM is warm; on a busy machine the wait is limited to `warm_s`.
    """

    warm_share: float = 0.25
    warm_cpu_s: float = 6.0
    warm_s: float = 10.0
    last_share: float = 0.95
    window_s: float = 5.0


class Speed(NamedTuple):
    seconds: float
    records: int
    cpu_s: float


def measured(looks: Sequence[Look], records: int, bounds: Bounds) -> Speed | None:
    """The speed in the window; None until it is over.

    :param records: of the source.
    :raises BenchError: the window has fewer than two samples, the copy did not grow, or its copier used no CPU time.
    """
    begun = next((look for look in looks if look.records), None)
    if begun is None:
        return None
    warm = [
        look
        for look in looks
        if look.records >= records * bounds.warm_share
        or look.cpu_s - begun.cpu_s >= bounds.warm_cpu_s
        or look.at_s - begun.at_s >= bounds.warm_s
    ]
    if not warm:
        return None
    whole = warm[-1].records >= records * bounds.last_share
    if not whole and warm[-1].at_s - warm[0].at_s < bounds.window_s:
        return None
    inside = [look for look in warm if look.records < records * bounds.last_share]
    if len(inside) < 2:
        raise BenchError(f"{records} records were copied between two samples: too few to measure")
    first, last = inside[0], inside[-1]
    if last.records == first.records:
        seconds = last.at_s - first.at_s
        raise BenchError(
            f"the copy stayed at {last.records} of {records} records for {seconds:.1f} s: no speed to report"
        )
    if last.cpu_s <= first.cpu_s:
        raise BenchError(f"the copier used no CPU time for {last.records - first.records} records: is it another one?")
    return Speed(last.at_s - first.at_s, last.records - first.records, last.cpu_s - first.cpu_s)


class BenchCopy:
    """A topic of the target that is, or will be, a copy."""

    def __init__(self, target: Admin, topic: str, partitions: int) -> None:
        self._target, self.topic, self._partitions = target, topic, partitions
        self._there = False

    def records(self) -> int:
        """Number of records; 0 before the topic exists."""
        if not self._there:
            self._there = self._target.partition_counts([self.topic]).get(self.topic, 0) == self._partitions
            if not self._there:
                return 0
        ends = self._target.ends([(self.topic, one) for one in range(self._partitions)])
        return sum(one.log_end for one in ends.values())


def watch(copier: Program, copy: BenchCopy, records: int, bounds: Bounds, limit_s: float) -> Speed:
    """Sample until the window is over.

    :param records: of the source.
    :raises BenchError: the copier has ended, or the window was not over after `limit_s`.
    """
    looks: list[Look] = []
    until = time.monotonic() + limit_s
    while (speed := measured(looks, records, bounds)) is None:
        copier.check()
        looks.append(Look(time.monotonic(), copy.records(), copier.cpu_s()))
        if time.monotonic() > until:
            raise copier.failed(f"{looks[-1].records} of {records} records after {limit_s:.0f} s")
        time.sleep(LOOK_S)
    return speed
