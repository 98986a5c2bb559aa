"""The state on which a session decides: replaced as a whole when any part of it changes."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.model.remote_topics import NO_REMOTE_TOPICS, RemoteTopicIndex
from gateway.model.topology import Topology
from gateway.session.commands import BrokerLane
from ha_core.model import View
from ha_core.plan.access.quotas import Quotas
from ha_core.plan.access.rights import Rights


class DrainScope(NamedTuple):
    """Topics and groups whose requests in flight an operation waits for."""

    topics: frozenset[bytes]
    groups: frozenset[bytes]
    quiet: frozenset[bytes]
    """Topics under a transaction fence: only open transactions in them are waited for."""
    taken_for_dead: str | None = None
    """The cluster that the operation goes on without: it does not wait there for long."""


class Fences(NamedTuple):
    operations: frozenset[str] = frozenset()
    """Operations that hold a fence."""
    topics: frozenset[bytes] = frozenset()
    """Topics under a fence, or with a cut ahead."""
    scopes: Mapping[str, DrainScope] = {}
    """By operation: what it has fenced, or proposed a cut for."""
    deleted: frozenset[str] = frozenset()
    """Topics that are being deleted."""
    doubted: frozenset[str] = frozenset()
    """Clusters that a topic has left by force or is about to, or whose records of a topic were given up: a transaction
    that commits there may hold records that no reader gets."""


def fences(view: View) -> Fences:
    """Iterates over all topics and groups: too long for the event loop."""
    operations: set[str] = set()
    topics: set[bytes] = set()
    scopes: defaultdict[str, tuple[set[bytes], ...]] = defaultdict(lambda: (set(), set(), set()))
    dead: dict[str, str | None] = {}
    deleted: set[str] = set()
    doubted = {cluster for sequences in view.sequences.values() for cluster in sequences.left_by_force}
    for topic in view.topics.values():
        if topic.given_up:
            doubted.update(set(topic.given_up) - topic.clusters)
        if topic.deletion is not None:
            deleted.add(topic.name)
        fence, transactions, crossing = topic.fence, topic.transaction_fence, topic.crossing
        if fence is None and transactions is None and crossing is None:
            continue
        name = topic.name.encode()
        standing = fence or transactions
        if standing is not None:
            operations.add(standing.operation)
        if fence is not None or crossing is not None:
            topics.add(name)
        if fence is not None:
            dead[fence.operation] = fence.taken_for_dead
        holder = fence or (crossing if crossing is not None and crossing.state == "proposed" else None)
        if holder is not None:
            scopes[holder.operation][0].add(name)
        if transactions is not None:
            scopes[transactions.operation][2].add(name)
    for group in view.groups.values():
        if group.fence is not None:
            operations.add(group.fence.operation)
            dead[group.fence.operation] = group.fence.taken_for_dead
            scopes[group.fence.operation][1].add(group.name.encode())
    doubted.update(cluster for cluster in dead.values() if cluster is not None)
    by_operation = {
        operation: DrainScope(frozenset(names), frozenset(members), frozenset(quiet), dead.get(operation))
        for operation, (names, members, quiet) in scopes.items()
    }
    return Fences(frozenset(operations), frozenset(topics), by_operation, frozenset(deleted), frozenset(doubted))


@dataclass(frozen=True, slots=True)
class Snapshot:
    view: View
    topology: Topology
    apis: tuple[dict[str, Any], ...] = ()
    """Body of the ApiVersions answer: `api_key, min_version, max_version` per key."""
    offered: Mapping[int, tuple[int, int]] = field(init=False)
    """`apis` by key."""
    unreadable: frozenset[str] = frozenset()
    """Paths of documents that were never readable: their content is not guessed."""
    fresh: bool = True
    """False until the first view is loaded: until then only ApiVersions and retriable errors are answered."""
    fences: Fences = field(default_factory=Fences)
    """Fences of the view."""
    zone: str = ""
    """Zone of this gateway."""
    rights: Rights | None = None
    """Rights of users; None: each client may do everything."""
    quotas: Quotas | None = None
    """Quotas of clients; None: unlimited."""
    remote_topics: RemoteTopicIndex = NO_REMOTE_TOPICS
    """Topics that only flows write."""

    still_read_here: dict[tuple[int, int, str, str], bool] = field(default_factory=dict, compare=False, repr=False)
    """(revision before, revision now, cluster, topic) → True if fetches that wait there still wait at the right place.
    Filled by the first connection that needs it."""

    def __post_init__(self) -> None:
        offered = {line["api_key"]: (line["min_version"], line["max_version"]) for line in self.apis}
        object.__setattr__(self, "offered", offered)

    def has_topic(self, name: str) -> bool:
        """True if the topic exists, as far as this gateway knows."""
        clusters = self.topology.clusters.values()
        return self.view.mapped(name) is not None or any(name in cluster.topics for cluster in clusters)


@dataclass(frozen=True, slots=True)
class Port:
    """The listener that a client connected to: a broker's virtual node, or the bootstrap listener (both None)."""

    cluster: str | None = None
    broker: int | None = None
    direct: bool = False
    """The listener for discovery, which names real brokers."""

    @property
    def lane(self) -> BrokerLane | None:
        """The port's broker."""
        return None if self.cluster is None or self.broker is None else BrokerLane(self.cluster, self.broker)


@dataclass(slots=True)
class Lease:
    """Time until which produce and group requests may be forwarded and acknowledged (seconds on the driver's clock).

    After it, operations may have taken this gateway for dead and continued: it would be a second writer.
    """

    valid_until: float = float("-inf")
    generation: int = 0
    """Changes when a lease is lost and regained."""

    def holds(self, now: float) -> bool:
        return now < self.valid_until

    def renew(self, asked_at: float, lease_s: float) -> None:
        """ZooKeeper has confirmed the session, in answer to a question sent at `asked_at`."""
        if asked_at > self.valid_until:
            self.generation += 1
        self.valid_until = max(self.valid_until, asked_at + lease_s)

    def revoke(self) -> None:
        """The session is gone, whatever the clock shows."""
        self.valid_until = float("-inf")
