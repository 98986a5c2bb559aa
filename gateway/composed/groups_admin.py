"""Administration of groups (describe, list, delete, and delete offsets), by one rule: in the cluster that a group is
bound to or, if that cluster does not have the group, in those that have it. An admin client need not be a member of the
group."""

from collections.abc import Callable, Iterable

from gateway.composed import lookups
from gateway.composed.ask import (
    Ask,
    Asking,
    ClusterUnavailableError,
    Coordinator,
    Message,
    OneBroker,
    Reply,
    ask_each,
    grouped,
)
from gateway.composed.handlers import Context, Handler, handles
from gateway.composed.mentions import MAX_MENTIONS, numbered
from ha_core.model.access import AclOperation, ResourceType
from ha_core.wire.codes import ApiKey, ErrorCode

_AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
MAX_ALONE = 64
"""Groups of one request that are asked for one by one, two questions each. The others get a retriable error, on which
clients retry only those: by then more of them are answered, or the leaders of __consumer_offsets are known."""

_NOT_FOUND = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""UNSUPPORTED_VERSION comes from brokers with KIP-848 groups disabled."""
_DEAD = "Dead"
"""State of a missing group in answers that have no error for that."""

_Question = Callable[[list[str]], Message]
_Where = tuple[str, str]
"""(cluster, group)"""


@handles(ApiKey.DESCRIBE_GROUPS)
def describe_groups(context: Context, version: int, request: Message) -> Handler:
    return {"groups": (yield from _describe(context, ApiKey.DESCRIBE_GROUPS, "groups", request))}


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE)
def describe_consumer_groups(context: Context, version: int, request: Message) -> Handler:
    """Describes KIP-848 groups. No client joins one through a gateway, but clients that reach a cluster directly do."""
    answers = yield from _describe(context, ApiKey.CONSUMER_GROUP_DESCRIBE, "group_ids", request)
    return {"groups": [_seen(context, _without_topic_ids(answer)) for answer in answers]}


def _seen(context: Context, group: Message) -> Message:
    """Hides a group whose members name topics that the client may not see, as brokers do."""
    members = group.get("members", ())
    names = {name for member in members for name in member["subscribed_topic_names"]}
    for member in members:
        for which in ("assignment", "target_assignment"):
            names.update(topic["topic_name"] for topic in member[which]["topic_partitions"])
    if all(context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        return group
    why = "The group has described topic(s) that the client is not authorized to describe."
    error = {"error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "error_message": why}
    return {"group_id": group["group_id"], "members": [], **error}


def _describe(context: Context, api_key: int, names: str, request: Message) -> Asking[list[Message]]:
    """Each group as its bound cluster describes it or, if that does not have the group, as one that has it.

    Listings show it too, wherever it is: an admin client often belongs to another user than the group.
    """

    def question(groups: list[str]) -> Message:
        return {names: groups, "include_authorized_operations": request["include_authorized_operations"]}

    bound = {group: lookups.group_cluster(context, group) for group in request[names]}
    found = yield from _ask(context, api_key, [(c, g) for g, c in bound.items() if c is not None], question, "groups")
    answers = {group: found.get((cluster or "", group), _away(group)) for group, cluster in bound.items()}
    missing = [group for group, answer in answers.items() if _is_missing(answer)]
    others = [(c, group) for group in missing for c in lookups.usable(context) if c != bound[group]]
    elsewhere = yield from _ask(context, api_key, others, question, "groups")
    for (_, group), answer in elsewhere.items():
        if _is_missing(answers[group]) and not answer["error_code"] and not _is_missing(answer):
            answers[group] = answer
    return [answers[group] if nth < MAX_MENTIONS else _away(group) for group, nth in numbered(request[names])]


def _is_missing(answer: Message) -> bool:
    return answer["error_code"] in _NOT_FOUND or (not answer["error_code"] and answer["group_state"] == _DEAD)


def _without_topic_ids(group: Message) -> Message:
    """Ids differ between clusters, and METADATA has none: clients take zero for "no id" (KIP-516)."""

    def assigned(member: Message, name: str) -> Message:
        return {"topic_partitions": [topic | {"topic_id": bytes(16)} for topic in member[name]["topic_partitions"]]}

    members = [
        member | {name: assigned(member, name) for name in ("assignment", "target_assignment")}
        for member in group.get("members", ())
    ]
    return group | {"members": members}


@handles(ApiKey.DELETE_GROUPS)
def delete_groups(context: Context, version: int, request: Message) -> Handler:
    names = list(dict.fromkeys(request["groups_names"]))
    fenced = {name: _refused(name, lookups.GROUP_FENCED) for name in names if lookups.group_fence(context, name)}

    def question(groups: list[str]) -> Message:
        return {"groups_names": groups}

    free = [name for name in names if name not in fenced]
    answers = yield from _where_listed(
        context, free, lambda asked: _ask(context, ApiKey.DELETE_GROUPS, asked, question, "results"), _of_several
    )
    answers |= fenced
    return {"results": [answers.get(name, _away(name)) for name in names]}


@handles(ApiKey.OFFSET_DELETE)
def offset_delete(context: Context, version: int, request: Message) -> Handler:
    group = request["group_id"]
    if lookups.group_fence(context, group):
        return {"error_code": lookups.GROUP_FENCED, "topics": []}

    def ask(entries: Iterable[_Where]) -> Asking[dict[_Where, Message]]:
        asks = {where: Ask(where[0], Coordinator("group", group), ApiKey.OFFSET_DELETE, request) for where in entries}
        replies = yield from ask_each(asks)
        return {
            where: _no_offsets(_AWAY) if isinstance(reply, ClusterUnavailableError) else reply
            for where, reply in replies.items()
        }

    answers = yield from _where_listed(context, [group], ask, _of_several_logs)
    return answers.get(group, _no_offsets(_AWAY))


def _where_listed(
    context: Context,
    groups: Iterable[str],
    ask: Callable[[Iterable[_Where]], Asking[dict[_Where, Message]]],
    of_several: Callable[[list[Message]], Message],
) -> Asking[dict[str, Message]]:
    """Changes groups in the clusters where listings show them: in the bound cluster or, if that does not have the
    group, in all others that have it. A broker without the group answers GROUP_ID_NOT_FOUND and changes nothing.

    :param ask: changes groups at their coordinators.
    :param of_several: merges the answers of several clusters that have the group.
    """
    bound = {group: lookups.group_cluster(context, group) for group in groups}
    placed = yield from ask([(cluster, group) for group, cluster in bound.items() if cluster is not None])
    answers = {group: answer for (_, group), answer in placed.items()}
    nowhere = [group for group in bound if group not in answers or answers[group]["error_code"] in _NOT_FOUND]
    clusters = lookups.usable(context)
    others = yield from ask([(c, group) for group in nowhere for c in clusters if c != bound[group]])
    by_group = grouped((group, answer) for (_, group), answer in others.items())
    # An unreachable cluster may have a group that no other has; listings will show it again.
    in_doubt = lookups.in_doubt(context)
    for group in nowhere:
        if found := [answer for answer in by_group.get(group, ()) if answer["error_code"] not in _NOT_FOUND]:
            answers[group] = of_several(found)
        elif in_doubt:
            answers.pop(group, None)
        elif group in by_group:
            answers[group] = by_group[group][0]
    return answers


def _of_several(answers: list[Message]) -> Message:
    """The first error, or success if every cluster deleted its group."""
    return next((answer for answer in answers if answer["error_code"]), answers[0])


def _of_several_logs(answers: list[Message]) -> Message:
    """An offset counts as deleted when every cluster that knows its topic has deleted it."""
    merged = _of_several(answers)
    if merged["error_code"] or len(answers) == 1:
        return merged
    codes = grouped(
        ((topic["name"], partition["partition_index"]), partition["error_code"])
        for answer in answers
        for topic in answer["topics"]
        for partition in topic["partitions"]
    )

    def code(topic: str, partition: int) -> int:
        known_codes: list[int] = codes[topic, partition]
        failed = [one for one in known_codes if one not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        return (failed or sorted(known_codes))[0]

    topics = [
        topic
        | {
            "partitions": [
                one | {"error_code": code(topic["name"], one["partition_index"])} for one in topic["partitions"]
            ]
        }
        for topic in merged["topics"]
    ]
    return merged | {"topics": topics}


def _no_offsets(error: int) -> Message:
    return {"error_code": error, "topics": []}


@handles(ApiKey.LIST_GROUPS)
def list_groups(context: Context, version: int, request: Message) -> Handler:
    """A broker's virtual node lists the groups that its broker coordinates, a gateway's node lists none.

    Admin clients ask every node of the cluster and merge the answers. So each group comes once, however many gateways
    there are, and a client whose metadata names former gateways misses none.
    """
    filters = {name: request[name] for name in ("states_filter", "types_filter")}
    reply = yield from lookups.ask_port(context, ApiKey.LIST_GROUPS, filters, "groups", _AWAY)
    left = yield from _copied_elsewhere(
        context, context.port_cluster or "", [group["group_id"] for group in reply["groups"]]
    )
    return reply | {"groups": [group for group in reply["groups"] if group["group_id"] not in left]}


def _copied_elsewhere(context: Context, here: str, groups: Iterable[str]) -> Asking[set[str]]:
    """Groups in a cluster whose copy in another cluster counts.

    A move leaves the old copy in the origin, and bindings tell the copies apart. The client that lists often belongs to
    another user than the group, so a single copy counts wherever it is.
    """
    bound = {group: lookups.group_cluster(context, group) for group in groups}
    doubtful = {group for group, cluster in bound.items() if cluster != here}
    others = [cluster for cluster in lookups.usable(context) if cluster != here]
    if not doubtful or not others:
        return set()
    asks = {
        (cluster, broker): Ask(cluster, OneBroker(broker), ApiKey.LIST_GROUPS, {})
        for cluster in others
        for broker in sorted(context.topology.clusters[cluster].brokers)
    }
    copies: dict[str, set[str]] = {group: {here} for group in doubtful}
    for (cluster, _), reply in (yield from ask_each(asks)).items():
        for group in _answered(reply, "groups"):
            copies.get(group, set()).add(cluster)
    return {
        group
        for group, holders in copies.items()
        if here != (bound[group] if bound[group] in holders else min(holders))
    }


def _ask(
    context: Context, api_key: int, groups: Iterable[_Where], question: _Question, results: str
) -> Asking[dict[_Where, Message]]:
    """Answers of the groups' coordinators: one question to each coordinator.

    The leaders of the partitions of __consumer_offsets are the coordinators. That may be seconds old, so a group that
    has moved is asked for again, alone, at the coordinator that its cluster names: up to `MAX_ALONE` of them.
    """
    answers = {where: _away(where[1]) for where in groups}
    coordinators = {where: context.topology.coordinator(*where) for where in answers}
    alone = [where for where, broker in coordinators.items() if broker is None]
    batches = grouped(((c, broker), group) for (c, group), broker in coordinators.items() if broker is not None)
    asks = {broker: Ask(broker[0], OneBroker(broker[1]), api_key, question(batch)) for broker, batch in batches.items()}
    for broker, reply in (yield from ask_each(asks)).items():
        found = _answered(reply, results)
        answers |= {(broker[0], group): found[group] for group in batches[broker] if group in found}
        alone += [(broker[0], group) for group in found if found[group]["error_code"] == ErrorCode.NOT_COORDINATOR]
    asked_alone = {
        (cluster, group): Ask(cluster, Coordinator("group", group), api_key, question([group]))
        for cluster, group in alone[:MAX_ALONE]
    }
    for where, reply in (yield from ask_each(asked_alone)).items():
        answers[where] = _answered(reply, results).get(where[1], answers[where])
    return answers


def _answered(reply: Reply, results: str) -> dict[str, Message]:
    if isinstance(reply, ClusterUnavailableError):
        return {}
    return {result["group_id"]: result for result in reply[results]}


def _away(group: str) -> Message:
    return _refused(group, _AWAY)


def _refused(group: str, error: int) -> Message:
    return {"error_code": error, "group_id": group}
