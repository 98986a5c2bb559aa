"""DESCRIBE_CLIENT_QUOTAS and ALTER_CLIENT_QUOTAS (KIP-546): the quotas that gateways enforce, not those of a cluster.

If the platform has the quotas, they are changed there, and reported once they have come back from there.

Kafka takes names below `clients` for client ids. Such a name may also be that of a user and a topic: a quota for
`alice.orders` is that of user alice in topic orders if alice is a known user, and is reported under the same name.
"""

from collections import Counter
from collections.abc import Mapping

from gateway.composed.ask import Message
from gateway.composed.handlers import OK, ChangeQuotas, Context, Handler, Long, QuotaChange, failed, handles
from ha_core.model.quota import (
    DEFAULT,
    KINDS,
    Limits,
    QuotaEntity,
    QuotaKind,
    check_entity,
    check_limit,
    check_limits,
    named,
)
from ha_core.wire.codes import ApiKey, ErrorCode

_USER, _CLIENT, _ADDRESS = "user", "client-id", "ip"
_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
MAX_CHANGES = 1000
"""Limit per request: each is a write to ZooKeeper, or a part of one to the platform."""
MANY_QUOTAS = 300
"""Above this, quotas are listed off the event loop."""


class _BadRequestError(Exception):
    def __init__(self, why: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(why)
        self.result = failed(code, why)


@handles(ApiKey.DESCRIBE_CLIENT_QUOTAS)
def describe_client_quotas(context: Context, version: int, request: Message) -> Handler:
    try:
        exact, types = _filter(request["components"])
    except _BadRequestError as error:
        return {**error.result, "entries": None}
    limits: Mapping[QuotaEntity, Limits] = {} if context.quotas is None else context.quotas.limits
    if len(limits) > MANY_QUOTAS:
        yield Long()
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in names.items()],
            "values": [{"key": kind.value, "value": value} for kind, value in of_entity.items()],
        }
        for names, of_entity in ((_kafka_entity(entity), of_entity) for entity, of_entity in limits.items())
        if _matches(names, exact, types, request["strict"])
    ]
    return {**OK, "entries": entries}


@handles(ApiKey.ALTER_CLIENT_QUOTAS)
def alter_client_quotas(context: Context, version: int, request: Message) -> Handler:
    if len(request["entries"]) > MAX_CHANGES:
        why = f"{len(request['entries'])} quotas in one request, {MAX_CHANGES} at most: send fewer at once"
        refused = failed(ErrorCode.INVALID_REQUEST, why)
        return {"entries": [{**refused, "entity": entry["entity"]} for entry in request["entries"]]}
    of_topics = _of_topics(context)
    results: dict[str, Message] = {}
    """By entity as named; a repeated entity has one result, as from a broker."""
    changes: dict[str, QuotaChange] = {}
    for entry in request["entries"]:
        key = repr(sorted((part["entity_type"], part["entity_name"] or "") for part in entry["entity"]))
        twice = key in results
        results[key] = {**OK, "entity": entry["entity"]}
        try:
            if twice:
                raise _BadRequestError(f"Ignoring duplicate entity {_words(entry['entity'])}")  # noqa: TRY301
            changes[key] = _change(context, entry, of_topics)
        except _BadRequestError as error:
            results[key].update(error.result)
    if changes:
        wanted = ChangeQuotas(context.user, tuple(changes.values()), request["validate_only"])
        outcomes: list[Message] = yield wanted
        for key, outcome in zip(changes, outcomes, strict=True):
            if not results[key]["error_code"]:
                results[key].update(outcome)
    return {"entries": list(results.values())}


def _change(context: Context, entry: Message, of_topics: Mapping[str, QuotaEntity]) -> QuotaChange:
    entity = _entity(context, entry["entity"], of_topics)
    times = Counter(op["key"] for op in entry["ops"])
    twice = [key for key, count in times.items() if count > 1]
    if twice:
        where = f"not updating quota for this entity {_words(entry['entity'])}"
        raise _BadRequestError(f"Duplicate quota key {twice[0]} {where}")
    change: dict[QuotaKind, float | None] = {}
    for op in entry["ops"]:
        key, value = op["key"], op["value"]
        try:
            if op["remove"]:
                if (gone := KINDS.get(key)) is not None:
                    change[gone] = None
                continue
            change[check_limit(key, value)] = value
        except ValueError as error:
            raise _BadRequestError(str(error)) from None
    set_here = {kind: value for kind, value in change.items() if value is not None}
    if set_here:
        try:
            check_limits(entity, set_here)
        except ValueError as error:
            raise _BadRequestError(str(error)) from None
    return QuotaChange(entity, change)


def _entity(context: Context, parts: list[Message], of_topics: Mapping[str, QuotaEntity]) -> QuotaEntity:
    names: dict[str, str] = {}
    for part in parts:
        kind, name = part["entity_type"], part["entity_name"]
        if kind in names:
            raise _BadRequestError(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind == _ADDRESS:
            raise _BadRequestError("quotas of addresses are not kept by gateways: limit a user or a client-id")
        if kind not in (_USER, _CLIENT):
            raise _BadRequestError(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _BadRequestError(f"Empty {kind} not supported")
        if name == DEFAULT:
            raise _BadRequestError(f"{kind} {name!r}: ask for the default entity instead, which has no name")
        names[kind] = DEFAULT if name is None else name
    if not names:
        raise _BadRequestError("Invalid empty client quota entity")
    user, instance = names.get(_USER), names.get(_CLIENT)
    entity = QuotaEntity(user, instance)
    if user is None and instance is not None and instance != DEFAULT:
        entity = _below_clients(context, instance, of_topics)
    try:
        check_entity(entity)
    except ValueError as error:
        raise _BadRequestError(str(error)) from None
    return entity


def _of_topics(context: Context) -> dict[str, QuotaEntity]:
    """Quotas of users in topics, by their names below `clients`; of two with one name the first."""
    limits = context.quotas.limits if context.quotas is not None else ()
    entities = [entity for entity in limits if entity.topic is not None]
    return {f"{entity.user}.{entity.topic}": entity for entity in reversed(entities)}


def _below_clients(context: Context, name: str, of_topics: Mapping[str, QuotaEntity]) -> QuotaEntity:
    if name in of_topics:
        return of_topics[name]
    instance = QuotaEntity(instance=name)
    if context.quotas is not None and instance in context.quotas.limits:
        return instance
    return named(name, context.users)


def _filter(components: list[Message]) -> tuple[dict[str, str], set[str]]:
    """Types with the requested name, and types for which any name matches."""
    exact: dict[str, str] = {}
    types: set[str] = set()
    for component in components:
        kind, how, name = component["entity_type"], component["match_type"], component["match"]
        if not kind:
            raise _BadRequestError("Invalid empty entity type.")
        if kind in exact or kind in types:
            raise _BadRequestError(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (_USER, _CLIENT, _ADDRESS):
            raise _BadRequestError(f"Unsupported entity type {kind}", ErrorCode.UNSUPPORTED_VERSION)
        if how == _EXACT:
            if name is None:
                raise _BadRequestError("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            exact[kind] = name
        elif how in (_DEFAULT, _SPECIFIED):
            if name is not None:
                which = "DEFAULT" if how == _DEFAULT else "SPECIFIED"
                raise _BadRequestError(f"Request specified MATCH_TYPE_{which}, but also specified a match string.")
            if how == _DEFAULT:
                exact[kind] = DEFAULT
            else:
                types.add(kind)
        else:
            raise _BadRequestError(f"Unknown match type {how}")
    asked = exact.keys() | types
    if _ADDRESS in asked and len(asked) > 1:
        raise _BadRequestError(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    return exact, types


def _kafka_entity(entity: QuotaEntity) -> dict[str, str | None]:
    """The entity in Kafka's form: type → name, None for the default."""
    if entity.topic is not None:
        return {_CLIENT: f"{entity.user}.{entity.topic}"}
    names = ((_USER, entity.user), (_CLIENT, entity.instance))
    return {kind: None if name == DEFAULT else name for kind, name in names if name is not None}


def _matches(names: Mapping[str, str | None], exact: Mapping[str, str], types: set[str], strict: bool) -> bool:
    if strict and len(names) != len(exact) + len(types):
        return False
    return types <= names.keys() and all(
        kind in names and names[kind] == (None if name == DEFAULT else name) for kind, name in exact.items()
    )


def _words(parts: list[Message]) -> str:
    return ", ".join(f"{part['entity_type']} {part['entity_name'] or DEFAULT}" for part in parts)
