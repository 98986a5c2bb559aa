"""Bodies of pages, each made once for a look and the words of its filter: viewers who reload as fast as they can cost
no more than one.

At 10,000 topics a body takes a core for a tenth of a second, and all requests to the API server share one core.
"""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from markupsafe import Markup

from ha_core.operators.pages.reading import READER_WAIT_S, ReadersBusyError
from ha_core.operators.pages.watched import Seen

T = TypeVar("T")
MAX_KEPT = 50
"""Bodies; each has some 100 kB."""
MAX_OLDER_S = 15.0
"""Viewers are given the body of the look before, up to this age, while another thread makes the new one."""
FIRST_WAIT_S = 2.0
"""A viewer waits for a body that another thread makes."""
MAX_WAITING = 4
"""Viewers with a filter that wait for `READER_WAIT_S`: more would hold threads of the API server that others need."""
_FILTERED = ""
"""In place of a page: bodies with words are made one at a time, since every viewer may ask for others."""


class Body(NamedTuple):
    look: int
    at_s: float
    html: Markup

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.at_s


class Bodies:
    """Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._kept: dict[tuple[str, str], Body] = {}
        self._making: dict[str, threading.Lock] = {}
        self._waiters = threading.BoundedSemaphore(MAX_WAITING)

    def body(self, page: str, words: str, seen: Seen[T], show: Callable[[T], Markup]) -> Body:
        """The body of a look that has a value.

        :param words: of the viewer's filter.
        :raises ReadersBusyError: bodies of other filters are being made.
        """
        assert seen.value is not None
        assert seen.age_s is not None
        with self._guard:
            kept = self._kept.get((page, words))
            making = self._making.setdefault(_FILTERED if words else page, threading.Lock())
        if kept is not None and kept.look == seen.look:
            return kept
        older = kept is not None and kept.age_s <= MAX_OLDER_S
        if not self._begin(making, words, older):
            if older:
                assert kept is not None
                return kept
            raise ReadersBusyError("Other requests are being answered. Ask again in a moment.")
        try:
            with self._guard:
                kept = self._kept.get((page, words))
            if kept is None or kept.look < seen.look:
                kept = Body(seen.look, time.monotonic() - seen.age_s, show(seen.value))
                self._keep((page, words), kept)
            return kept
        finally:
            making.release()

    def _begin(self, making: threading.Lock, words: str, older: bool) -> bool:
        """Whether this viewer's thread makes the body."""
        if older or not words:
            return making.acquire(timeout=0.0 if older else FIRST_WAIT_S)
        if not self._waiters.acquire(blocking=False):
            return False
        try:
            return making.acquire(timeout=READER_WAIT_S)
        finally:
            self._waiters.release()

    def _keep(self, key: tuple[str, str], body: Body) -> None:
        with self._guard:
            self._kept.pop(key, None)
            self._kept[key] = body
            while len(self._kept) > MAX_KEPT:
                del self._kept[next(iter(self._kept))]
