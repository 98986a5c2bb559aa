"""Whether Spark's driver is alive, for jobs that run for ever.

Each call into its Java process waits for as long as that stands still, and says nothing. So one thread asks it again
and again, and whoever wants to know gets the last answer, or is told that none comes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

log = logging.getLogger(__name__)
EVERY_S = 1.0
PATIENCE_S = 30.0
"""Longer than it ever collects garbage for. Who leads copiers is missed by them no sooner."""
STOP_S = 30.0
"""A session has so long to end."""


class SparkGoneError(Exception):
    """Spark's driver on this machine has ended, or stands still."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"Spark's driver (the Java process of this job) {why}. Its log may say why; run the job again. "
            "What it had begun is taken over by the next one."
        )


class DriverWatchdog:
    """Asks how many tasks Spark runs at once."""

    def __init__(self, ask: Callable[[], int], patience_s: float = PATIENCE_S, every_s: float = EVERY_S) -> None:
        self._ask, self._patience_s, self._every_s = ask, patience_s, every_s
        self._answer = ask()
        self._asked_s: float | None = None
        """Since when it is being asked."""
        self._gone: Exception | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._go_on, name="spark-pulse", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def answer(self) -> int:
        """The last one.

        :raises SparkGoneError: no other comes.
        """
        if self._gone is not None:
            raise SparkGoneError(f"has ended ({first_line(self._gone)})")
        asked_s = self._asked_s
        if asked_s is not None and time.monotonic() - asked_s > self._patience_s:
            raise SparkGoneError(f"has not answered for {self._patience_s:.0f} s")
        return self._answer

    def _go_on(self) -> None:
        while not self._ended.wait(self._every_s):
            self._asked_s = time.monotonic()
            try:
                self._answer = self._ask()
            except Exception as error:
                # Whatever py4j and Spark raise where nobody is there to answer.
                self._gone = error
                return
            self._asked_s = None


def within(seconds: float, call: Callable[[], object]) -> bool:
    """Whether the call came to an end by then. If not it goes on, and nobody waits for it."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def end(session: Any, gone: bool = False) -> None:
    """Ends a session on this machine; its Java process is killed where that does not come to an end.

    :param gone: it is known not to answer.
    """
    process = getattr(type(session.sparkContext)._gateway, "proc", None)
    if gone or not within(STOP_S, session.stop):
        log.warning("Spark's driver does not end by itself: it is killed")
        if process is not None:  # none where spark-submit has started this job, and not this job Spark
            with suppress(OSError):
                process.kill()


def first_line(error: Exception) -> str:
    """What it says first; of what Java has thrown, not by which call."""
    first, *others = str(error).strip().split("\n")
    if first.startswith("An error occurred while calling") and others:
        return others[0].removeprefix(":").strip()
    return first or repr(error)
