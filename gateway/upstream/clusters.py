"""The gateway's connections to all clusters that the view names."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from gateway.composed.ask import Ask, ClusterUnavailableError, Message, Reply, Target
from gateway.model.topology import ClusterTopology, Topology
from gateway.runtime import clock
from gateway.runtime.log_rate_limiter import LogRateLimiter
from gateway.upstream.cluster import UpstreamCluster
from gateway.upstream.dial import BrokerSocket
from ha_core.model import Cluster
from ha_core.wire.limits import DEFAULT_LIMITS, WireLimits
from ha_core.wire.sasl import SecurityProfile

_log = logging.getLogger(__name__)

MAX_WAITING = 500
"""Default without a setting: for a cluster that answers within 100 ms these are 5,000 questions per second."""


class Clusters:
    """One `UpstreamCluster` per cluster of the view, and the topology of all. Used on one event loop only."""

    def __init__(
        self,
        profiles: Mapping[str, SecurityProfile],
        *,
        client_id: str,
        on_topology: Callable[[Topology], None] = lambda _: None,
        limits: WireLimits = DEFAULT_LIMITS,
        max_waiting: Callable[[str], int] = lambda _: MAX_WAITING,
    ) -> None:
        """:param max_waiting: clients' questions that may wait for a cluster at once; those of one user, half as
        many."""
        self.topology = Topology()
        self.waiting: Counter[str] = Counter()
        """Clients' questions in flight, by cluster."""
        self.waiting_of_user: Counter[tuple[str, str]] = Counter()
        """Those of one user, by (cluster, user). A user without any is not in it."""
        self.turned_away: Counter[str] = Counter()
        """Questions refused for lack of room, by cluster."""
        self._max_waiting = max_waiting
        self._log_rate_limiter = LogRateLimiter(burst=1)
        self._profiles = profiles
        self._on_topology = on_topology
        self._connect = partial(UpstreamCluster, client_id=client_id, on_topology=self._changed, limits=limits)
        self.clusters: dict[str, UpstreamCluster] = {}
        self._registered: dict[str, Cluster] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def apply(self, clusters: Mapping[str, Cluster]) -> None:
        """Follows a view: connects to new clusters, drops removed ones, masks and unmasks."""
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

    async def ask_all(self, asks: Sequence[Ask], user: str | None = None) -> list[Reply]:
        """All asks in parallel; one that cannot be answered returns its error, in its place.

        :param user: the user whose request asks; None: the answer serves several users, or the gateway itself.
        """
        return list(await asyncio.gather(*(self._reply(ask, user) for ask in asks)))

    async def open(self, cluster: str, broker_id: int) -> BrokerSocket:
        return await self._cluster(cluster).open(broker_id)

    async def refresh(self) -> None:
        """Surveys all clusters that are not masked; returns when all have answered or failed."""
        await asyncio.gather(*(c.refresh() for n, c in self.clusters.items() if not self._registered[n].masked))

    @property
    def out_of_date(self) -> Mapping[str, float]:
        """Unreachable clusters that are not masked → time of their served state, in seconds since 1970."""
        return {
            name: upstream.seen_at
            for name, upstream in dict(self.clusters).items()
            if upstream.seen_at is not None and not upstream.topology.reachable and not self._registered[name].masked
        }

    @property
    def never_seen(self) -> tuple[str, ...]:
        return tuple(name for name, upstream in self.clusters.items() if upstream.seen_at is None)

    def recall(self, cluster: str, topics: Mapping[str, int], seen_at: float) -> None:
        """As `UpstreamCluster.recall`."""
        if cluster in self.clusters:
            self.clusters[cluster].recall(topics, seen_at)

    def refresh_soon(self) -> None:
        for cluster in self.clusters.values():
            cluster.refresh_soon()

    def find_leaders_soon(self, cluster: str, topics: Iterable[str]) -> None:
        """As `UpstreamCluster.find_leaders_soon`; ignores a cluster that the view does not name."""
        if cluster in self.clusters:
            self.clusters[cluster].find_leaders_soon(topics)

    def check_exists_soon(self, cluster: str, topic: str) -> None:
        """As `UpstreamCluster.check_exists_soon`; ignores a cluster that the view does not name."""
        if cluster in self.clusters:
            self.clusters[cluster].check_exists_soon(topic)

    async def find_leaders(self, topics: Mapping[str, Collection[str]]) -> None:
        """As `UpstreamCluster.find_leaders`, in several clusters in parallel."""
        known = ((self.clusters[cluster], names) for cluster, names in topics.items() if cluster in self.clusters)
        await asyncio.gather(*(cluster.find_leaders(names) for cluster, names in known))

    async def close(self) -> None:
        for name in list(self._registered):
            self._remove(name)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _cluster(self, cluster: str) -> UpstreamCluster:
        upstream = self.clusters.get(cluster)
        if upstream is None:
            topology = self.topology.clusters.get(cluster)
            raise ClusterUnavailableError(
                cluster, topology.why if topology else "no cluster of this name is registered"
            )
        return upstream

    async def _reply(self, ask: Ask, user: str | None) -> Reply:
        """A cluster that answers slowly, or not at all, holds as many questions as may wait for it, and their clients;
        the next ones fail at once, so that other resources stay free.

        A user may have no more questions waiting than there is room left. So one busy user gets half of the room, two
        get a third each, and a user who asks for the first time finds room.
        """
        cluster = ask.cluster
        try:
            upstream = self._cluster(cluster)
        except ClusterUnavailableError as error:
            return error
        limit = self._max_waiting(cluster)
        own = 0 if user is None else self.waiting_of_user[cluster, user]
        if own >= limit - self.waiting[cluster]:
            return self._turned_away(cluster, limit, user, own)
        self._count(cluster, user, 1)
        try:
            return await upstream.ask(ask.target, ask.api_key, ask.message, ask.timeout_ms)
        except ClusterUnavailableError as error:
            return error
        finally:
            self._count(cluster, user, -1)

    def _count(self, cluster: str, user: str | None, change: int) -> None:
        self.waiting[cluster] += change
        if user is not None:
            self.waiting_of_user[cluster, user] += change
            if not self.waiting_of_user[cluster, user]:
                del self.waiting_of_user[cluster, user]  # otherwise every user who ever asked would stay

    def _turned_away(self, cluster: str, limit: int, user: str | None, own: int) -> ClusterUnavailableError:
        self.turned_away[cluster] += 1
        full = self.waiting[cluster] >= limit
        if full:
            why = f"{limit} questions of clients wait for it already, and no more may (queued_requests)"
        else:
            room = f"as many as the room left for other users; raise queued_requests ({limit}) to let more wait"
            why = f"{own} questions of user {user!r} wait for it already, {room}"
        if self._log_rate_limiter.lets(cluster if full else f"{cluster}, of one user", clock.now()):
            _log.warning("cluster %s: %s", cluster, why)
        return ClusterUnavailableError(cluster, why)

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
