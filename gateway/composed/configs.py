"""DESCRIBE_CONFIGS, ALTER_CONFIGS and INCREMENTAL_ALTER_CONFIGS: topics by their cluster, brokers by their node id."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from gateway.composed import lookups
from gateway.composed.ask import (
    AnyBroker,
    Ask,
    ClusterUnavailableError,
    Controller,
    Message,
    OneBroker,
    Target,
    ask_each,
)
from gateway.composed.handlers import Context, Handler, handles
from gateway.composed.mentions import MAX_MENTIONS, numbered
from ha_core.model.numeral import whole_number
from ha_core.wire.codes import ApiKey, ErrorCode

_MAX_NODE_ID = (1 << 31) - 1
_SHOWN = 40
"""Characters of a name in an error: names may have 32,767."""
_TOPIC, _BROKER, _BROKER_LOGGER = 2, 4, 8
_AWAY = ErrorCode.REQUEST_TIMED_OUT

_Key = tuple[int, str]
_Mention = tuple[int, str, int]
"""A resource, and the number of its earlier mentions."""


class _ConfigHolder(NamedTuple):
    """Where to ask for a resource, and its name there."""

    cluster: str
    target: Target
    name: str


@handles(ApiKey.DESCRIBE_CONFIGS)
def describe_configs(context: Context, version: int, request: Message) -> Handler:
    more = {key: request[key] for key in ("include_synonyms", "include_documentation")}

    def gateway(kind: int, name: str) -> Message:
        # Tools ask for the configuration of every node that they see; a gateway has none in Kafka's terms.
        return {"error_code": 0, "error_message": None, "resource_type": kind, "resource_name": name, "configs": []}

    def refused(key: _Key, nth: int, times: int) -> Message | None:
        return None if nth < MAX_MENTIONS else _error(*key, _AWAY, f"the request names it {times} times")

    return _by_resource(context, request, ApiKey.DESCRIBE_CONFIGS, "results", more, AnyBroker(), gateway, refused)


@handles(ApiKey.ALTER_CONFIGS)
def alter_configs(context: Context, version: int, request: Message) -> Handler:
    return _alter(context, request, ApiKey.ALTER_CONFIGS)


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS)
def incremental_alter_configs(context: Context, version: int, request: Message) -> Handler:
    return _alter(context, request, ApiKey.INCREMENTAL_ALTER_CONFIGS)


def _alter(context: Context, request: Message, api_key: int) -> Handler:
    def gateway(kind: int, name: str) -> Message:
        return _error(kind, name, ErrorCode.INVALID_REQUEST, f"node {name} is a gateway; its configuration is a file")

    def refused(key: _Key, nth: int, times: int) -> Message | None:
        if times > 1:
            return _error(*key, ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        document = lookups.document(context, key[1]) if key[0] == _TOPIC else None
        mover = None if document is None else document.fence or document.crossing
        if mover is None:
            return None
        # The move would not carry over a change that the origin accepts from now on.
        why = f"topic {key[1]} is being moved by operation {mover.operation}; try again when it has ended"
        return _error(*key, _AWAY, why)

    more = {"validate_only": request["validate_only"]}
    return _by_resource(context, request, api_key, "responses", more, Controller(), gateway, refused)


def _by_resource(
    context: Context,
    request: Message,
    api_key: int,
    results: str,
    more: Message,
    target: Target,
    gateway: Callable[[int, str], Message],
    refused: Callable[[_Key, int, int], Message | None],
) -> Handler:
    """
    :param refused: answer for the nth of so many mentions of a resource; None: it is asked for.
    """
    resources = [((one["resource_type"], one["resource_name"]), one) for one in request["resources"]]
    times = Counter(key for key, _ in resources)
    outcomes: dict[_Mention, Message] = {}
    batches: dict[tuple[str, Target], dict[_Mention, tuple[_Mention, Message]]] = {}
    for (key, resource), (_, nth) in zip(resources, numbered(key for key, _ in resources), strict=True):
        mention = (*key, nth)
        if (answer := refused(key, nth, times[key])) is not None:
            outcomes[mention] = answer
            continue
        if key[0] == _TOPIC and context.view.concealed(key[1]):
            outcomes[mention] = _error(*key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, lookups.concealed(context, key[1]))
            continue
        holder = _holder(context, *key, target)
        if holder is None:
            outcomes[mention] = gateway(*key)
        elif isinstance(holder, str):
            outcomes[mention] = _error(*key, ErrorCode.INVALID_REQUEST, holder)
        else:
            outcomes[mention] = _error(*key, _AWAY, "the cluster left this resource out of its answer")
            there = (key[0], holder.name, nth)
            renamed = resource | {"resource_name": holder.name}
            batches.setdefault((holder.cluster, holder.target), {})[there] = (mention, renamed)
    asks = {
        (cluster, whom): Ask(cluster, whom, api_key, {"resources": [r for _, r in batch.values()], **more})
        for (cluster, whom), batch in batches.items()
    }
    for at, reply in (yield from ask_each(asks)).items():
        if isinstance(reply, ClusterUnavailableError):
            away = str(reply)
            outcomes.update((mention, _error(*mention[:2], _AWAY, away)) for mention, _ in batches[at].values())
            continue
        named = numbered((result["resource_type"], result["resource_name"]) for result in reply[results])
        for (key, nth), result in zip(named, reply[results], strict=True):
            asked = batches[at].get((*key, nth))
            if asked is None:
                continue
            kind, name, _ = mention = asked[0]
            if results == "responses" and kind == _TOPIC and lookups.may_have_left(context, name):
                outcomes[mention] = _error(kind, name, _AWAY, f"topic {name} is being moved; ask again")
            else:
                outcomes[mention] = result | {"resource_name": name}
    return {results: list(outcomes.values())}


def _holder(context: Context, kind: int, name: str, target: Target) -> _ConfigHolder | str | None:
    """None: the resource is a gateway. A text: the error."""
    if kind in (_BROKER, _BROKER_LOGGER) and name:
        node_id = whole_number(name.removeprefix("+"), _MAX_NODE_ID)
        if node_id is None:
            return f"node {name[:_SHOWN]!r} is neither a broker nor a gateway"
        broker = lookups.real_broker(context, node_id)
        if broker is not None:
            # With the client's sign and zeros: brokers take 1, 01 and +1 for three resources, and answer each.
            before = name.removesuffix(str(node_id))
            return _ConfigHolder(broker[0], OneBroker(broker[1]), before + str(broker[1]))
        if node_id in {node.node_id for node in (*context.gateways, context.self_node)}:
            return None
        return f"node {name[:_SHOWN]} is neither a broker nor a gateway"
    cluster = lookups.resolve(context, name).cluster if kind == _TOPIC else lookups.user_cluster(context)
    return lookups.UNBOUND if cluster is None else _ConfigHolder(cluster, target, name)


def _error(kind: int, name: str, code: int, why: str) -> Message:
    return {"error_code": code, "error_message": why, "resource_type": kind, "resource_name": name}
