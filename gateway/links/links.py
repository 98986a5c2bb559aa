"""Links to all clusters that the view names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from gateway.composed.ask import Ask, ClusterUnavailableError, Message, Reply, Target
from gateway.config import SecurityProfile
from gateway.links.cluster import ClusterLink
from gateway.links.dial import BrokerSocket
from gateway.topology import ClusterTopology, Topology
from ha_core.model import Cluster
from ha_core.wire.limits import DEFAULT_LIMITS, Limits

_log = logging.getLogger(__name__)


class Links:
    """One `ClusterLink` per cluster of the view, and the topology of all. Used on one event loop only."""

    def __init__(
        self,
        profiles: Mapping[str, SecurityProfile],
        *,
        client_id: str,
        on_topology: Callable[[Topology], None] = lambda _: None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.topology = Topology()
        self._profiles = profiles
        self._client_id = client_id
        self._on_topology = on_topology
        self._limits = limits
        self._links: dict[str, ClusterLink] = {}
        self._clusters: dict[str, Cluster] = {}
        self._faults: dict[str, str] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def links(self) -> Mapping[str, ClusterLink]:
        return self._links

    def apply(self, clusters: Mapping[str, Cluster]) -> None:
        """Follows a view: opens links to new clusters, closes those of removed ones, masks and unmasks."""
        before = self.topology
        for name in [name for name in self._clusters if name not in clusters]:
            self._remove(name)
        for name, cluster in clusters.items():
            known = self._clusters.get(name)
            if known is not None and (known.bootstrap, known.security) != (cluster.bootstrap, cluster.security):
                self._remove(name)
            if name not in self._links and name not in self._faults:
                self._add(cluster)
            self._clusters[name] = cluster
            if name in self._links:
                self._links[name].mask(cluster.masked.reason if cluster.masked else None)
        if self.topology is not before:
            self._on_topology(self.topology)

    async def ask(
        self, cluster: str, target: Target, api_key: int, message: Message, timeout_ms: int = 10_000
    ) -> Message:
        """As `ClusterLink.ask`; a cluster that the view does not name is unavailable."""
        return await self._link(cluster).ask(target, api_key, message, timeout_ms)

    async def ask_all(self, asks: Sequence[Ask]) -> list[Reply]:
        """All asks at once; what cannot be answered is returned as its error, in its place."""
        return list(await asyncio.gather(*(self._reply(ask) for ask in asks)))

    async def open(self, cluster: str, broker_id: int) -> BrokerSocket:
        """As `ClusterLink.open`."""
        return await self._link(cluster).open(broker_id)

    async def refresh(self) -> None:
        """Surveys all clusters that are not masked; returns when all have answered or failed to."""
        await asyncio.gather(
            *(self._links[n].refresh() for n, c in self._clusters.items() if n in self._links and not c.masked)
        )

    def refresh_soon(self, cluster: str) -> None:
        """Surveys one cluster shortly, if the view names it."""
        link = self._links.get(cluster)
        if link is not None:
            link.refresh_soon()

    async def close(self) -> None:
        for name in list(self._clusters):
            self._remove(name)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _link(self, cluster: str) -> ClusterLink:
        link = self._links.get(cluster)
        if link is None:
            raise ClusterUnavailableError(cluster, self._faults.get(cluster, "no cluster of this name is registered"))
        return link

    async def _reply(self, ask: Ask) -> Reply:
        try:
            return await self.ask(ask.cluster, ask.target, ask.api_key, ask.message, ask.timeout_ms)
        except ClusterUnavailableError as error:
            return error

    def _add(self, cluster: Cluster) -> None:
        topology = ClusterTopology(cluster.name)
        try:
            link = ClusterLink(
                cluster.name,
                cluster.bootstrap,
                self._profile(cluster),
                client_id=self._client_id,
                on_topology=self._changed,
                limits=self._limits,
            )
        except ValueError as error:
            # One badly registered cluster must not stop a gateway that serves others.
            _log.error("cluster %s cannot be linked: %s", cluster.name, error)
            self._faults[cluster.name] = str(error)
            topology = ClusterTopology(cluster.name, why=str(error))
        else:
            self._links[cluster.name] = link
            link.start()
        self.topology = Topology({**self.topology.clusters, cluster.name: topology})

    def _profile(self, cluster: Cluster) -> SecurityProfile:
        profile = self._profiles.get(cluster.security)
        if profile is None:
            known = ", ".join(sorted(self._profiles)) or "none"
            raise ValueError(
                f"security profile {cluster.security!r} is not in this gateway's configuration (it has {known}); add it"
            )
        return profile

    def _remove(self, name: str) -> None:
        self._clusters.pop(name, None)
        self._faults.pop(name, None)
        link = self._links.pop(name, None)
        if link is not None:
            task = asyncio.get_running_loop().create_task(link.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        self.topology = Topology({n: t for n, t in self.topology.clusters.items() if n != name})

    def _changed(self, cluster: ClusterTopology) -> None:
        if cluster.name in self._links:
            self.topology = Topology({**self.topology.clusters, cluster.name: cluster})
            self._on_topology(self.topology)
