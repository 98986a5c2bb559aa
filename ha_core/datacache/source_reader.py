"""Reads the source, in a thread of its own: an answer that takes long, or never comes, delays no commit."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from ha_core.datacache.core.cache import Cache
from ha_core.datacache.core.digest import Digest
from ha_core.datacache.core.errors import SourceWentBackError
from ha_core.datacache.core.source import Row, Source
from ha_core.datacache.core.uncommitted import Content
from ha_core.datacache.state import CacheSettings

log = logging.getLogger(__name__)

FIRST_RETRY_S = 0.5
"""Pause after a failure; doubled with each further one, up to the time between two reads."""
_SLICE_ROWS, _PAUSE_S = 500, 0.001
"""Rows between pauses of a comparison, for other threads: a million rows take seconds."""
_READS = 64
"""Newest reads whose times are remembered until their content is served."""


class SourceReader:
    """
    :ivar error: why the last attempt has failed; empty: it has not.
    :ivar trouble: its kind in a word that has no secret in it.
    :ivar trouble_since_s: time of the first failure in a row, in seconds since the epoch; 0: none.
    :ivar begun: how many reads have begun.
    :ivar done: number of the newest read that read all there was; 0: none.
    :ivar went_back: the last attempt found that the source has lost changes.
    """

    def __init__(
        self,
        name: str,
        source: Source,
        cache: Cache,
        guard: threading.Lock,
        settings: CacheSettings,
        done: Callable[[], None],
        clock_s: Callable[[], float],
    ) -> None:
        """:param done: called after each attempt, from the thread."""
        self._name, self._source, self._cache, self._guard = name, source, cache, guard
        self._settings, self._done, self._clock_s = settings, done, clock_s
        self._wanted = threading.Event()
        self._closing = False
        self._reads: deque[tuple[float, int]] = deque(maxlen=_READS)
        """When each began, and up to where it read."""
        self._fails = 0
        self._first_check_s = settings.check_s
        self._next_check_s = 0.0
        self.error = self.trouble = ""
        self.trouble_since_s = 0
        self.begun = self.done = 0
        self.went_back = False
        self.checked_s: float | None = None
        """When the served content was last equal to the source."""
        self._thread = threading.Thread(target=self._run, name=f"datacache-reading-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def goes_on(self, served_us: int, age_s: float) -> None:
        """The content of an earlier process is served; `age_s` ago it was all that the source had. It is compared with
        the source after the first read, and not only after `check_s`."""
        self._reads.append((self._clock_s() - age_s, served_us))
        self._first_check_s = 0.0

    def now(self) -> None:
        """Read at once."""
        self._wanted.set()

    def close(self, wait_s: float) -> None:
        """:param wait_s: for an answer in flight; the thread ends with it in any case."""
        self._closing = True
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def current_s(self, served_us: int) -> float | None:
        """When the source was last known to have nothing newer than `served_us`; None: never."""
        return max((began_s for began_s, through_us in list(self._reads) if through_us <= served_us), default=None)

    def _run(self) -> None:
        self._next_check_s = self._clock_s() + self._first_check_s
        while not self._closing:
            self._wanted.clear()
            self._attempt()
            self._done()
            self._wanted.wait(self._pause_s())

    def _pause_s(self) -> float:
        every_s = self._settings.every_s
        return min(every_s, FIRST_RETRY_S * 2 ** min(self._fails - 1, 20)) if self._fails else every_s

    def _attempt(self) -> None:
        try:
            self._read()
            if self._clock_s() >= self._next_check_s:
                self._check()
        # The source is a database driver or an HTTP client that may raise anything; the served content stays.
        except Exception as error:
            self._fails += 1
            self.went_back = isinstance(error, SourceWentBackError)
            if str(error) != self.error:
                log.warning("cache %s: not read, the served content stays in force: %s", self._name, error)
            self.error, self.trouble = str(error) or type(error).__name__, type(error).__name__
            self.trouble_since_s = self.trouble_since_s or int(time.time())
        else:
            self._fails, self.error, self.trouble, self.trouble_since_s, self.went_back = 0, "", "", 0, False

    def _read(self) -> None:
        limit = self._settings.page_rows
        began_s = self._clock_s()
        self.begun += 1
        more = True
        while more and not self._closing:
            with self._guard:
                after_us = self._cache.after_us
            changes = self._source.changes(after_us, limit)
            with self._guard:
                more = self._cache.accept(changes, after_us, limit)
        if not more:
            self._reads.append((began_s, changes.through_us))
            self.done = self.begun

    def _check(self) -> None:
        main = self._cache.main
        if main is not None:
            theirs = self._source.digest(main.at_us)
            ours = self._digest(main)
            if theirs is not None and ours is not None and theirs != ours:
                log.error(
                    "cache %s: the served content differs from the source at %d (%s, the source has %s): "
                    "everything is read anew",
                    self._name,
                    main.at_us,
                    ours,
                    theirs,
                )
                with self._guard:
                    self._cache.reload()
                self.now()
            elif theirs is not None:
                self.checked_s = self._clock_s()
        self._next_check_s = self._clock_s() + self._settings.check_s

    def _digest(self, main: Content) -> str | None:
        """None: the thread has to end."""
        digest = Digest()
        rows: list[Row] = []
        for row in main.rows.all():
            rows.append(row)
            if len(rows) == _SLICE_ROWS:
                digest.add(rows)
                rows.clear()
                if self._closing:
                    return None
                time.sleep(_PAUSE_S)
        digest.add(rows)
        return str(digest)
