"""Writes a cache's content to its file, in a thread of its own: a slow disk delays no commit.

If several states arrive during a write, only the newest is written.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from ha_core.datacache.cache_file import CacheFile, CacheFileError
from ha_core.datacache.core.uncommitted import Content

log = logging.getLogger(__name__)

CURRENT_S = 10.0
"""How often the file's time is renewed while its content is still all that the source has."""
RETRY_S = 30.0


class CacheFileWriter:
    """:ivar error: why the served content is not in the file; empty: it is."""

    def __init__(self, name: str, file: CacheFile, age_s: Callable[[], float | None]) -> None:
        """:param age_s: time since the served content was all that the source had; None: unknown."""
        self._name, self._file, self._age_s = name, file, age_s
        self._served: Content | None = None
        self._wanted = threading.Event()
        self._closing = False
        self.error = ""
        self._thread = threading.Thread(target=self._run, name=f"datacache-keeping-{name}", daemon=True)

    def start(self, content: Content | None) -> None:
        """:param content: the content that is served already."""
        self._served = content
        self._wanted.set()
        self._thread.start()

    def keep(self, content: Content) -> None:
        """`content` is served from now on."""
        self._served = content
        self._wanted.set()

    def close(self) -> None:
        """The served content is written before this returns."""
        self._closing = True
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._wanted.wait(RETRY_S if self.error else CURRENT_S)
            self._wanted.clear()
            closing = self._closing
            try:
                self._look()
                self.error = ""
            except CacheFileError as error:
                self._note(str(error))
            except Exception as error:
                # A bug; serving does not depend on the file.
                log.exception("cache %s: the content could not be written to its file", self._name)
                self.error = type(error).__name__
            if closing:
                return

    def _look(self) -> None:
        served, age_s = self._served, self._age_s()
        if served is None:
            return
        if served is not self._file.content or age_s is not None:
            self._file.keep(served, time.time() - (0.0 if age_s is None else age_s))

    def _note(self, error: str) -> None:
        if error != self.error:
            log.warning("cache %s: not kept for a restart: %s", self._name, error)
        self.error = error
