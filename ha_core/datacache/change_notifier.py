"""Tells the nodes of caches that their source was changed, whoever has changed it, so that all read it at once.

It looks at the source's newest times, often, which costs a source next to nothing; `now` has it look at once. Nodes
read by themselves now and then: without ZooKeeper, or without this, they learn of a change later, but of each one.
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
        :param newest: by the name of a cache, the time of its source's newest change. May raise anything.
        :param connect: to ZooKeeper; called again after a failure.
        :param say: to people, what goes wrong.
        """
        self._newest = newest
        self._told: dict[str, int] = {}
        """What nodes know of, by the name of the cache."""
        failed = "Nodes are not told of changes at once, and read them later"
        super().__init__("datacache-announcing", self._tell, connect, lambda why: say(f"{failed}: {why}"), look_s)

    def _tell(self, store: Store) -> None:
        for name, newest_us in self._newest().items():
            # Of the first look as well: what was changed while nobody looked was not told.
            if self._told.get(name) != newest_us:
                nodes = CacheNodes(store.tree, name)
                nodes.create()
                nodes.announce()
                self._told[name] = newest_us
