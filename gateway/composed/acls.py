"""DESCRIBE_ACLS, CREATE_ACLS and DELETE_ACLS: the gateway's rules, or, where it has none, those of the user's cluster.

A cluster's brokers see the gateway's service account, so its rules hold for clients that connect to it directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gateway.composed import places
from gateway.composed.ask import AnyBroker, Ask, ClusterUnavailableError, Controller, Message, Target, ask_once
from gateway.composed.handlers import Context, Handler, handles
from ha_core.model.access import ANY_NAME, AccessRule, PatternType
from ha_core.plan.rights import Rights
from ha_core.wire.codes import ApiKey, ErrorCode

_ANY, _MATCH = 1, 2
MAX_RULES = 50_000
"""That are gone through for one request: it is done between those of others."""


@handles(ApiKey.DESCRIBE_ACLS)
def describe_acls(context: Context, version: int, request: Message) -> Handler:
    if context.rights is not None:
        return _told(_described(context.rights, request))
    return _ask(context, ApiKey.DESCRIBE_ACLS, AnyBroker(), request, lambda error: error | {"resources": []})


@handles(ApiKey.CREATE_ACLS)
def create_acls(context: Context, version: int, request: Message) -> Handler:
    each = request["creations"]
    return _change(context, ApiKey.CREATE_ACLS, request, lambda error: {"results": [error for _ in each]})


@handles(ApiKey.DELETE_ACLS)
def delete_acls(context: Context, version: int, request: Message) -> Handler:
    return _change(
        context,
        ApiKey.DELETE_ACLS,
        request,
        lambda error: {"filter_results": [error | {"matching_acls": []} for _ in request["filters"]]},
    )


def _change(context: Context, api_key: int, request: Message, refused: Callable[[Message], Message]) -> Handler:
    if context.rights is not None:
        why = f"rules are not changed through this gateway: they are kept in {context.rules_kept}"
        return _told(refused({"error_code": ErrorCode.SECURITY_DISABLED, "error_message": why}))
    return _ask(context, api_key, Controller(), request, refused)


def _told(answer: Message) -> Handler:
    """Nobody is asked."""
    return answer
    yield ()


def _described(rights: Rights, asked: Message) -> Message:
    if len(rights) > MAX_RULES and asked["principal_filter"] is None:
        why = f"there are {len(rights)} rules; more than {MAX_RULES} are told of one principal only: name one"
        return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": why, "resources": []}
    resources: dict[tuple[int, str, int], list[Message]] = {}
    for rule in _matching(rights, asked):
        acl = {
            "principal": rule.principal,
            "host": rule.host,
            "operation": int(rule.operation),
            "permission_type": int(rule.effect),
        }
        resources.setdefault((rule.resource_type, rule.name, rule.pattern), []).append(acl)
    return {
        "error_code": 0,
        "error_message": None,
        "resources": [
            {"resource_type": int(kind), "resource_name": name, "pattern_type": int(pattern), "acls": acls}
            for (kind, name, pattern), acls in resources.items()
        ],
    }


def _matching(rights: Rights, asked: Message) -> Iterator[AccessRule]:
    """Rules that a filter describes, as Kafka's `AclBindingFilter` does."""
    numbers = ("resource_type_filter", "operation", "permission_type")
    for rule in rights.rules(asked["principal_filter"]):
        said = (rule.resource_type, rule.operation, rule.effect)
        if any(asked[field] not in (_ANY, number) for field, number in zip(numbers, said, strict=True)):
            continue
        if asked["host_filter"] in (None, rule.host) and _names(rule, asked):
            yield rule


def _names(rule: AccessRule, asked: Message) -> bool:
    pattern, name = asked["pattern_type_filter"], asked["resource_name_filter"]
    if pattern not in (_ANY, _MATCH, rule.pattern):
        return False
    if name is None or rule.name == name:
        return True
    if pattern != _MATCH:
        return False
    return name.startswith(rule.name) if rule.pattern is PatternType.PREFIXED else rule.name == ANY_NAME


def _ask(
    context: Context, api_key: int, target: Target, request: Message, refused: Callable[[Message], Message]
) -> Handler:
    cluster, why = places.user_cluster(context), places.UNBOUND
    if cluster is not None:
        reply = yield from ask_once(Ask(cluster, target, api_key, request))
        if not isinstance(reply, ClusterUnavailableError):
            return reply
        why = str(reply)
    return refused({"error_code": ErrorCode.REQUEST_TIMED_OUT, "error_message": why})
