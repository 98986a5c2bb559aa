"""DESCRIBE_ACLS, CREATE_ACLS and DELETE_ACLS: the gateway's rules or, if it has none, those of the user's cluster.

The platform's rules are changed there; a gateway reports the rules in force here, a moment later. A cluster's brokers
see the gateway's service account, so their rules apply to clients that connect to the cluster directly.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import TypeVar

from gateway.composed import lookups
from gateway.composed.ask import AnyBroker, Ask, Asking, ClusterUnavailableError, Controller, Message, Target, ask_once
from gateway.composed.handlers import (
    OK,
    Context,
    CreateRules,
    DeletedRules,
    DeleteRules,
    Handler,
    Long,
    failed,
    handles,
)
from ha_core.model.access import (
    CLUSTER_NAME,
    AccessRule,
    AccessRuleError,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    RuleFilter,
    host_name,
    principal,
    resource_name,
)
from ha_core.plan.access.rights import Rights
from ha_core.wire.codes import ApiKey, ErrorCode

N = TypeVar("N", bound=IntEnum)
_ANY, _MATCH = 1, 2
_OF_RULES = ("resource_type", "resource_pattern_type", "operation", "permission_type")
_OF_FILTERS = ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
MAX_RULES = 50_000
"""Rules that one request may search if it names no principal."""
MANY_RULES = 300
"""Above this, rules are searched off the event loop."""


@handles(ApiKey.DESCRIBE_ACLS)
def describe_acls(context: Context, version: int, request: Message) -> Handler:
    if context.rights is not None:
        return _described(context.rights, request)
    return _passed_on(context, request)


@handles(ApiKey.CREATE_ACLS)
def create_acls(context: Context, version: int, request: Message) -> Handler:
    def refused(error: Message) -> Message:
        return {"results": [error for _ in request["creations"]]}

    if context.rights is None:
        return _passed_on_each(context, ApiKey.CREATE_ACLS, request, "creations", "results", _OF_RULES, {})
    return _fixed_answer(refused(_kept_in(context.rules_file))) if context.rules_file else _created(context, request)


@handles(ApiKey.DELETE_ACLS)
def delete_acls(context: Context, version: int, request: Message) -> Handler:
    def refused(error: Message) -> Message:
        return {"filter_results": [error | {"matching_acls": []} for _ in request["filters"]]}

    if context.rights is None:
        more: Message = {"matching_acls": []}
        return _passed_on_each(context, ApiKey.DELETE_ACLS, request, "filters", "filter_results", _OF_FILTERS, more)
    return _fixed_answer(refused(_kept_in(context.rules_file))) if context.rules_file else _deleted(context, request)


def _kept_in(file: str) -> Message:
    why = f"rules are not changed through this gateway: they are kept in {file}"
    return failed(ErrorCode.SECURITY_DISABLED, why)


def _created(context: Context, request: Message) -> Handler:
    results: list[Message] = [OK for _ in request["creations"]]
    wanted: dict[int, AccessRule] = {}
    for index, fields in enumerate(request["creations"]):
        try:
            wanted[index] = _rule(fields)
        except AccessRuleError as error:
            results[index] = _invalid(error)
    if wanted:
        outcomes: list[Message] = yield CreateRules(context.user, tuple(wanted.values()))
        for index, outcome in zip(wanted, outcomes, strict=True):
            results[index] = outcome
    return {"results": results}


def _deleted(context: Context, request: Message) -> Handler:
    results: list[Message] = [OK | {"matching_acls": []} for _ in request["filters"]]
    wanted: dict[int, RuleFilter] = {}
    for index, filter_ in enumerate(request["filters"]):
        try:
            rule_filter = _filter(filter_)
        except AccessRuleError as error:
            results[index] = _invalid(error) | {"matching_acls": []}
            continue
        if rule_filter is not None:
            wanted[index] = rule_filter
    if wanted:
        outcomes: list[DeletedRules] = yield DeleteRules(context.user, tuple(wanted.values()))
        for index, outcome in zip(wanted, outcomes, strict=True):
            gone = [OK | _resource(rule) | _entry(rule) for rule in outcome.rules]
            results[index] = outcome.status | {"matching_acls": gone}
    return {"filter_results": results}


def _invalid(error: AccessRuleError) -> Message:
    return failed(ErrorCode.INVALID_REQUEST, str(error))


def _fixed_answer(answer: Message) -> Handler:
    """An answer without questions."""
    return answer
    yield ()


def _described(rights: Rights, request: Message) -> Handler:
    if len(rights) > MAX_RULES and request["principal_filter"] is None:
        why = f"there are {len(rights)} rules; more than {MAX_RULES} are listed for one principal only: name one"
        return failed(ErrorCode.INVALID_REQUEST, why) | {"resources": []}
    try:
        rule_filter = _filter(request)
    except AccessRuleError as error:
        return _invalid(error) | {"resources": []}
    if len(rights) > MANY_RULES:
        yield Long()
    resources: dict[tuple[int, str, int], Message] = {}
    for rule in rights.rules(request["principal_filter"]) if rule_filter is not None else ():
        if rule_filter is not None and rule_filter.describes(rule):
            resource = (rule.resource_type, rule.name, rule.pattern)
            resources.setdefault(resource, _resource(rule) | {"acls": []})["acls"].append(_entry(rule))
    return OK | {"resources": list(resources.values())}


def _resource(rule: AccessRule) -> Message:
    return {"resource_type": int(rule.resource_type), "resource_name": rule.name, "pattern_type": int(rule.pattern)}


def _entry(rule: AccessRule) -> Message:
    return {
        "principal": rule.principal,
        "host": rule.host,
        "operation": int(rule.operation),
        "permission_type": int(rule.effect),
    }


def _rule(fields: Message) -> AccessRule:
    """:raises AccessRuleError: no rule can have these values."""
    resource = _known(ResourceType, fields, "resource_type")
    name = resource_name(resource, fields["resource_name"])
    if resource is ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise AccessRuleError(f"resource_name: the only name for the cluster is {CLUSTER_NAME}")
    return AccessRule(
        principal(fields["principal"]),
        resource,
        name,
        _known(PatternType, fields, "resource_pattern_type"),
        _known(AclOperation, fields, "operation"),
        _known(Permission, fields, "permission_type"),
        host_name(fields["host"]),
    )


def _known(kind: type[N], fields: Message, field: str) -> N:
    try:
        return kind(fields[field])
    except ValueError:
        known = ", ".join(f"{one.value} ({one.name})" for one in kind)
        raise AccessRuleError(f"{field} {fields[field]}: no rule here can have it; one of {known}") from None


def _filter(asked: Message) -> RuleFilter | None:
    """None: it describes rules that cannot exist here, such as those of delegation tokens.

    :raises AccessRuleError: it has an element that Kafka does not know either.
    """
    _demand_known(asked, _OF_FILTERS)
    pattern = asked["pattern_type_filter"]
    try:
        return RuleFilter(
            _asked(ResourceType, asked["resource_type_filter"]),
            asked["resource_name_filter"],
            None if pattern == _MATCH else _asked(PatternType, pattern),
            _asked(AclOperation, asked["operation"]),
            _asked(Permission, asked["permission_type"]),
            asked["principal_filter"],
            asked["host_filter"],
            matching=pattern == _MATCH,
        )
    except ValueError:
        return None


def _asked(kind: type[N], number: int) -> N | None:
    return None if number == _ANY else kind(number)


def _demand_known(element: Message, names: Iterable[str]) -> None:
    """:raises AccessRuleError: a field is *unknown*. A broker closes the connection on such a request."""
    for field in names:
        if element[field] < _ANY:
            raise AccessRuleError(f"{field} {element[field]}: unknown; {_ANY} means any")


def _passed_on(context: Context, request: Message) -> Handler:
    try:
        _demand_known(request, _OF_FILTERS)
    except AccessRuleError as error:
        return _invalid(error) | {"resources": []}
    reply = yield from _ask(context, ApiKey.DESCRIBE_ACLS, AnyBroker(), request)
    return reply if isinstance(reply, dict) else _unasked(reply) | {"resources": []}


def _passed_on_each(
    context: Context,
    api_key: int,
    request: Message,
    request_list: str,
    answered: str,
    fields: tuple[str, ...],
    more: Message,
) -> Handler:
    """Asks the user's cluster for all elements except those on which its brokers close the connection.

    :param request_list: name of the request's list.
    :param answered: name of the answer's list.
    :param more: fields of an answer beside the error.
    """
    results: dict[int, Message] = {}
    sent: list[int] = []
    for index, one in enumerate(request[request_list]):
        try:
            _demand_known(one, fields)
            sent.append(index)
        except AccessRuleError as error:
            results[index] = _invalid(error) | more
    answer: Message = {}
    if sent or not results:
        passed = request | {request_list: [request[request_list][index] for index in sent]}
        reply = yield from _ask(context, api_key, Controller(), passed)
        if isinstance(reply, dict):
            answer = reply
            results.update(zip(sent, reply[answered], strict=False))
        else:
            results.update((index, _unasked(reply) | more) for index in sent)
    return answer | {answered: [results[index] for index in sorted(results)]}


def _ask(context: Context, api_key: int, target: Target, request: Message) -> Asking[Message | str]:
    """The answer of the user's cluster, or the reason for which it is not asked."""
    cluster = lookups.user_cluster(context)
    if cluster is None:
        return lookups.UNBOUND
    reply = yield from ask_once(Ask(cluster, target, api_key, request))
    return str(reply) if isinstance(reply, ClusterUnavailableError) else reply


def _unasked(why: str) -> Message:
    return failed(ErrorCode.REQUEST_TIMED_OUT, why)
