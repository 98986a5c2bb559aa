"""Who leads, in their targets, the topics whose cut lies ahead.

METADATA names the origin while a topic crosses over, so no question of a client teaches the gateway who leads in the
target. The gateway asks when it is told of the map, and says that it serves the map when it knows the leaders, or has
tried to: readers and producers that reach a cut then go on at once.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from gateway.model.topology import Topology
from gateway.upstream.clusters import Clusters
from ha_core.model import View
from ha_core.model.extent import live

MAX_LOOK_S = 1.0
"""Longest time for which a look holds back the report of a revision: a target that answers late must not hold up the
move. A leader that is not elected yet is an answer."""


def leaderless_targets(view: View, topology: Topology, changed: Iterable[str]) -> dict[str, list[str]]:
    """By cluster, topics among those that have changed which cross over to it and have partitions there whose leader is
    not known. Goes through all of their partitions: not for the event loop."""
    found: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for name in changed:
        topic = view.topics.get(name)
        if topic is None or topic.crossing is None:
            continue
        for partition, extents in topic.partitions.items():
            cluster = live(extents).cluster
            if topic.crosses(partition) and topology.leader(cluster, name, partition) is None:
                found[cluster][name] = None
    return {cluster: list(names) for cluster, names in found.items()}


class Targets:
    """Looks for the leaders, and says which revision may be reported meanwhile."""

    def __init__(self, upstream: Clusters, looked: Callable[[], None]) -> None:
        """:param looked: called when a revision may be reported that could not before."""
        self._upstream, self._looked = upstream, looked
        self._looks: dict[asyncio.Task[None], int] = {}
        """Each with the revision whose map it is for."""

    def follow(self, revision: int, sought: Mapping[str, Collection[str]]) -> None:
        """A view of this revision is followed, by which these topics cross over to leaders that are not known."""
        if sought:
            task = asyncio.get_running_loop().create_task(self._look(sought))
            self._looks[task] = revision
            task.add_done_callback(self._ended)

    def served(self, revision: int) -> int:
        """The newest revision up to this one of whose maps all leaders are known, or were asked for."""
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
