"""FIND_COORDINATOR for groups and transactional ids, in the clusters of their bindings."""

from collections.abc import Mapping

from gateway.composed import direct, lookups
from gateway.composed.ask import AnyBroker, Ask, ClusterUnavailableError, Message, ask_once
from gateway.composed.coordinator_release import UNLISTED
from gateway.composed.handlers import BrokerKey, Context, Handler, NeedNodes, NodeAddress, handles
from ha_core.wire.codes import ApiKey, ErrorCode

_GROUP, _TRANSACTION = 0, 1
_AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
_NOWHERE = {"node_id": -1, "host": "", "port": -1}


@handles(ApiKey.FIND_COORDINATOR)
def find_coordinator(context: Context, version: int, request: Message) -> Handler:
    if context.direct:
        return (yield from direct.find_coordinator(context, version, request))
    kind, key = request["key_type"], request["key"]
    cluster = _cluster(context, kind, key)
    if not isinstance(cluster, str):
        return cluster
    # Newer brokers expect a list of keys, and answer with one.
    message = {"key": key, "key_type": kind, "coordinator_keys": [key]}
    reply = yield from ask_once(Ask(cluster, AnyBroker(), ApiKey.FIND_COORDINATOR, message))
    if isinstance(reply, ClusterUnavailableError):
        return _error(_AWAY, str(reply))
    found = reply["coordinators"][0] if reply["coordinators"] else reply
    if found["error_code"]:
        return _error(found["error_code"], found["error_message"])
    broker = (cluster, found["node_id"])
    nodes: Mapping[BrokerKey, NodeAddress] = yield NeedNodes((broker,))
    node = nodes[broker]
    if kind == _TRANSACTION and context.coordinator_release.sends_away(context.identity.user, key, context.now):
        node = node._replace(node_id=UNLISTED + node.node_id)
    return node._asdict() | {"error_code": 0, "error_message": None}


def _cluster(context: Context, kind: int, key: str) -> str | Message:
    if kind == _GROUP:
        fence = lookups.group_fence(context, key)
        if fence is not None:
            return _error(lookups.GROUP_FENCED, f"group {key} is being moved by operation {fence.operation}")
        cluster = lookups.group_cluster(context, key)
    elif kind == _TRANSACTION:
        cluster = lookups.user_cluster(context)
    else:
        return _error(ErrorCode.INVALID_REQUEST, f"coordinators of type {kind} are not offered here")
    if cluster is None:
        return _error(_AWAY, f"{key} has no cluster: bind it or set a default")
    return cluster


def _error(code: int, why: str | None) -> Message:
    return {"error_code": code, "error_message": why, **_NOWHERE}
