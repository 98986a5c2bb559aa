"""Waiting for a condition; the deadline is only there so that a failure ends, and says what was awaited."""

import time
from collections.abc import Callable

PATIENCE_S = 120.0


def until(holds: Callable[[], object], what: str | Callable[[], object] = "it", timeout_s: float = PATIENCE_S) -> None:
    """Return once the condition holds.

    :param what: named by the error; a function is called when time is over.
    """
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not after {timeout_s:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.02)


def soon(holds: Callable[[], object], what: str | Callable[[], object] = "it") -> None:
    """As `until`, for a condition that holds before the mirror's fallbacks (30 s and more) would bring it about."""
    until(holds, what, 15.0)
