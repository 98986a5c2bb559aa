"""Notifies the nodes of caches of changes of their source, by any writer, so that all read it at once.

It polls the source's newest times, which costs a source next to nothing; `now` polls at once. Nodes read now and then
anyway: without ZooKeeper, or without this process, they learn of a change later, but of each one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ha_core.datacache.poller import LOOK_S, Poller
from ha_core.datacache.zookeeper import CacheNodes
from ha_core.store.store import Store

log = logging.getLogger(__name__)


class ChangeNotifier(Poller):
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
