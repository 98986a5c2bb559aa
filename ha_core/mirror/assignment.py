"""Which task copies which partitions: even by measured bytes, and as few moved as that takes.

A partition that changes its task is taken over, which costs it some tenths of a second and its target two markers. So
what has a place keeps it, unless its task has far more to do than the others (`SLACK` times what is even) *and* what
can be moved makes a difference (`WORTH_IT` of what is even): beside one partition that is larger than all others
together, idle ones stay where they are. Partitions of which nothing is measured yet count as the mean of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush
from statistics import mean
from typing import TypeVar

T = TypeVar("T")
SLACK = 1.25
"""Times the mean of all tasks that one may have to do before something is taken from it."""
WORTH_IT = 0.05
"""Of the mean of all tasks: less is not moved."""
_LEAST_BYTES_S = 1
"""Of a partition: one that stands still is asked for as well."""


def assign(partitions: Collection[T], bytes_s: Mapping[T, float], tasks: int, placed: Mapping[T, int]) -> dict[T, int]:
    """Partition → task, counted from 0. It takes the time of sorting them.

    :param bytes_s: partition → what was measured of it.
    :param placed: where partitions are now.
    """
    if tasks < 1:
        raise ValueError(f"{tasks} tasks: there has to be one at least")
    known = [bytes_s[one] for one in partitions if one in bytes_s]
    usual = mean(known) if known else 0.0
    # Whole bytes: sums of fractions depend on their order, and a second look would move what the first has placed.
    weight = {one: max(round(bytes_s.get(one, usual)), _LEAST_BYTES_S) for one in partitions}
    # The largest first: what comes last is small, and fills what is left even.
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
    # Until a look moves nothing: then the next one does not either. Each move brings two loads nearer to each other.
    while _even_out(found, weight, load, largest_first):
        pass
    return found


def _even_out(found: dict[T, int], weight: Mapping[T, int], load: list[int], largest_first: Collection[T]) -> bool:
    """Takes from tasks that have too much, the largest first of what fits elsewhere; whether anything was moved."""
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
                heappop(least)  # of a task whose load has changed since
            free, more = least[0][1], weight[one]
            if load[task] <= most:
                break
            # It has to end even afterwards, or at least no fuller than the one that gives it is then.
            if free != task and (load[free] + more <= most or load[free] + more <= load[task] - more):
                found[one], moved = free, True
                load[task] -= more
                load[free] += more
                heappush(least, (load[task], task))
                heappush(least, (load[free], free))
    return moved
