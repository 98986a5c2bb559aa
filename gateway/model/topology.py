"""Last known state of the clusters: an immutable snapshot that pure code decides on."""

from collections.abc import Mapping
from dataclasses import dataclass, field

Address = tuple[str, int]
ApiRange = tuple[int, int]

_GROUPS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class ClusterTopology:
    """One cluster. While it is unreachable everything but `reachable` and `why` stays as last seen."""

    name: str
    reachable: bool = False
    brokers: Mapping[int, Address] = field(default_factory=dict)
    """Broker id → (host, port) as the gateway reaches it; never shown to clients."""
    topics: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Topic → partition → broker id of its leader; -1 while it has none."""
    api_versions: Mapping[int, ApiRange] = field(default_factory=dict)
    """API key → (lowest, highest) version that every asked broker offers."""
    why: str = "not asked yet"
    """Why it is unreachable, for people; "" while it is reachable."""
    cluster_id: str = ""
    """Its id as its brokers tell it; "": not known, so no broker is known either."""
    brokers_away: frozenset[int] = frozenset()
    """Brokers that have replicas and are not among the live ones. One that was removed for good has none left."""
    leaderless: int = 0
    """Partitions without a leader when the cluster was last seen as a whole."""

    @property
    def ever_reached(self) -> bool:
        """True if it was ever reached, so that a topic missing from `topics` was really missing then."""
        return bool(self.brokers)


@dataclass(frozen=True, slots=True)
class Topology:
    """All clusters that the view names. Replaced as a whole, never changed in place."""

    clusters: Mapping[str, ClusterTopology] = field(default_factory=dict)

    def existing(self, topic: str) -> tuple[str, ...]:
        """Clusters that hold the topic, by name; unreachable ones count with their last known topics."""
        return tuple(sorted(name for name, cluster in self.clusters.items() if topic in cluster.topics))

    def cluster_id(self, cluster: str) -> str:
        """The id that the cluster's brokers tell; "": not known."""
        topology = self.clusters.get(cluster)
        return "" if topology is None else topology.cluster_id

    def leader(self, cluster: str, topic: str, partition: int) -> int | None:
        """Broker id of the partition's leader; None while it is unknown or there is none."""
        topology = self.clusters.get(cluster)
        broker = -1 if topology is None else topology.topics.get(topic, {}).get(partition, -1)
        return broker if broker >= 0 else None

    def coordinator(self, cluster: str, group: str) -> int | None:
        """Broker id of a group's coordinator, which leads the partition of __consumer_offsets to which the group's name
        hashes; None while that is not known."""
        return self.last_coordinator(cluster, group) if self.reachable(cluster) else None

    def last_coordinator(self, cluster: str, group: str) -> int | None:
        """The group's last known coordinator."""
        topology = self.clusters.get(cluster)
        leaders = topology.topics.get(_GROUPS_TOPIC) if topology is not None else None
        if not leaders:
            return None
        return self.leader(cluster, _GROUPS_TOPIC, _java_hash(group) % len(leaders))

    def reachable(self, cluster: str) -> bool:
        topology = self.clusters.get(cluster)
        return topology is not None and topology.reachable

    @property
    def away(self) -> frozenset[str]:
        """Clusters that are unreachable."""
        return frozenset(name for name, cluster in self.clusters.items() if not cluster.reachable)

    def apis(self) -> tuple[Mapping[int, ApiRange], ...]:
        """API versions of each cluster. A cluster that was never reached is left out: its versions are unknown."""
        return tuple(c.api_versions for _, c in sorted(self.clusters.items()) if c.api_versions)


def _java_hash(text: str) -> int:
    """Java's String.hashCode, made positive as brokers do (Utils.abs)."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    if value == 0x8000_0000:
        return 0
    return value if value < 0x8000_0000 else (1 << 32) - value
