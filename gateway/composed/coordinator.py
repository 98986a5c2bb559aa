"""FIND_COORDINATOR: of groups and transactional ids, in the cluster that bindings give them."""

from __future__ import annotations

from gateway.composed import places
from gateway.composed.ask import AnyBroker, Ask, ClusterUnavailableError, Message, ask_each
from gateway.composed.handlers import BrokerKey, Context, Handler, NeedNodes, handles
from ha_core.wire.codes import ApiKey, ErrorCode

_GROUP, _TRANSACTION = 0, 1
_AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
_NOWHERE = {"node_id": -1, "host": "", "port": -1}


@handles(ApiKey.FIND_COORDINATOR)
def find_coordinator(context: Context, version: int, request: Message) -> Handler:
    kind = request["key_type"]
    keys = list(dict.fromkeys(request["coordinator_keys"])) if version >= 4 else [request["key"]]
    outcomes: dict[str, Message] = {}
    asks: dict[str, Ask] = {}
    for key in keys:
        cluster = _cluster(context, kind, key)
        if isinstance(cluster, str):
            message = {"key": key, "key_type": kind, "coordinator_keys": [key]}
            asks[key] = Ask(cluster, AnyBroker(), ApiKey.FIND_COORDINATOR, message)
        else:
            outcomes[key] = cluster
    found: dict[str, BrokerKey] = {}
    for key, reply in (yield from ask_each(asks)).items():
        if isinstance(reply, ClusterUnavailableError):
            outcomes[key] = _error(_AWAY, str(reply))
            continue
        coordinator = reply["coordinators"][0] if reply["coordinators"] else reply
        if coordinator["error_code"]:
            outcomes[key] = _error(coordinator["error_code"], coordinator["error_message"])
        else:
            found[key] = (asks[key].cluster, coordinator["node_id"])
    if found:
        nodes = yield NeedNodes(tuple(dict.fromkeys(found.values())))
        for key, broker in found.items():
            outcomes[key] = nodes[broker]._asdict() | {"error_code": 0, "error_message": None}
    if version >= 4:
        return {"coordinators": [{"key": key, **outcomes[key]} for key in keys]}
    return outcomes[keys[0]]


def _cluster(context: Context, kind: int, key: str) -> str | Message:
    if kind == _GROUP:
        fence = places.group_fence(context, key)
        if fence is not None:
            return _error(_AWAY, f"group {key} is being moved by operation {fence.operation}")
        cluster = places.group_cluster(context, key)
    elif kind == _TRANSACTION:
        cluster = places.user_cluster(context)
    else:
        return _error(ErrorCode.INVALID_REQUEST, f"coordinators of type {kind} are not offered here")
    if cluster is None:
        return _error(_AWAY, f"nothing says which cluster serves {key}: bind it or set a default")
    return cluster


def _error(code: int, why: str | None) -> Message:
    return {"error_code": int(code), "error_message": why, **_NOWHERE}
