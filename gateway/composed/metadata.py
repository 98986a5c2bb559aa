"""METADATA: every topic once, from the cluster that serves it to this identity, with the gateway's own nodes; and
DESCRIBE_CLUSTER.

For a cluster that does not answer, its last known state is returned: topics with their partitions, without leaders.
Otherwise Java's and other consumers would give partitions away, and producers would map keys to other partitions. A
consumer of kafka-python (3.0.12) that leads its group would never read again: it begins to rejoin; if the partitions
are back before its coordinator, it forgets the rejoin, and stays between two generations forever.

Invariants: no topic is reported as unknown while a cluster that may hold it is unreachable; a topic with a map has the
partitions of its map whatever its cluster reports, unless it is gone; a topic is never created while any cluster holds
it; no broker id or address of a cluster leaves this module untranslated; no leader epoch is returned
(`lookups.NO_EPOCH`).
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from gateway.composed import direct, lookups
from gateway.composed.ask import (
    AnyBroker,
    Ask,
    Asking,
    ClusterUnavailableError,
    Message,
    Reply,
    ask_each,
    ask_or,
    grouped,
)
from gateway.composed.handlers import BrokerKey, Context, Handler, Long, NeedNodes, NodeAddress, handles
from ha_core.model.access import AclOperation, ResourceType
from ha_core.wire.codes import ApiKey, ErrorCode

_NO_LEADER = -1
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})
_REPLICAS = ("replica_nodes", "isr_nodes", "offline_replicas")
_Racks = dict[BrokerKey, str | None]


class _ClusterAnswers(NamedTuple):
    """Answers of the clusters: per cluster the topics by name, and the racks of its brokers."""

    topics: dict[str, dict[str, Message]]
    racks: _Racks


class _Chosen(NamedTuple):
    """One topic of the answer, and the cluster whose broker ids it has."""

    cluster: str
    topic: Message
    """As that cluster describes it, or with an error of the gateway's own."""
    elsewhere: Mapping[int, str] = {}
    """Partition → the other cluster that describes it."""

    def of(self, partition: Message) -> str:
        return self.elsewhere.get(partition["partition_index"], self.cluster)


@handles(ApiKey.METADATA)
def metadata(context: Context, version: int, request: Message) -> Handler:
    if context.direct:
        return (yield from direct.metadata(context, version, request))
    topics = request["topics"]
    if topics is None or (version == 0 and not topics):
        chosen, racks = yield from _all_topics(context, request)
    elif topics:
        names = list(dict.fromkeys(topic["name"] or "" for topic in topics))
        chosen, racks = yield from _named_topics(context, request, names)
    else:
        chosen, racks = [], {}
    operations = yield from cluster_operations(context, request["include_cluster_authorized_operations"])
    brokers = tuple(dict.fromkeys((*lookups.brokers(context), *_mentioned(chosen))))
    nodes: Mapping[BrokerKey, NodeAddress] = (yield NeedNodes(brokers)) if brokers else {}
    return {
        "brokers": node_list(context, nodes, racks),
        "cluster_id": context.cluster_id,
        # Any gateway's node accepts requests to a controller, and knows the right one.
        "controller_id": context.self_node.node_id,
        "topics": [_translated(topic, nodes) for topic in _freed_after_use(chosen)],
        "cluster_authorized_operations": operations,
    }


_Choosing = Generator[tuple[Ask, ...] | Long, Any, tuple[list[_Chosen], _Racks]]


def _all_topics(context: Context, request: Message) -> _Choosing:
    replies = yield from _ask(request, dict.fromkeys(lookups.usable(context)))
    seen, found = _see(replies), lookups.holders(replies)
    names = dict.fromkeys(name for topics in seen.topics.values() for name in topics)
    for cluster in context.topology.clusters.values():
        # Topics that an unreachable cluster held when last seen are listed as not available: a pattern subscription
        # that lost them would give their partitions away.
        if cluster.name in context.view.clusters and cluster.name not in seen.topics:
            names |= dict.fromkeys(cluster.topics)
    there = lookups.listed(context, names, found)
    if lookups.know_much(context, there):
        yield Long()
    return [_choose(context, name, lookups.resolve(context, name, found).cluster, seen) for name in there], seen.racks


def _named_topics(context: Context, request: Message, names: list[str]) -> _Choosing:
    usable = lookups.usable(context)
    describing = {name: _describing(context, name) for name in names}
    new = [name for name, clusters in describing.items() if clusters is None]
    # A topic that the topology lacks is looked up everywhere before it is created. It comes last, as it was not looked
    # up yet.
    order = sorted(describing.items(), key=lambda item: item[1] is None)
    wanted = grouped((c, name) for name, clusters in order for c in usable if clusters is None or c in clusters)
    replies = yield from _ask(request, wanted)
    seen, found = _see(replies), lookups.holders(replies)
    doubtful = lookups.in_doubt(context) or len(seen.topics) < len(wanted)
    uncreated: list[str] = []
    if request["allow_auto_topic_creation"] and not doubtful:
        missing = [name for name in new if name not in found]
        uncreated = [name for name in missing if not _may_create(context, name)]
        yield from _create(context, request, [name for name in missing if name not in uncreated], seen)
    if lookups.know_much(context, names):
        yield Long()
    chosen = [(name, lookups.resolve(context, name, found).cluster) for name in names]
    found_topics = [_choose(context, name, cluster, seen, doubtful) for name, cluster in chosen]
    return [_uncreated(one) if one.topic["name"] in uncreated else one for one in found_topics], seen.racks


def _may_create(context: Context, name: str) -> bool:
    create = AclOperation.CREATE
    if context.objection(create, name):
        return False
    return context.allows(create, ResourceType.CLUSTER) or context.allows(create, ResourceType.TOPIC, name)


def _uncreated(chosen: _Chosen) -> _Chosen:
    """A missing topic that its client may not create: reported as brokers with automatic topic creation, their default,
    report it."""
    if chosen.topic["error_code"] != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return chosen
    return _Chosen(chosen.cluster, _error(chosen.topic["name"], ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def _describing(context: Context, name: str) -> Collection[str | None] | None:
    """Clusters that have to describe a topic; None if no cluster is known to have it."""
    if context.view.concealed(name):
        return ()
    if lookups.document(context, name).mapped:
        writers, mirror = lookups.document(context, name).writers, lookups.read_mirror(context, name)
        away = mirror is not None and not writers.issubset(lookups.usable(context))
        return writers | {mirror.target} if mirror is not None and away else writers
    if not context.topology.existing(name):
        return None
    resolved = lookups.resolve(context, name)
    # The topology may be some seconds old: if a binding leads to a cluster that seems to lack the topic, that cluster
    # is asked as well, or the client would write to another copy until the next survey.
    return {resolved.cluster, lookups.wished(context, name) if resolved.differs else resolved.cluster}


def _create(context: Context, request: Message, names: Iterable[str], seen: _ClusterAnswers) -> Asking[None]:
    wanted = grouped((cluster, name) for name in names if (cluster := lookups.resolve(context, name).cluster))
    replies = yield from _ask(request, {c: names for c, names in wanted.items() if c in seen.topics}, create=True)
    again = _see(replies)
    for cluster, topics in again.topics.items():
        seen.topics[cluster].update(topics)
    seen.racks.update(again.racks)


def _ask(
    request: Message, wanted: Mapping[str, Iterable[str] | None], create: bool = False
) -> Asking[dict[str, Reply]]:
    """:param wanted: topics by cluster; None: all."""
    flags = {"include_topic_authorized_operations": request["include_topic_authorized_operations"]}
    return ask_each({c: lookups.ask_topics(c, wanted[c], create=create, **flags) for c in sorted(wanted)})


def _see(replies: Mapping[str, Reply]) -> _ClusterAnswers:
    seen = _ClusterAnswers({}, {})
    for cluster, reply in replies.items():
        if not isinstance(reply, ClusterUnavailableError):
            seen.topics[cluster] = {topic["name"]: topic for topic in reply["topics"]}
            seen.racks.update({(cluster, broker["node_id"]): broker["rack"] for broker in reply["brokers"]})
    return seen


def _choose(context: Context, name: str, cluster: str | None, seen: _ClusterAnswers, doubtful: bool = True) -> _Chosen:
    if cluster is None or context.view.concealed(name):
        return _Chosen("", _error(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    mapped = lookups.document(context, name).mapped
    described = {c for c, topics in seen.topics.items() if topics.get(name, {}).get("partitions")}
    if mapped and cluster not in described:
        cluster = min(described, default=cluster)
    topic = seen.topics.get(cluster, {}).get(name) or _last_known(context, cluster, name)
    holders = described.union(context.topology.existing(name))
    unheard_of = topic is not None and topic["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if unheard_of and (doubtful or holders - {cluster}):
        # The topology may be older than the end of a copy: librdkafka fails records for a missing topic. Or the broker
        # has just started, or has not heard yet of a topic that a move has created.
        topic = _last_known(context, cluster, name) if mapped else None
    if topic is None:
        return _Chosen(cluster, _error(name, ErrorCode.LEADER_NOT_AVAILABLE))
    if mapped:
        return _moved(context, topic, cluster, seen)
    return _Chosen(cluster, topic)


def _last_known(context: Context, cluster: str, name: str) -> Message | None:
    """A topic of a cluster that does not describe it: its last known state there, with the partitions of its map. None:
    it was never seen, and has no map."""
    topology = context.topology.clusters.get(cluster)
    leaders = dict.fromkeys(lookups.document(context, name).partitions, _NO_LEADER)
    leaders |= topology.topics.get(name, {}) if topology is not None else {}
    if not leaders:
        return None
    partitions = []
    for index, leader in sorted(leaders.items()):
        led = [leader] if leader >= 0 else []
        partition: Message = {"partition_index": index, "leader_id": _NO_LEADER}
        partition |= {"replica_nodes": led, "isr_nodes": [], "offline_replicas": led}
        partitions.append(partition | {"error_code": ErrorCode.LEADER_NOT_AVAILABLE})
    return {"error_code": 0, "name": name, "is_internal": name in _INTERNAL, "partitions": partitions}


def _moved(context: Context, topic: Message, cluster: str, seen: _ClusterAnswers) -> _Chosen:
    """Each partition as its writer's cluster describes it: single partitions may have moved alone."""
    name, partitions = topic["name"], list[Message]()
    document, mirror = lookups.document(context, name), lookups.read_mirror(context, name)
    elsewhere: dict[int, str] = {}
    described: dict[str | None, dict[int, Message]] = {
        c: {partition["partition_index"]: partition for partition in topics.get(name, {}).get("partitions", ())}
        for c, topics in seen.topics.items()
    }
    for partition in topic["partitions"]:
        index = partition["partition_index"]
        if document.withheld(index):
            continue  # a producer that saw it would wait for it until the crossing ends
        writer = lookups.written_in(context, name, index)
        if mirror is not None and writer == mirror.source and writer not in seen.topics:
            writer = mirror.target  # a reader of the copy finds a leader while the writer is unavailable
        found = described.get(writer, {}).get(index)
        if writer is None or found is None:
            # No leader is better than one that refuses.
            found = partition | {"error_code": ErrorCode.LEADER_NOT_AVAILABLE, "leader_id": _NO_LEADER}
        elif writer != cluster:
            elsewhere[index] = writer
        partitions.append(found)
    return _Chosen(cluster, topic | {"partitions": partitions}, elsewhere)


def _error(name: str, code: ErrorCode) -> Message:
    return {"error_code": code, "name": name, "partitions": []}


def _freed_after_use(chosen: list[_Chosen]) -> Iterator[_Chosen]:
    """Frees each after use: freeing fifty thousand at once would block the interpreter for some 30 ms."""
    chosen.reverse()
    while chosen:
        yield chosen.pop()


def _mentioned(chosen: Iterable[_Chosen]) -> tuple[BrokerKey, ...]:
    found: dict[BrokerKey, None] = {}
    for topic in chosen:
        for partition in topic.topic["partitions"]:
            cluster = topic.of(partition)
            ids = (partition["leader_id"], *chain.from_iterable(partition[name] for name in _REPLICAS))
            found.update({(cluster, broker): None for broker in ids if broker >= 0})
    return tuple(found)


def _translated(chosen: _Chosen, nodes: Mapping[BrokerKey, NodeAddress]) -> Message:
    partitions = []
    for partition in chosen.topic["partitions"]:
        cluster, leader = chosen.of(partition), partition["leader_id"]
        translated: Message = {
            name: [nodes[cluster, broker].node_id for broker in partition[name] if broker >= 0] for name in _REPLICAS
        }
        translated["leader_id"] = nodes[cluster, leader].node_id if leader >= 0 else _NO_LEADER
        partitions.append(partition | translated | lookups.NO_EPOCH)
    # Ids differ between clusters, and the gateway does not map them yet: clients take zero for "no id" (KIP-516).
    return chosen.topic | {"partitions": partitions, "topic_id": bytes(16)}


_BROKERS, _CONTROLLERS = 1, 2
NOT_ASKED = -(1 << 31)
"""Kafka's value for operations that were not requested."""


def _refused(code: int, why: str) -> Message:
    return {"error_code": code, "error_message": why, "cluster_id": "", "brokers": []}


@handles(ApiKey.DESCRIBE_CLUSTER)
def describe_cluster(context: Context, version: int, request: Message) -> Handler:
    kind = request["endpoint_type"]
    if kind == _CONTROLLERS:
        why = "controllers cannot be reached through a gateway"
        return _refused(ErrorCode.MISMATCHED_ENDPOINT_TYPE, why)
    if kind != _BROKERS:
        return _refused(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"endpoint type {kind} is unknown")
    cluster = lookups.user_cluster(context)
    brokers = context.topology.clusters[cluster].brokers if cluster in lookups.usable(context) else ()
    nodes = (yield NeedNodes(tuple((cluster, broker) for broker in sorted(brokers)))) if cluster and brokers else {}
    operations = yield from cluster_operations(context, request["include_cluster_authorized_operations"])
    return {
        "error_code": 0,
        "cluster_id": context.cluster_id,
        "controller_id": context.self_node.node_id,
        "brokers": [
            {"broker_id": node["node_id"], "host": node["host"], "port": node["port"]}
            for node in node_list(context, nodes, {})
        ],
        "cluster_authorized_operations": operations,
    }


def node_list(
    context: Context, nodes: Mapping[BrokerKey, NodeAddress], racks: Mapping[BrokerKey, str | None]
) -> list[Message]:
    """The gateways' own nodes, so that a client finds another gateway when this one dies, and these virtual nodes."""
    listed = {node.node_id: (node, None) for node in (*context.gateways, context.self_node)}
    return [
        {"node_id": node.node_id, "host": node.host, "port": node.port, "rack": rack}
        for node, rack in (*listed.values(), *((node, racks.get(broker)) for broker, node in nodes.items()))
    ]


def cluster_operations(context: Context, wanted: bool) -> Asking[int]:
    """Operations that the gateway's account may perform on the user's cluster, as a bit field."""
    cluster = lookups.user_cluster(context)
    if not wanted or cluster not in lookups.usable(context):
        return NOT_ASKED
    # Brokers before 2.8 return it in METADATA, those from 4.0 on only in DESCRIBE_CLUSTER (KIP-700).
    key, message = ApiKey.DESCRIBE_CLUSTER, Message(include_cluster_authorized_operations=True)
    if key not in context.topology.clusters[cluster].api_versions:
        key, message = ApiKey.METADATA, message | {"topics": [], "allow_auto_topic_creation": False}
    ask = Ask(cluster, AnyBroker(), key, message, lookups.SURVEY_MS)
    reply = yield from ask_or({"cluster_authorized_operations": NOT_ASKED}, ask)
    return int(reply["cluster_authorized_operations"])
