"""Tells the nodes of caches that their source was changed, whoever has changed it, so that all read it at once.

It looks at the source's newest times, often, which costs a source next to nothing; `now` has it look at once. Nodes
read by themselves now and then: without ZooKeeper, or without this, they learn of a change later, but of each one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from ha_core.datacache.zookeeper import CacheNodes
from ha_core.store.errors import StoreError
from ha_core.store.store import Store

log = logging.getLogger(__name__)

LOOK_S = 0.5
RETRY_S = 2.0


class Announcer:
    """Between `start` and `close`.

    :ivar error: why nodes are not told; empty: they are.
    """

    def __init__(
        self,
        newest: Callable[[], Mapping[str, int]],
        connect: Callable[[], Store],
        say: Callable[[str], object] = log.warning,
        look_s: float = LOOK_S,
    ) -> None:
        """
        :param newest: by the name of a cache, the time of its source's newest change. May raise anything.
        :param connect: to ZooKeeper; called again after a failure.
        :param say: to people, what goes wrong.
        """
        self._newest, self._connect, self._say, self._look_s = newest, connect, say, look_s
        self._told: dict[str, int] = {}
        """What nodes know of, by the name of the cache."""
        self._store: Store | None = None
        self._wanted = threading.Event()
        self._closing = False
        self.error = ""
        self._thread = threading.Thread(target=self._run, name="datacache-announcing", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def now(self) -> None:
        """Something was changed."""
        self._wanted.set()

    def close(self) -> None:
        self._closing = True
        self._wanted.set()
        self._thread.join()
        if self._store is not None:
            self._store.close()

    def _run(self) -> None:
        while not self._closing:
            self._wanted.clear()
            try:
                self._look()
                self.error = ""
            # A source is a database of somebody else's making: whatever it raises, the next look repeats it.
            except Exception as error:
                self._note(str(error) if isinstance(error, StoreError) else type(error).__name__)
            self._wanted.wait(RETRY_S if self.error else self._look_s)

    def _look(self) -> None:
        if self._store is None:
            self._store = self._connect()
        for name, newest_us in self._newest().items():
            # Of the first look as well: what was changed while nobody looked was not told.
            if self._told.get(name) != newest_us:
                nodes = CacheNodes(self._store.tree, name)
                nodes.create()
                nodes.announce()
                self._told[name] = newest_us

    def _note(self, error: str) -> None:
        if error != self.error:
            self._say(f"Nodes are not told of changes at once, and read them later: {error}")
        self.error = error
