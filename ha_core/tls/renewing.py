"""What is made of files, made anew when these have changed.

Looked at by whoever needs it, once a second at most: no thread, and no watch that a mounted volume would not serve. Who
replaces a certificate and its key replaces two files, one after the other: what cannot be used then is said once, what
was made before stays in force, and the next change is tried again.
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
    """Safe for threads."""

    def __init__(
        self, files: Iterable[str], make: Callable[[], T], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """:raises TlsFilesError: of `make`, which has no older ones to go on with."""
        self._files, self._make, self._clock = tuple(files), make, clock
        self._guard = threading.Lock()
        self._looked_at = clock()
        self._marks = self._look()
        self._made = make()

    def current(self) -> T:
        """Of the newest files that can be used."""
        now = self._clock()
        if now - self._looked_at < LOOK_EVERY_S:
            return self._made
        with self._guard:
            if now - self._looked_at >= LOOK_EVERY_S:
                self._looked_at = now
                self._renew()
            return self._made

    def _renew(self) -> None:
        marks = self._look()  # before they are read: what changes meanwhile is seen the next time
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
    """What changes with the file's content; None: it is not there."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
