"""DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS and OFFSET_DELETE: groups in the clusters that bindings give them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

from gateway.composed import places
from gateway.composed.ask import Ask, Broker, ClusterUnavailableError, Context, Coordinator, Handler, Message, Reply
from ha_core.wire.codes import ApiKey, ErrorCode

_AWAY = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def describe_groups(context: Context, version: int, request: Message) -> Handler:
    more = {"include_authorized_operations": request["include_authorized_operations"]}
    replies = yield from _each(
        context, ApiKey.DESCRIBE_GROUPS, request["groups"], lambda group: {"groups": [group], **more}
    )
    return {"groups": [_one(reply, "groups", group) for group, reply in replies.items()]}


def delete_groups(context: Context, version: int, request: Message) -> Handler:
    replies = yield from _each(
        context, ApiKey.DELETE_GROUPS, request["groups_names"], lambda group: {"groups_names": [group]}, fenced=False
    )
    return {"results": [_one(reply, "results", group) for group, reply in replies.items()]}


def offset_delete(context: Context, version: int, request: Message) -> Handler:
    group = request["group_id"]
    replies = yield from _each(context, ApiKey.OFFSET_DELETE, [group], lambda _: request, fenced=False)
    reply = replies[group]
    if reply is None or isinstance(reply, ClusterUnavailableError):
        return {"error_code": _AWAY, "topics": []}
    return reply


def list_groups(context: Context, version: int, request: Message) -> Handler:
    """Gateways' nodes list the groups of all clusters, brokers' virtual nodes none.

    Admin clients ask every node that they know and put the answers together; each group would come twice.
    """
    if context.port_cluster is not None:
        return {"error_code": 0, "groups": []}
    asks = tuple(
        Ask(cluster, Broker(broker), ApiKey.LIST_GROUPS, {"states_filter": request["states_filter"]})
        for cluster in places.usable(context)
        for broker in sorted(context.topology.clusters[cluster].brokers)
    )
    replies: Iterable[Reply] = (yield asks) if asks else []
    error = _AWAY if places.in_doubt(context) else 0
    copies: dict[str, dict[str, Message]] = {}
    for ask, reply in zip(asks, replies, strict=True):
        if isinstance(reply, ClusterUnavailableError):
            error = _AWAY
            continue
        error = error or reply["error_code"]
        for group in reply["groups"]:
            copies.setdefault(group["group_id"], {})[ask.cluster] = group
    groups = []
    for name, by_cluster in sorted(copies.items()):
        bound = places.group_cluster(context, name)
        # A move leaves the old copy behind. Whoever lists is not always who uses the group, so a single copy counts
        # wherever it is.
        groups.append(by_cluster[bound if bound in by_cluster else min(by_cluster)])
    return {"error_code": error, "groups": groups}


def _each(
    context: Context,
    api_key: int,
    groups: Iterable[str],
    message: Callable[[str], Message],
    *,
    fenced: bool = True,
) -> Generator[tuple[Ask, ...], Any, dict[str, Reply | None]]:
    """Asks the coordinator of each group; None where no cluster is to be asked. `fenced`: a fence does not matter."""
    replies: dict[str, Reply | None] = {}
    asks: dict[str, Ask] = {}
    for group in groups:
        replies[group] = None
        cluster = places.group_cluster(context, group)
        document = context.view.groups.get(group)
        if cluster is not None and (fenced or document is None or document.fence is None):
            asks[group] = Ask(cluster, Coordinator("group", group), api_key, message(group))
    if asks:
        replies.update(zip(asks, (yield tuple(asks.values())), strict=True))
    return replies


def _one(reply: Reply | None, results: str, group: str) -> Message:
    if reply is not None and not isinstance(reply, ClusterUnavailableError):
        for result in reply[results]:
            if result["group_id"] == group:
                found: Message = result
                return found
    return {"error_code": _AWAY, "group_id": group}
