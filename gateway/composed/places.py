"""Where things are: the cluster of a topic or group, the leader of a partition, the broker behind a node id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gateway.composed.ask import AnyBroker, Ask, Asking, ClusterUnavailableError, Message, Reply, ask_each, grouped
from gateway.composed.handlers import BrokerKey, Context
from ha_core.model import Extent, Fence, Topic
from ha_core.plan.resolve import Resolved, cluster_for_group, cluster_for_topic, cluster_for_user
from ha_core.wire.codes import ApiKey, ErrorCode

SURVEY_MS = 3_000
"""How long METADATA may take: a client behind it waits for the slowest cluster."""
_MAX_WAIT_MS = 60_000
UNBOUND = "nothing says which cluster serves this user: bind the user or set a default"


_UNTOUCHED = Topic(name="untouched")


class Replica(NamedTuple):
    """One partition in one cluster."""

    cluster: str
    topic: str
    partition: int


class Leaders(NamedTuple):
    """What is known of who leads some partitions."""

    broker: Mapping[Replica, int]
    """The leader's id, of those that have one."""
    absent: frozenset[Replica] = frozenset()
    """Those that their cluster says do not exist, asked just now."""


def masked(context: Context, cluster: str) -> bool:
    known = context.view.clusters.get(cluster)
    return known is None or known.masked is not None


def usable(context: Context) -> tuple[str, ...]:
    """Clusters that can be asked now, by name."""
    return tuple(
        name for name in sorted(context.view.clusters) if context.topology.reachable(name) and not masked(context, name)
    )


def in_doubt(context: Context) -> bool:
    """Whether a cluster may hold topics that nobody can see now.

    A masked cluster counts with what it held when last seen: operators took it out of service, so that life without
    it must go on. One that merely is out of reach may have got new topics since.
    """
    return any(
        not context.topology.reachable(name) and not cluster.masked for name, cluster in context.view.clusters.items()
    )


def resolve(context: Context, topic: str, also: Mapping[str, tuple[str, ...]] = {}) -> Resolved:
    """The cluster of a topic; `also`: topic → clusters that have just said that they hold it."""
    return cluster_for_topic(
        context.view, context.identity, topic, lambda name: {*context.topology.existing(name), *also.get(name, ())}
    )


def wished(context: Context, topic: str) -> str | None:
    """The cluster that would serve a topic which exists nowhere yet: what the bindings say, wherever it is."""
    return cluster_for_topic(context.view, context.identity, topic, lambda _name: ()).cluster


def group_cluster(context: Context, group: str) -> str | None:
    return cluster_for_group(context.view, context.identity, group)


def group_fence(context: Context, group: str) -> Fence | None:
    known = context.view.groups.get(group)
    return None if known is None else known.fence


def user_cluster(context: Context) -> str | None:
    return cluster_for_user(context.view, context.identity)


def document(context: Context, topic: str) -> Topic:
    """What is said of a topic: nothing of one that was never moved."""
    return context.view.topics.get(topic, _UNTOUCHED)


def extents(context: Context, topic: str, partition: int) -> tuple[Extent, ...]:
    """The extents of a mapped topic's partition; () where its map is damaged, so that no answer is guessed from it."""
    known = document(context, topic)
    return () if known.damaged(partition) else known.extents(partition)


def written_in(context: Context, topic: str, partition: int) -> str | None:
    """The cluster to which producers of a mapped topic's partition are led; None where its map is damaged."""
    known = document(context, topic)
    return None if known.damaged(partition) else known.written(partition).cluster


def real_broker(context: Context, node_id: int) -> BrokerKey | None:
    """The broker behind a virtual node; None for a gateway's node and for ids that nobody has."""
    return next((broker for broker, known in context.nodes.items() if known == node_id), None)


def wait_ms(request: Message) -> int:
    """How long to wait for a request that says how long the cluster may take over it."""
    return min(max(int(request["timeout_ms"]), 1_000), _MAX_WAIT_MS) + 2_000


def ask_topics(cluster: str, names: Iterable[str] | None, *, create: bool = False, **more: bool) -> Ask:
    """METADATA of these topics, or of all (None); `create`: the cluster may create what is missing."""
    topics = None if names is None else [{"name": name, "topic_id": bytes(16)} for name in names]
    message = {"topics": topics, "allow_auto_topic_creation": create, **more}
    return Ask(cluster, AnyBroker(), ApiKey.METADATA, message, SURVEY_MS)


def holders(replies: Mapping[str, Reply]) -> dict[str, tuple[str, ...]]:
    """Topic → clusters that have just described it, of what each cluster says."""
    found: dict[str, tuple[str, ...]] = {}
    for cluster, reply in replies.items():
        if not isinstance(reply, ClusterUnavailableError):
            for topic in reply["topics"]:
                if topic["partitions"]:
                    found[topic["name"]] = (*found.get(topic["name"], ()), cluster)
    return found


def leaders(context: Context, replicas: Iterable[Replica]) -> Asking[Leaders]:
    """Who leads each partition; clusters are asked where the topology does not know it.

    A topic may be seconds old and the topology of this gateway as many older.
    """
    wanted = set(replicas)
    known = {replica: leader for replica in wanted if (leader := context.topology.leader(*replica)) is not None}
    usable_now = usable(context)
    missing = grouped((r.cluster, r.topic) for r in wanted - known.keys() if r.cluster in usable_now)
    asks = {cluster: ask_topics(cluster, sorted({*names})) for cluster, names in sorted(missing.items())}
    absent: set[Replica] = set()
    for cluster, reply in (yield from ask_each(asks)).items():
        if isinstance(reply, ClusterUnavailableError):
            continue
        said: set[str] = set()
        there: set[Replica] = set()
        for topic in reply["topics"]:
            if topic["error_code"] in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                said.add(topic["name"])
            for partition in topic["partitions"]:
                replica = Replica(cluster, topic["name"], partition["partition_index"])
                there.add(replica)
                if replica in wanted and partition["leader_id"] >= 0:
                    known[replica] = partition["leader_id"]
        absent |= {r for r in wanted - there if r.cluster == cluster and r.topic in said}
    return Leaders(known, frozenset(absent))


def brokers(context: Context) -> tuple[BrokerKey, ...]:
    """Every broker that this client may be told of, in any answer.

    All of them are listed in each METADATA: librdkafka closes its connection to a node that the newest answer leaves
    out, and a group's coordinator need not hold a partition of the topics that were asked for.
    """
    return tuple(
        (name, broker)
        for name, cluster in sorted(context.topology.clusters.items())
        if name in context.view.clusters and context.view.clusters[name].masked is None
        for broker in sorted(cluster.brokers)
    )
