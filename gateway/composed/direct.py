"""METADATA and FIND_COORDINATOR at the listener for discovery: real brokers, to which the client then connects itself.

A client knows brokers by their ids, and asks any of them for metadata later. So it sees one cluster, its user's, under
that cluster's own ids, and nothing that real brokers cannot serve: a topic with a map, whose offsets only gateways
know, or one that another cluster serves, gets an authorization error, which clients show at once. A retriable error
would make them wait forever. Lists of all topics omit such topics, or subscriptions by pattern would end.

While the cluster does not answer, the gateway returns its last known state, leaders included: the client may reach the
cluster even if the gateway cannot.
"""

from collections.abc import Iterable

from gateway.composed import lookups
from gateway.composed.ask import AnyBroker, Ask, Asking, ClusterUnavailableError, Message, ask_once
from gateway.composed.handlers import Context, Handler, Long
from gateway.model.topology import ClusterTopology
from ha_core.wire.codes import ApiKey, ErrorCode

_GROUP, _TRANSACTION = 0, 1
_NOWHERE = {"node_id": -1, "host": "", "port": -1}
_LATER = ErrorCode.LEADER_NOT_AVAILABLE
_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state"})


def metadata(context: Context, version: int, request: Message) -> Handler:
    topics = request["topics"]
    names = None if topics is None or (version == 0 and not topics) else [topic["name"] or "" for topic in topics]
    cluster = lookups.user_cluster(context)
    if cluster is None or lookups.masked(context, cluster):
        return {"brokers": [], "controller_id": -1, "topics": [_error(name, _LATER) for name in names or ()]}
    here = names if names is None else [name for name in dict.fromkeys(names) if _served(context, name, cluster)]
    topology = context.topology.clusters.get(cluster)
    if lookups.know_much(context, (topology.topics if topology is not None else ()) if here is None else here):
        yield Long()
    answer = yield from _ask(context, request, cluster, here)
    found = [
        topic | {"partitions": [partition | lookups.NO_EPOCH for partition in topic["partitions"]]}
        for topic in answer["topics"]
    ]
    if names is None:
        return answer | {"topics": [topic for topic in found if _served(context, topic["name"], cluster)]}
    refused = (name for name in dict.fromkeys(names) if name not in (here or ()))
    return answer | {"topics": [*found, *(_error(name, _not_served(context, name)) for name in refused)]}


def find_coordinator(context: Context, version: int, request: Message) -> Handler:
    kind, key = request["key_type"], request["key"]
    if kind not in (_GROUP, _TRANSACTION):
        return _coordinator_error(ErrorCode.INVALID_REQUEST, f"coordinators of type {kind} are not offered here")
    if kind == _GROUP and (fence := lookups.group_fence(context, key)) is not None:
        return _coordinator_error(lookups.GROUP_FENCED, f"group {key} is being moved by operation {fence.operation}")
    cluster = lookups.user_cluster(context)
    if cluster is None or lookups.masked(context, cluster):
        return _coordinator_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the user's cluster is missing or masked")
    if kind == _GROUP and lookups.group_cluster(context, key) != cluster:
        why = f"group {key} is in another cluster than its user: use a listener other than that for discovery"
        return _coordinator_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, why)
    message = {"key": key, "key_type": kind, "coordinator_keys": [key]}
    reply = yield from ask_once(Ask(cluster, AnyBroker(), ApiKey.FIND_COORDINATOR, message, lookups.SURVEY_MS))
    if isinstance(reply, ClusterUnavailableError):
        return _last_coordinator(context, cluster, key) if kind == _GROUP else _away(reply)
    found: Message = reply["coordinators"][0] if reply["coordinators"] else reply
    named = ("error_code", "error_message", *_NOWHERE)
    return {name: found[name] for name in named if name in found}


def _not_served(context: Context, topic: str) -> ErrorCode:
    deleted = context.view.concealed(topic)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if deleted else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _served(context: Context, topic: str, cluster: str) -> bool:
    """True if real brokers of the cluster serve all of the topic to this client."""
    if lookups.document(context, topic).mapped or context.view.concealed(topic):
        return False
    return lookups.resolve(context, topic).cluster == cluster


def _ask(context: Context, request: Message, cluster: str, names: list[str] | None) -> Asking[Message]:
    flags = ("include_topic_authorized_operations", "include_cluster_authorized_operations")
    ask = lookups.ask_topics(cluster, names, **{flag: bool(request.get(flag)) for flag in flags})
    reply = yield from ask_once(ask)
    if isinstance(reply, ClusterUnavailableError):
        return _last_known(context.topology.clusters.get(cluster), names)
    kept = ("brokers", "cluster_id", "controller_id", "topics", "cluster_authorized_operations")
    # The answer may be shared with others who ask the same: its parts are copied, and never changed.
    found = {name: reply[name] for name in kept if name in reply}
    return found | {"brokers": list(found["brokers"])}


def _last_known(topology: ClusterTopology | None, names: Iterable[str] | None) -> Message:
    if topology is None:
        return {"brokers": [], "controller_id": -1, "topics": [_error(name, _LATER) for name in names or ()]}
    wanted = topology.topics if names is None else names
    return {
        "brokers": [
            {"node_id": n, "host": h, "port": p, "rack": None} for n, (h, p) in sorted(topology.brokers.items())
        ],
        "controller_id": min(topology.brokers, default=-1),
        "topics": [_last_topic(name, topology) for name in wanted],
    }


def _last_topic(name: str, topology: ClusterTopology) -> Message:
    leaders = topology.topics.get(name)
    if leaders is None:
        return _error(name, _LATER)
    partitions = []
    for index, leader in sorted(leaders.items()):
        led = [leader] if leader >= 0 else []
        partition: Message = {"partition_index": index, "leader_id": leader}
        partition |= {"replica_nodes": led, "isr_nodes": led, "offline_replicas": []}
        partitions.append(partition | {"error_code": 0 if led else _LATER})
    return {"error_code": 0, "name": name, "is_internal": name in _INTERNAL, "partitions": partitions}


def _last_coordinator(context: Context, cluster: str, group: str) -> Message:
    broker = context.topology.last_coordinator(cluster, group)
    topology = context.topology.clusters.get(cluster)
    if broker is None or topology is None or broker not in topology.brokers:
        return _coordinator_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"cluster {cluster} does not answer")
    host, port = topology.brokers[broker]
    return {"error_code": 0, "error_message": None, "node_id": broker, "host": host, "port": port}


def _away(reply: ClusterUnavailableError) -> Message:
    return _coordinator_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(reply))


def _error(name: str, code: ErrorCode) -> Message:
    return {"error_code": code, "name": name, "partitions": []}


def _coordinator_error(code: int, why: str) -> Message:
    return {"error_code": code, "error_message": why, **_NOWHERE}
