"""Assigns partitions to slots: from mirrors and their topics to the documents of slots. No I/O.

They are spread evenly by measured bytes, with few moves. A partition that changes its task is taken over, which costs
it some tenths of a second and its target two markers. So a partition keeps its task unless that task has far more to do
than the others (`SLACK` times the mean) *and* the movable partitions make a difference (`WORTH_IT` of the mean): beside
one partition that is larger than all others together, idle ones stay where they are. Partitions without a measurement
count as the mean of the others.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from statistics import mean
from typing import TypeVar

from ha_core.model import Mirror, MirrorReport, MirrorShare

T = TypeVar("T")
Key = tuple[str, int]
"""Key of a mirror, and a partition of its topic."""
REBALANCE_S = 60.0
"""Weights of partitions are kept for this time, so that a burst moves nothing."""
_SMOOTH_S = 120.0
"""Smoothing time of the mean of bytes/s."""
SLACK = 1.25
"""Load of a task, as a multiple of the mean, above which partitions are taken from it."""
WORTH_IT = 0.05
"""Share of the mean load below which nothing is moved."""
_LEAST_BYTES_S = 1
"""Minimum per partition: an idle one is fetched too."""


def partitions(mirrors: Iterable[Mirror], counts: Mapping[tuple[str, str], int]) -> Iterator[Key]:
    """Partitions that can be copied: they exist in source and target, and no operation holds their mirror.

    :param counts: (cluster, topic) → number of its partitions.
    """
    for mirror in mirrors:
        both = [counts.get((cluster, mirror.topic), 0) for cluster in (mirror.source, mirror.target)]
        for partition in range(min(both) if mirror.held is None else 0):
            yield mirror.key, partition


def shares(mirrors: Iterable[Mirror], placed: Mapping[Key, int]) -> dict[int, tuple[MirrorShare, ...]]:
    """slot → shares for its document; slots without partitions are missing."""
    known = {mirror.key: mirror for mirror in mirrors}
    by_slot: dict[int, dict[str, list[int]]] = {}
    in_all: dict[str, int] = {}
    for (mirror, partition), slot in sorted(placed.items()):
        by_slot.setdefault(slot, {}).setdefault(mirror, []).append(partition)
        in_all[mirror] = in_all.get(mirror, 0) + 1
    return {
        slot: tuple(_share(known[key], tuple(its), in_all[key]) for key, its in found.items())
        for slot, found in by_slot.items()
    }


def split(max_bytes_s: int | None, its: Iterable[MirrorShare], all_: Iterable[MirrorShare]) -> int | None:
    """The part of a total limit for some of all shares, in proportion to partitions: the sum never exceeds the
    total."""
    if max_bytes_s is None:
        return None
    some, every = (sum(len(share.partitions) for share in shares) for shares in (its, all_))
    return part_of(max_bytes_s, some, every)


def part_of(max_bytes_s: int, some: int, every: int) -> int:
    return max(max_bytes_s * some // max(every, 1), 1)


def _share(mirror: Mirror, its: tuple[int, ...], of: int) -> MirrorShare:
    max_bytes_s = mirror.max_bytes_s
    return MirrorShare(
        mirror=mirror.key,
        topic=mirror.topic,
        source=mirror.source,
        target=mirror.target,
        link=mirror.link,
        log=mirror.log,
        log_partitions=mirror.log_partitions,
        partitions=its,
        max_bytes_s=None if max_bytes_s is None else part_of(max_bytes_s, len(its), of),
    )


@dataclass
class Placement:
    """The current assignment, over the driver's looks.

    :ivar placed: partition → slot.
    """

    placed: dict[Key, int] = field(default_factory=dict)
    _means: dict[Key, float] = field(default_factory=dict)
    _weights: dict[Key, float] = field(default_factory=dict)
    _weighed_s: float = float("-inf")
    _measured_s: float = float("-inf")
    _inputs: tuple[object, ...] = ()

    def measure(self, reports: Iterable[MirrorReport], now_s: float) -> None:
        """Takes the rates that tasks have measured since the last call."""
        weight = min((now_s - self._measured_s) / _SMOOTH_S, 1.0)
        self._measured_s = now_s
        for report in reports:
            for partition in report.partitions:
                key = partition.mirror, partition.partition
                before = self._means.get(key, float(partition.bytes_s))
                self._means[key] = before + (partition.bytes_s - before) * weight

    def place(self, wanted: Collection[Key], live: Collection[int], now_s: float) -> dict[Key, int]:
        """Spreads partitions over the slots with running tasks. Without any, all partitions wait.

        A partition whose task has ended moves to another at once; others keep their task except for balance, which is
        recomputed every `REBALANCE_S`, and when slots are added.
        """
        if now_s - self._weighed_s >= REBALANCE_S:
            wanted_now = set(wanted)
            self._means = {key: mean for key, mean in self._means.items() if key in wanted_now}
            self._weights, self._weighed_s = dict(self._means), now_s
        slots = sorted(live)
        inputs = wanted, slots, self._weighed_s
        if inputs == self._inputs:
            return self.placed
        self._inputs = inputs
        if not slots:
            self.placed = {}
            return self.placed
        number = {slot: index for index, slot in enumerate(slots)}
        before = {key: number[slot] for key, slot in self.placed.items() if slot in number}
        found = assign(sorted(wanted), self._weights, len(slots), before)
        self.placed = {key: slots[index] for key, index in found.items()}
        return self.placed


def assign(partitions: Collection[T], bytes_s: Mapping[T, float], tasks: int, placed: Mapping[T, int]) -> dict[T, int]:
    """Partition → task, counted from 0. It takes the time of sorting them.

    :param bytes_s: measured rate of each partition.
    :param placed: current task of each partition.
    """
    if tasks < 1:
        raise ValueError(f"{tasks} tasks: there has to be one at least")
    known = [bytes_s[partition] for partition in partitions if partition in bytes_s]
    usual = mean(known) if known else 0.0
    # Whole bytes: sums of fractions depend on their order, so a second pass would move what the first has placed.
    weight = {partition: max(round(bytes_s.get(partition, usual)), _LEAST_BYTES_S) for partition in partitions}
    # The largest first: the last ones are small and fill the remaining differences.
    largest_first = sorted(weight, key=lambda one: (-weight[one], str(one)))
    found = {one: placed[one] for one in largest_first if placed.get(one, tasks) < tasks}
    load = [0] * tasks
    for one, task in found.items():
        load[task] += weight[one]
    least = [(total, task) for task, total in enumerate(load)]
    heapify(least)
    for one in largest_first:
        if one not in found:
            total, found[one] = heappop(least)
            load[found[one]] = total + weight[one]
            heappush(least, (load[found[one]], found[one]))
    # Repeat until a pass moves nothing, so that the result is stable. Each move brings two loads closer together.
    while _even_out(found, weight, load, largest_first):
        pass
    return found


def _even_out(found: dict[T, int], weight: Mapping[T, int], load: list[int], largest_first: Collection[T]) -> bool:
    """Moves partitions from overloaded tasks, the largest first that fits elsewhere; True if any was moved."""
    moved = False
    even = sum(load) / len(load)
    max_load = SLACK * even
    full = {task for task, total in enumerate(load) if total > max_load}
    theirs: dict[int, list[T]] = {task: [] for task in full}
    for one in largest_first:
        if found[one] in full:
            theirs[found[one]].append(one)
    least = [(total, task) for task, total in enumerate(load)]
    heapify(least)
    for task in sorted(full, key=lambda one: -load[one]):
        movable = [one for one in theirs[task] if weight[one] <= max_load]
        if sum(weight[one] for one in movable) < WORTH_IT * even:
            continue
        for one in movable:
            while least[0][0] != load[least[0][1]]:
                heappop(least)  # the task's load has changed since
            free, more = least[0][1], weight[one]
            if load[task] <= max_load:
                break
            # The new load must be below the limit, or at least no higher than the giving task's is then.
            if free != task and (load[free] + more <= max_load or load[free] + more <= load[task] - more):
                found[one], moved = free, True
                load[task] -= more
                load[free] += more
                heappush(least, (load[task], task))
                heappush(least, (load[free], free))
    return moved
