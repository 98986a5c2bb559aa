"""A value that a thread reads again while pages ask for it, so that no viewer waits for a cluster that is away.

Viewers share the looks: their number does not change what the installation is asked. Without viewers nothing is read.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
LOOK_EVERY_S = 5.0
"""Minimum interval of looks: each opens a ZooKeeper session."""
SHARE = 10
"""An interval is this many times as long as the look took: looks use a tenth of a core at most."""
UNWATCHED_S = 10.0
"""A look that begins so long after it was due had no viewer before. The value of the last one may be of hours ago, and
a page that showed it would tell an operator that nothing waits."""
FIRST_WAIT_S = 0.6
"""A viewer waits so long for the first look; after that the page says that the look is under way."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """:ivar value: of the last look that succeeded; None: there was none yet, or no viewer for a while.
    :ivar age_s: its age; None without a value.
    :ivar error: why the last look failed; empty: it did not.
    :ivar look: number of the look that has this value.
    """

    value: T | None
    age_s: float | None
    error: str
    look: int = 0


class Watched(Generic[T]):
    """Thread-safe.

    :param read: one look. It may block for long.
    :param errors: exceptions of `read` that have a text for people; any other is logged, and shown by its type.
    """

    def __init__(self, read: Callable[[], T], errors: tuple[type[Exception], ...]) -> None:
        self._read, self._errors = read, errors
        self._guard = threading.Condition()
        self._value: T | None = None
        self._at_s: float | None = None
        self._error = ""
        self._look_number = 0
        self._next_s = float("-inf")
        self._looking = False
        self._outdated = True

    def seen(self) -> Seen[T]:
        """The last value at once; the first one, also after a time without viewers, after a short wait."""
        with self._guard:
            if not self._looking and time.monotonic() >= self._next_s:
                self._looking = True
                self._outdated |= time.monotonic() - self._next_s >= UNWATCHED_S
                threading.Thread(target=self._look, name="switchyard-page", daemon=True).start()
            if self._outdated:
                self._guard.wait_for(lambda: not self._outdated, FIRST_WAIT_S)
            if self._outdated:
                return Seen(None, None, "")
            age_s = None if self._at_s is None else time.monotonic() - self._at_s
            return Seen(self._value, age_s, self._error, self._look_number)

    def _look(self) -> None:
        began_s, value, error = time.monotonic(), None, ""
        try:
            value = self._read()
        except self._errors as known:
            error = str(known)
        except Exception as fault:
            _log.exception("the page cannot be read")
            error = f"{type(fault).__name__}: see the log of Airflow's API server"
        with self._guard:
            ended_s = time.monotonic()
            if not error:
                self._value, self._at_s = value, began_s
                self._look_number += 1
            self._error = error
            self._next_s = ended_s + max(LOOK_EVERY_S, SHARE * (ended_s - began_s))
            self._looking = self._outdated = False
            self._guard.notify_all()
