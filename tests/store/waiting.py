"""Waiting for what happens by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

DEADLINE_S = 30.0


def until(condition: Callable[[], bool], what: str) -> None:
    """Return once the condition holds; the deadline is only there so that a failure ends."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.01)
