"""Checks that Spark's driver is alive, for jobs without an end.

A call into its Java process blocks silently while that process hangs. So one thread polls it, and callers get the last
answer, or an error when there is none for too long.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

log = logging.getLogger(__name__)
EVERY_S = 1.0
PATIENCE_S = 30.0
"""Longer than any garbage collection. The copiers that a driver leads do not need it sooner."""
STOP_S = 30.0
"""Time for a session to end."""


class SparkGoneError(Exception):
    """Spark's driver on this machine has ended, or hangs."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"Spark's driver (the Java process of this job) {why}. Its log may say why; run the job again. "
            "What it had begun is taken over by the next one."
        )


class DriverWatchdog:
    """Polls how many tasks Spark runs at once."""

    def __init__(self, ask: Callable[[], int], patience_s: float = PATIENCE_S, every_s: float = EVERY_S) -> None:
        self._ask, self._patience_s, self._every_s = ask, patience_s, every_s
        self._answer = ask()
        self._polled_s: float | None = None
        """Start of the current poll; None between polls."""
        self._gone: Exception | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._poll, name="spark-pulse", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def answer(self) -> int:
        """The last answer.

        :raises SparkGoneError: no newer one comes.
        """
        if self._gone is not None:
            raise SparkGoneError(f"has ended ({first_line(self._gone)})")
        polled_s = self._polled_s
        if polled_s is not None and time.monotonic() - polled_s > self._patience_s:
            raise SparkGoneError(f"has not answered for {self._patience_s:.0f} s")
        return self._answer

    def _poll(self) -> None:
        while not self._ended.wait(self._every_s):
            self._polled_s = time.monotonic()
            try:
                self._answer = self._ask()
            except Exception as error:
                # py4j and Spark raise various errors when the process is gone.
                self._gone = error
                return
            self._polled_s = None


def within(seconds: float, call: Callable[[], object]) -> bool:
    """True if the call ended in time. If not it continues, unattended."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def end(session: Any, gone: bool = False) -> None:
    """Ends a session on this machine; kills its Java process if it does not end.

    :param gone: it is known not to answer.
    """
    process = getattr(type(session.sparkContext)._gateway, "proc", None)
    if gone or not within(STOP_S, session.stop):
        log.warning("Spark's driver does not end by itself: it is killed")
        if process is not None:  # None if spark-submit has started this job rather than this job Spark
            with suppress(OSError):
                process.kill()


def first_line(error: Exception) -> str:
    """Its first line; for errors thrown in Java without the line that names the call."""
    first, *others = str(error).strip().split("\n")
    if first.startswith("An error occurred while calling") and others:
        return others[0].removeprefix(":").strip()
    return first or repr(error)
