"""The partitions of this worker, as ZooKeeper told them a moment ago.

The target fences copiers, and nothing fences checkpoints and commits in empty groups. So they are written only within
seconds of this question: a worker that stood still in between asks again.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from ha_core.flows.sharing import share_of
from ha_core.plan.facts.clusters import Partition

_FRESH_S = 3.0
"""Less than a session of ZooKeeper lasts: no other worker has got the shares in this time by a session's end."""


def _counting_sleep() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass
class HeldPartitions:
    """:ivar ask: the shares of this worker now."""

    ask: Callable[[], frozenset[int]]
    clock: Callable[[], float] = _counting_sleep
    _shares: frozenset[int] = frozenset()
    _asked_at: float = float("-inf")

    def has(self, partition: Partition) -> bool:
        """:param partition: of the source."""
        if self.clock() - self._asked_at >= _FRESH_S:
            self._shares = self.ask()
            self._asked_at = self.clock()
        return share_of(*partition) in self._shares
