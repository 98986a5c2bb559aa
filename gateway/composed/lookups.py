"""Lookups: the cluster of a topic or group, the leader of a partition, the broker of a node id."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gateway.composed.ask import (
    AnyBroker,
    Ask,
    Asking,
    ClusterUnavailableError,
    Message,
    OneBroker,
    Reply,
    ask_each,
    ask_or,
    grouped,
)
from gateway.composed.handlers import BrokerKey, Context
from gateway.model.copies import KnownCopy
from gateway.session.refusal import Refusal
from ha_core.model import Extent, Fence, Mirror, Topic
from ha_core.plan.mirror.mirrored_topics import read_from
from ha_core.plan.routing.resolve import Resolved, cluster_for_group, cluster_for_topic, cluster_for_user
from ha_core.wire.apis import APIS
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.limits import FEW

SURVEY_MS = 3_000
"""Timeout of METADATA: the client waits for the slowest cluster."""
_MAX_WAIT_MS = 60_000
UNBOUND = "this user has no cluster: bind the user or set a default"

_UNTOUCHED = Topic(name="untouched")
NO_EPOCH: Message = {"leader_epoch": -1}
"""Clients get no leader epoch as long as they get no topic id.

An epoch counts within one log. A topic that was deleted and created again, a rebuilt cluster and another cluster's copy
each begin at 0. A client that compares epochs without ids takes the lower one for outdated: Java ignores such metadata
forever (KAFKA-12257), librdkafka until it has seen the topic gone. Both take -1 for a broker without epochs (before
KIP-320): they forget the known epoch, and use the newest metadata. Then Java takes no epoch from commits or records
either, so epochs in those start no comparison.
"""


class ClusterPartition(NamedTuple):
    """One partition in one cluster."""

    cluster: str
    topic: str
    partition: int


def know_much(context: Context, topics: Iterable[str]) -> bool:
    """True if an answer about these topics is long, also if no cluster answers and the gateway makes it from memory."""
    count = 0
    for topic in topics:
        held = (len(cluster.topics.get(topic, ())) for cluster in context.topology.clusters.values())
        count += 1 + max(len(document(context, topic).partitions), *held, 0)
        if count > FEW:
            return True
    return False


def concealed(context: Context, topic: str) -> str:
    """Reason, in words, why clients do not see a topic of that name (`View.concealed`)."""
    if context.view.deleted(topic):
        return f"topic {topic} is being deleted in all clusters"
    return f"topic {topic} is the copy log of a cluster, and not for users"


def masked(context: Context, cluster: str) -> bool:
    found = context.view.clusters.get(cluster)
    return found is None or found.masked is not None


def usable(context: Context) -> tuple[str, ...]:
    """Clusters that can be asked now, by name."""
    return tuple(
        name for name in sorted(context.view.clusters) if context.topology.reachable(name) and not masked(context, name)
    )


def in_doubt(context: Context) -> bool:
    """True if a cluster may hold topics that the gateway cannot see now.

    A masked cluster counts with its last known topics: operators took it out of service, and the rest has to work
    without it. A cluster that is only unreachable may have got new topics since.
    """
    return any(
        not context.topology.reachable(name) and not cluster.masked for name, cluster in context.view.clusters.items()
    )


def resolve(context: Context, topic: str, also: Mapping[str, tuple[str, ...]] = {}) -> Resolved:
    """The cluster of a topic; `also`: topic → clusters that have just described it."""
    return cluster_for_topic(
        context.view, context.identity, topic, lambda name: {*context.topology.existing(name), *also.get(name, ())}
    )


def listed(context: Context, topics: Iterable[str], also: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The topics of some cluster that this client sees. One with local names sees the topics of one cluster, and moved
    ones: `cluster_for_topic` serves it no other."""
    view, names = context.view, context.names
    seen = [name for name in topics if not view.concealed(name)]
    if names is None:
        return seen
    return [
        name
        for name in seen
        if view.mapped(name) is not None or names.cluster in {*context.topology.existing(name), *also.get(name, ())}
    ]


def wished(context: Context, topic: str) -> str | None:
    """The cluster that would serve a topic which does not exist yet: the bindings' choice, wherever the topic is."""
    return cluster_for_topic(context.view, context.identity, topic, lambda _name: ()).cluster


def group_cluster(context: Context, group: str) -> str | None:
    return cluster_for_group(context.view, context.identity, group)


GROUP_FENCED = Refusal.FENCE.code(APIS[ApiKey.FIND_COORDINATOR])
"""Error for a group that is being moved. The session counts it, and holds the answer."""


def group_fence(context: Context, group: str) -> Fence | None:
    found = context.view.groups.get(group)
    return None if found is None else found.fence


def user_cluster(context: Context) -> str | None:
    return cluster_for_user(context.view, context.identity)


def document(context: Context, topic: str) -> Topic:
    """The topic's document; an empty one for a topic that was never moved."""
    return context.view.topics.get(topic, _UNTOUCHED)


def may_have_left(context: Context, topic: str) -> bool:
    """True if a move may have missed a change that this request made: the move reads the topic after its fence, perhaps
    before the change. The client must retry then.

    A move cannot miss a change made before this gateway followed the fence, because it reads after that.
    """
    if context.latest is None:
        return False
    before, now = context.view.topics.get(topic), context.latest().topics.get(topic)
    if now is before:
        return False
    if now is None or before is None or now.fence is not None or now.crossing is not None:
        return True
    return (now.partitions, now.writer) != (before.partitions, before.writer)


def extents(context: Context, topic: str, partition: int) -> tuple[Extent, ...]:
    """Extents of a mapped topic's partition; () if its map is damaged, so that no answer is guessed from it."""
    found = document(context, topic)
    return () if found.damaged(partition) else found.extents(partition)


def written_in(context: Context, topic: str, partition: int) -> str | None:
    """The cluster to which producers of a mapped topic's partition are routed; None if its map is damaged."""
    found = document(context, topic)
    return None if found.damaged(partition) else found.written(partition).cluster


def read_mirror(context: Context, topic: str) -> Mirror | None:
    """The mirror whose copy of the topic this user reads."""
    return read_from(context.view, context.identity.user, topic, context.zone)


def read_copy(context: Context, topic: str, partition: int) -> KnownCopy | None:
    """The copy from which the partition is read, up to its end; None: the writer's log is read."""
    document, mirror = context.view.mapped(topic), read_mirror(context, topic)
    if document is None or mirror is None or document.damaged(partition):
        return None
    copy = context.copies.of(mirror, document, partition, context.now)
    if copy is None or not _led(context, copy.cluster, topic, partition):
        return None
    return copy if copy.level or not _led(context, mirror.source, topic, partition) else None


def _led(context: Context, cluster: str, topic: str, partition: int) -> bool:
    known = context.topology.reachable(cluster) and not masked(context, cluster)
    return known and context.topology.leader(cluster, topic, partition) is not None


def real_broker(context: Context, node_id: int) -> BrokerKey | None:
    """The broker of a virtual node; None for a gateway's node and for unknown ids."""
    return next((broker for broker, found in context.nodes.items() if found == node_id), None)


def wait_ms(request: Message) -> int:
    """Timeout for a request that itself gives the cluster a timeout."""
    return min(max(int(request["timeout_ms"]), 1_000), _MAX_WAIT_MS) + 2_000


def ask_port(context: Context, api_key: int, message: Message, results: str, away: int) -> Asking[Message]:
    """The listing of the broker whose virtual node the client asks; a gateway's node lists nothing.

    :param away: error if that broker cannot be asked.
    """
    cluster, broker = context.port_cluster, context.port_broker
    if cluster is None or broker is None:
        return {"error_code": 0, results: []}
    otherwise: Message = {"error_code": away, results: []}
    if cluster not in usable(context):
        return otherwise
    return (yield from ask_or(otherwise, Ask(cluster, OneBroker(broker), api_key, message)))


def ask_topics(cluster: str, names: Iterable[str] | None, *, create: bool = False, **more: bool) -> Ask:
    """METADATA of these topics, or of all (None); `create`: the cluster may create missing ones."""
    topics = None if names is None else [{"name": name, "topic_id": bytes(16)} for name in names]
    message = {"topics": topics, "allow_auto_topic_creation": create, **more}
    return Ask(cluster, AnyBroker(), ApiKey.METADATA, message, SURVEY_MS)


def holders(replies: Mapping[str, Reply]) -> dict[str, tuple[str, ...]]:
    """Topic → clusters that have just described it."""
    found: dict[str, tuple[str, ...]] = {}
    for cluster, reply in replies.items():
        if not isinstance(reply, ClusterUnavailableError):
            for topic in reply["topics"]:
                if topic["partitions"]:
                    found[topic["name"]] = (*found.get(topic["name"], ()), cluster)
    return found


def leaders(
    context: Context, replicas: Iterable[ClusterPartition]
) -> Asking[tuple[dict[ClusterPartition, int], set[ClusterPartition]]]:
    """(Leaders' ids, where known; partitions that do not exist according to their cluster).

    Clusters are asked if the topology does not know the leader. A topic may be seconds old, and this gateway's topology
    seconds older.
    """
    wanted = set(replicas)
    known = {replica: leader for replica in wanted if (leader := context.topology.leader(*replica)) is not None}
    usable_now = usable(context)
    missing = grouped((r.cluster, r.topic) for r in wanted - known.keys() if r.cluster in usable_now)
    asks = {cluster: ask_topics(cluster, sorted({*names})) for cluster, names in sorted(missing.items())}
    absent: set[ClusterPartition] = set()
    for cluster, reply in (yield from ask_each(asks)).items():
        if isinstance(reply, ClusterUnavailableError):
            continue
        topics = reply["topics"]
        # An invalid name certainly belongs to no topic.
        certain = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
        described = {topic["name"] for topic in topics if topic["error_code"] in certain}
        found = {
            ClusterPartition(cluster, topic["name"], partition["partition_index"]): partition["leader_id"]
            for topic in topics
            for partition in topic["partitions"]
        }
        known |= {replica: leader for replica, leader in found.items() if replica in wanted and leader >= 0}
        absent |= {r for r in wanted - found.keys() if r.cluster == cluster and r.topic in described}
    return known, absent - known.keys()


def brokers(context: Context) -> tuple[BrokerKey, ...]:
    """Every broker that this client may see in any answer.

    All of them are listed in each METADATA: librdkafka closes its connection to a node that the newest answer omits,
    and a group's coordinator need not hold a partition of the requested topics.
    """
    return tuple(
        (name, broker)
        for name, cluster in sorted(context.topology.clusters.items())
        if name in context.view.clusters and context.view.clusters[name].masked is None
        for broker in sorted(cluster.brokers)
    )
