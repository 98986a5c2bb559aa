"""DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS and OFFSET_DELETE: groups in the clusters that bindings give them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

from gateway.composed import places
from gateway.composed.ask import Ask, Broker, ClusterUnavailableError, Context, Coordinator, Handler, Message, Reply
from ha_core.wire.codes import ApiKey, ErrorCode

_AWAY = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)

_Each = Generator[tuple[Ask, ...], Any, dict[str, Message]]


def describe_groups(context: Context, version: int, request: Message) -> Handler:
    more = {"include_authorized_operations": request["include_authorized_operations"]}
    answers = yield from _each(
        context, ApiKey.DESCRIBE_GROUPS, request["groups"], lambda groups: {"groups": groups, **more}, "groups"
    )
    return {"groups": list(answers.values())}


def delete_groups(context: Context, version: int, request: Message) -> Handler:
    names = list(dict.fromkeys(request["groups_names"]))
    answers = yield from _each(
        context,
        ApiKey.DELETE_GROUPS,
        [name for name in names if not _fenced(context, name)],
        lambda groups: {"groups_names": groups},
        "results",
    )
    return {"results": [answers.get(name, _away(name)) for name in names]}


def offset_delete(context: Context, version: int, request: Message) -> Handler:
    group = request["group_id"]
    cluster = places.group_cluster(context, group)
    if cluster is None or _fenced(context, group):
        return {"error_code": _AWAY, "topics": []}
    reply: Reply = (yield (Ask(cluster, Coordinator("group", group), ApiKey.OFFSET_DELETE, request),))[0]
    return {"error_code": _AWAY, "topics": []} if isinstance(reply, ClusterUnavailableError) else reply


def list_groups(context: Context, version: int, request: Message) -> Handler:
    """A broker's virtual node lists what its broker coordinates, a gateway's node lists nothing.

    Admin clients ask every node of the cluster and put the answers together. So each group comes once, however many
    gateways there are, and a client whose metadata names gateways of yesterday misses none.
    """
    cluster, broker = context.port_cluster, context.port_broker
    if cluster is None or broker is None:
        return {"error_code": 0, "groups": []}
    if cluster not in places.usable(context):
        return {"error_code": _AWAY, "groups": []}
    filters = {name: request[name] for name in ("states_filter", "types_filter")}
    reply: Reply = (yield (Ask(cluster, Broker(broker), ApiKey.LIST_GROUPS, filters),))[0]
    if isinstance(reply, ClusterUnavailableError):
        return {"error_code": _AWAY, "groups": []}
    found = [group["group_id"] for group in reply["groups"]]
    left = yield from _left_behind(context, cluster, found)
    return reply | {"groups": [group for group in reply["groups"] if group["group_id"] not in left]}


def _left_behind(context: Context, here: str, groups: Iterable[str]) -> Generator[tuple[Ask, ...], Any, set[str]]:
    """Those of the groups found in a cluster that count in another one.

    A move leaves the old copy behind, and bindings say which of them it is. Whoever lists is not always who uses the
    group, so a single copy counts wherever it is.
    """
    bound = {group: places.group_cluster(context, group) for group in groups}
    doubtful = {group for group, cluster in bound.items() if cluster != here}
    others = [cluster for cluster in places.usable(context) if cluster != here]
    if not doubtful or not others:
        return set()
    asks = tuple(
        Ask(cluster, Broker(broker), ApiKey.LIST_GROUPS, {})
        for cluster in others
        for broker in sorted(context.topology.clusters[cluster].brokers)
    )
    copies: dict[str, set[str]] = {group: {here} for group in doubtful}
    for ask, reply in zip(asks, (yield asks), strict=True):
        for group in () if isinstance(reply, ClusterUnavailableError) else reply["groups"]:
            copies.get(group["group_id"], set()).add(ask.cluster)
    return {group for group, held in copies.items() if here != (bound[group] if bound[group] in held else min(held))}


def _each(
    context: Context, api_key: int, groups: Iterable[str], message: Callable[[list[str]], Message], results: str
) -> _Each:
    """What their coordinators say of the groups: one question to each coordinator.

    Who that is, is known from who leads the partitions of __consumer_offsets. That may be seconds old, so a group
    that is not there after all is asked for again, by itself and at the coordinator that its cluster names.
    """
    answers = {group: _away(group) for group in groups}
    batches: dict[tuple[str, int], list[str]] = {}
    alone: list[tuple[str, str]] = []
    for group in answers:
        cluster = places.group_cluster(context, group)
        broker = None if cluster is None else context.topology.coordinator(cluster, group)
        if cluster is not None and broker is not None:
            batches.setdefault((cluster, broker), []).append(group)
        elif cluster is not None:
            alone.append((cluster, group))
    if batches:
        replies: Iterable[Reply] = yield tuple(
            Ask(cluster, Broker(broker), api_key, message(batch)) for (cluster, broker), batch in batches.items()
        )
        for ((cluster, _), batch), reply in zip(batches.items(), replies, strict=True):
            answers.update(_answered(reply, results, batch))
            moved = (group for group in batch if answers[group]["error_code"] == ErrorCode.NOT_COORDINATOR)
            alone += [(cluster, group) for group in moved]
    if alone:
        replies = yield tuple(Ask(c, Coordinator("group", group), api_key, message([group])) for c, group in alone)
        for (_, group), reply in zip(alone, replies, strict=True):
            answers.update(_answered(reply, results, [group]))
    return answers


def _answered(reply: Reply, results: str, groups: list[str]) -> dict[str, Message]:
    if isinstance(reply, ClusterUnavailableError):
        return {}
    return {result["group_id"]: result for result in reply[results] if result["group_id"] in groups}


def _fenced(context: Context, group: str) -> bool:
    document = context.view.groups.get(group)
    return document is not None and document.fence is not None


def _away(group: str) -> Message:
    return {"error_code": _AWAY, "group_id": group}
