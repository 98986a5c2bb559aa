"""A thread that polls, at once on request, and writes the result to ZooKeeper: notices of a source's changes, say."""

import logging
import threading
from collections.abc import Callable, Mapping

from ha_core.datacache.zookeeper import CacheNodes
from ha_core.store.errors import StoreError
from ha_core.store.store import Store

log = logging.getLogger(__name__)
LOOK_S = 0.5
RETRY_S = 2.0


class Poller:
    """Between `start` and `close`.

    :ivar error: why the last look has failed; empty: it has not.
    """

    def __init__(
        self,
        name: str,
        look: Callable[[Store], object],
        connect: Callable[[], Store],
        failed: Callable[[str], object],
        look_s: float = LOOK_S,
    ) -> None:
        """
        :param look: may raise anything: the next look repeats it.
        :param connect: to ZooKeeper; called again after a failure.
        :param failed: called once with each new fault.
        """
        self._look, self._connect, self._failed, self._look_s = look, connect, failed, look_s
        self._store: Store | None = None
        self._wanted = threading.Event()
        self._closing = False
        self.error = ""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def now(self) -> None:
        """Look at once."""
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
                if self._store is None:
                    self._store = self._connect()
                self._look(self._store)
                self.error = ""
            # `look` queries a database driver that may raise anything; the next look repeats it.
            except Exception as error:
                self._note(str(error) if isinstance(error, StoreError) else type(error).__name__)
            self._wanted.wait(RETRY_S if self.error else self._look_s)

    def _note(self, error: str) -> None:
        if error != self.error:
            self._failed(error)
        self.error = error


class ChangeNotifier(Poller):
    """Notifies the nodes of caches of changes of their source, by any writer, so that all read it at once.

    It polls the source's newest times, which costs a source next to nothing. Nodes read now and then anyway: without
    ZooKeeper, or without this process, they learn of a change later, but of each one.
    """

    def __init__(
        self,
        newest: Callable[[], Mapping[str, int]],
        connect: Callable[[], Store],
        say: Callable[[str], object] = log.warning,
        look_s: float = LOOK_S,
    ) -> None:
        """
        :param newest: cache → time of its source's newest change. May raise anything.
        :param connect: to ZooKeeper; called again after a failure.
        :param say: reports faults to people.
        """
        self._newest = newest
        self._notified: dict[str, int] = {}
        """Cache → the change that its nodes were notified of."""
        failed = "Nodes are not notified of changes at once, and read them later"
        super().__init__("datacache-announcing", self._notify, connect, lambda why: say(f"{failed}: {why}"), look_s)

    def _notify(self, store: Store) -> None:
        for name, newest_us in self._newest().items():
            # At the first poll, too: nodes were not notified of changes before it.
            if self._notified.get(name) != newest_us:
                nodes = CacheNodes(store.tree, name)
                nodes.create()
                nodes.announce()
                self._notified[name] = newest_us
