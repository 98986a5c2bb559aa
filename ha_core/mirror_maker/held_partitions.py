"""Knows which partitions this worker owns, from an answer of ZooKeeper that is at most 3 s old.

The target fences copiers, but nothing fences checkpoints and commits for empty groups. So a worker writes them only
within 3 s after it has asked ZooKeeper; a worker that hung in between asks again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ha_core.flows.sharing import share_of
from ha_core.plan.facts.clusters import Partition

_FRESH_S = 3.0
"""Seconds for which an answer counts. A ZooKeeper session lasts longer, so no other worker can have got the shares
meanwhile because this worker's session ended."""


def _counting_sleep() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class HeldPartitions:
    """:ivar ask: asks ZooKeeper for this worker's shares."""

    ask: Callable[[], frozenset[int]]
    clock: Callable[[], float] = _counting_sleep
    _shares: frozenset[int] = frozenset()
    _asked_at: float = float("-inf")

    def has(self, partition: Partition) -> bool:
        """Whether this worker owns a partition.

        :param partition: partition of the source.
        """
        if self.clock() - self._asked_at >= _FRESH_S:
            self._shares = self.ask()
            self._asked_at = self.clock()
        return share_of(*partition) in self._shares
