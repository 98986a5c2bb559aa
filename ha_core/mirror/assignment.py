"""Assigns partitions to tasks: evenly by measured bytes, with few moves.

A partition that changes its task is taken over, which costs it some tenths of a second and its target two markers. So a
partition keeps its task unless that task has far more to do than the others (`SLACK` times the mean) *and* the movable
partitions make a difference (`WORTH_IT` of the mean): beside one partition that is larger than all others together,
idle ones stay where they are. Partitions without a measurement count as the mean of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush
from statistics import mean
from typing import TypeVar

T = TypeVar("T")
SLACK = 1.25
"""Load of a task, as a multiple of the mean, above which partitions are taken from it."""
WORTH_IT = 0.05
"""Share of the mean load below which nothing is moved."""
_LEAST_BYTES_S = 1
"""Minimum per partition: an idle one is fetched too."""


def assign(partitions: Collection[T], bytes_s: Mapping[T, float], tasks: int, placed: Mapping[T, int]) -> dict[T, int]:
    """Partition → task, counted from 0. It takes the time of sorting them.

    :param bytes_s: measured rate of each partition.
    :param placed: current task of each partition.
    """
    if tasks < 1:
        raise ValueError(f"{tasks} tasks: there has to be one at least")
    known = [bytes_s[one] for one in partitions if one in bytes_s]
    usual = mean(known) if known else 0.0
    # Whole bytes: sums of fractions depend on their order, so a second pass would move what the first has placed.
    weight = {one: max(round(bytes_s.get(one, usual)), _LEAST_BYTES_S) for one in partitions}
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
    most = SLACK * even
    full = {task for task, total in enumerate(load) if total > most}
    theirs: dict[int, list[T]] = {task: [] for task in full}
    for one in largest_first:
        if found[one] in full:
            theirs[found[one]].append(one)
    least = [(total, task) for task, total in enumerate(load)]
    heapify(least)
    for task in sorted(full, key=lambda one: -load[one]):
        movable = [one for one in theirs[task] if weight[one] <= most]
        if sum(weight[one] for one in movable) < WORTH_IT * even:
            continue
        for one in movable:
            while least[0][0] != load[least[0][1]]:
                heappop(least)  # the task's load has changed since
            free, more = least[0][1], weight[one]
            if load[task] <= most:
                break
            # The new load must be below the limit, or at least no higher than the giving task's is then.
            if free != task and (load[free] + more <= most or load[free] + more <= load[task] - more):
                found[one], moved = free, True
                load[task] -= more
                load[free] += more
                heappush(least, (load[task], task))
                heappush(least, (load[free], free))
    return moved
