"""A value made from files, made again when these have changed.

`current` checks the files, once a second at most: it needs no thread, and no watch, which a mounted volume would not
support. A certificate and its key are replaced one after the other: while they do not fit, that is logged once, the
last value stays in force, and the next change is tried again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from ha_core.tls.contexts import TlsFilesError

_log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0

T = TypeVar("T")
Mark = tuple[int, int, int] | None


class Renewing(Generic[T]):
    """Thread-safe."""

    def __init__(
        self, files: Iterable[str], make: Callable[[], T], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """:raises TlsFilesError: of `make`, since there is no earlier value."""
        self._files, self._make, self._clock = tuple(files), make, clock
        self._guard = threading.Lock()
        self._looked_at = clock()
        self._marks = self._look()
        self._made = make()

    def current(self) -> T:
        """The value of the newest files that can be used."""
        now = self._clock()
        if now - self._looked_at < LOOK_EVERY_S:
            return self._made
        with self._guard:
            if now - self._looked_at >= LOOK_EVERY_S:
                self._looked_at = now
                self._renew()
            return self._made

    def _renew(self) -> None:
        marks = self._look()  # before the read, so that later changes are seen the next time
        if marks == self._marks:
            return
        self._marks = marks
        try:
            self._made = self._make()
        except TlsFilesError as error:
            _log.error("TLS goes on with the files as they were: %s", error)
        else:
            _log.info("TLS uses the new %s", ", ".join(self._files))

    def _look(self) -> tuple[Mark, ...]:
        return tuple(map(_mark, self._files))


def _mark(file: str) -> Mark:
    """A value that changes with the file's content; None: the file is missing."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
