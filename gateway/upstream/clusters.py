"""The gateway's connections to all clusters that the view names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from gateway.composed.ask import Ask, ClusterUnavailableError, Message, Reply, Target
from gateway.topology import ClusterTopology, Topology
from gateway.upstream.cluster import UpstreamCluster
from gateway.upstream.dial import BrokerSocket
from ha_core.model import Cluster
from ha_core.wire.limits import DEFAULT_LIMITS, Limits
from ha_core.wire.sasl import SecurityProfile

_log = logging.getLogger(__name__)


class Clusters:
    """One `UpstreamCluster` per cluster of the view, and the topology of all. Used on one event loop only."""

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
        self._on_topology = on_topology
        self._connect = partial(UpstreamCluster, client_id=client_id, on_topology=self._changed, limits=limits)
        self.clusters: dict[str, UpstreamCluster] = {}
        self._registered: dict[str, Cluster] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def apply(self, clusters: Mapping[str, Cluster]) -> None:
        """Follows a view: connects to new clusters, lets go of removed ones, masks and unmasks."""
        before = self.topology
        for name in [name for name in self._registered if name not in clusters]:
            self._remove(name)
        for name, cluster in clusters.items():
            known = self._registered.get(name)
            if known is not None and (known.bootstrap, known.security) != (cluster.bootstrap, cluster.security):
                self._remove(name)
            if name not in self.topology.clusters:
                self._add(cluster)
            self._registered[name] = cluster
            if name in self.clusters:
                self.clusters[name].mask(cluster.masked.reason if cluster.masked else None)
        if self.topology is not before:
            self._on_topology(self.topology)

    async def ask(self, cluster: str, target: Target, api_key: int, message: Message) -> Message:
        """As `UpstreamCluster.ask`; a cluster that the view does not name is unavailable."""
        return await self._cluster(cluster).ask(target, api_key, message)

    async def ask_all(self, asks: Sequence[Ask]) -> list[Reply]:
        """All asks at once; what cannot be answered is returned as its error, in its place."""
        return list(await asyncio.gather(*(self._reply(ask) for ask in asks)))

    async def open(self, cluster: str, broker_id: int) -> BrokerSocket:
        return await self._cluster(cluster).open(broker_id)

    async def refresh(self) -> None:
        """Surveys all clusters that are not masked; returns when all have answered or failed to."""
        await asyncio.gather(*(c.refresh() for n, c in self.clusters.items() if not self._registered[n].masked))

    def refresh_soon(self) -> None:
        for cluster in self.clusters.values():
            cluster.refresh_soon()

    async def close(self) -> None:
        for name in list(self._registered):
            self._remove(name)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _cluster(self, cluster: str) -> UpstreamCluster:
        upstream = self.clusters.get(cluster)
        if upstream is None:
            known = self.topology.clusters.get(cluster)
            raise ClusterUnavailableError(cluster, known.why if known else "no cluster of this name is registered")
        return upstream

    async def _reply(self, ask: Ask) -> Reply:
        try:
            return await self._cluster(ask.cluster).ask(ask.target, ask.api_key, ask.message, ask.timeout_ms)
        except ClusterUnavailableError as error:
            return error

    def _add(self, cluster: Cluster) -> None:
        topology = ClusterTopology(cluster.name)
        try:
            upstream = self._connect(cluster.name, cluster.bootstrap, self._profile(cluster))
        except ValueError as error:
            # One badly registered cluster must not stop a gateway that serves others.
            _log.error("cluster %s cannot be reached: %s", cluster.name, error)
            topology = ClusterTopology(cluster.name, why=str(error))
        else:
            self.clusters[cluster.name] = upstream
            upstream.start()
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
        self._registered.pop(name, None)
        upstream = self.clusters.pop(name, None)
        if upstream is not None:
            task = asyncio.create_task(upstream.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        self.topology = Topology({n: t for n, t in self.topology.clusters.items() if n != name})

    def _changed(self, cluster: ClusterTopology) -> None:
        if cluster.name in self.clusters:
            self.topology = Topology({**self.topology.clusters, cluster.name: cluster})
            self._on_topology(self.topology)
