"""Looks for partition leaders in the targets of topics whose cut lies ahead.

METADATA names the origin while a topic crosses over, so no client's question teaches the gateway the leaders in the
target. The gateway looks for them when it gets the map, and reports that it serves the map when it knows the leaders,
or has tried: readers and producers that reach a cut then go on at once.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from gateway.model.topology import Topology
from gateway.upstream.clusters import Clusters
from ha_core.model import View
from ha_core.model.extent import open_extent

MAX_LOOK_S = 1.0
"""Longest time for which a look holds back the report of a revision: a slow target must not hold up the move. A
partition without a leader counts as an answer."""


def leaderless_targets(view: View, topology: Topology, changed: Iterable[str]) -> dict[str, list[str]]:
    """Target cluster → changed topics that cross over to it and have partitions there without a known leader. Goes
    through all of their partitions: not for the event loop."""
    leaderless: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for name in changed:
        topic = view.topics.get(name)
        if topic is None or topic.crossing is None:
            continue
        for partition, extents in topic.partitions.items():
            cluster = open_extent(extents).cluster
            if topic.crosses(partition) and topology.leader(cluster, name, partition) is None:
                leaderless[cluster][name] = None
    return {cluster: list(names) for cluster, names in leaderless.items()}


class Targets:
    """Looks for the leaders, and says which revision may be reported meanwhile."""

    def __init__(self, upstream: Clusters, looked: Callable[[], None]) -> None:
        """:param looked: called when another revision may be reported."""
        self._upstream, self._looked = upstream, looked
        self._looks: dict[asyncio.Task[None], int] = {}
        """Each look, with the revision whose map it is for."""

    def follow(self, revision: int, sought: Mapping[str, Collection[str]]) -> None:
        """This revision is followed; by it the topics `sought` cross over to unknown leaders."""
        if sought:
            task = asyncio.get_running_loop().create_task(self._look(sought))
            self._looks[task] = revision
            task.add_done_callback(self._ended)

    def served(self, revision: int) -> int:
        """The newest revision up to `revision` for whose maps all leaders are known, or were looked for."""
        return min((before - 1 for before in self._looks.values()), default=revision)

    def close(self) -> None:
        for task in self._looks:
            task.cancel()

    async def _look(self, sought: Mapping[str, Collection[str]]) -> None:
        try:
            async with asyncio.timeout(MAX_LOOK_S):
                await self._upstream.find_leaders(sought)
        except TimeoutError:
            return

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._looks[task]
        if not task.cancelled():
            task.result()
            self._looked()
