"""The clock of leases, and of everything that is fed into sessions.

It goes on while the process is stopped, and, unlike the monotonic clock, while the machine sleeps, since ZooKeeper does
not. No clock of the machine counts a pause of the whole virtual machine (docs/design/leases.md).
"""

import time
from collections.abc import Callable
from functools import partial

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def wall() -> float:
    """Seconds since 1970, to compare with other machines' times."""
    return time.time()


now: Callable[[], float] = partial(time.clock_gettime, _CLOCK)
"""Seconds since some instant before this process began."""
