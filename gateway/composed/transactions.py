"""DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS and LIST_TRANSACTIONS."""

from gateway.composed import lookups
from gateway.composed.ask import (
    Ask,
    ClusterUnavailableError,
    Coordinator,
    Message,
    Reply,
    ask_each,
)
from gateway.composed.by_partition import RequestShape, split, to_leaders
from gateway.composed.handlers import Context, Handler, handles
from gateway.composed.mentions import MAX_MENTIONS, numbered
from ha_core.model.producer import client_id
from ha_core.wire.codes import ApiKey, ErrorCode

# Java fails on unknown errors: of all errors about leaders it knows only this one here.
_PRODUCERS = RequestShape(ApiKey.DESCRIBE_PRODUCERS, indexes="partition_indexes", away=ErrorCode.NOT_LEADER_OR_FOLLOWER)
_AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE


@handles(ApiKey.DESCRIBE_PRODUCERS)
def describe_producers(context: Context, version: int, request: Message) -> Handler:
    """For moved topics: the producers of the present writer's cluster, under the producer ids that clients use."""
    wanted = _PRODUCERS.wanted(request)
    mapped, others = split(context, wanted)
    outcomes = yield from to_leaders(context, _PRODUCERS, others, wanted, {})
    moved = yield from to_leaders(context, _PRODUCERS, mapped, wanted, {}, by_port=False)
    for key, answer in moved.items():
        # Offsets of open transactions are the cluster's own here; none is better than a wrong one.
        producers = [
            p | {"producer_id": client_id(p["producer_id"]), "current_txn_start_offset": -1}
            for p in answer.get("active_producers", ())
        ]
        outcomes[key] = answer | {"active_producers": producers}
    return {"topics": _PRODUCERS.topics(wanted, outcomes)}


@handles(ApiKey.DESCRIBE_TRANSACTIONS)
def describe_transactions(context: Context, version: int, request: Message) -> Handler:
    names = dict.fromkeys(request["transactional_ids"])
    key, cluster = ApiKey.DESCRIBE_TRANSACTIONS, lookups.user_cluster(context)
    asks = {
        name: Ask(cluster, Coordinator("transaction", name), key, {"transactional_ids": [name]})
        for name in names
        if cluster is not None
    }
    replies = yield from ask_each(asks)
    mentions = numbered(request["transactional_ids"])
    states = [_state(name, replies.get(name) if nth < MAX_MENTIONS else None) for name, nth in mentions]
    return {"transaction_states": states}


@handles(ApiKey.LIST_TRANSACTIONS)
def list_transactions(context: Context, version: int, request: Message) -> Handler:
    """Lists the user's cluster, each transaction at the node of its coordinator, for the same reason as groups."""
    if context.port_cluster != lookups.user_cluster(context):
        return {"error_code": 0, "transaction_states": []}
    # COORDINATOR_NOT_AVAILABLE would end Java's listing of all brokers.
    away = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return (yield from lookups.ask_port(context, ApiKey.LIST_TRANSACTIONS, request, "transaction_states", away))


def _state(name: str, reply: Reply | None) -> Message:
    if reply is None or isinstance(reply, ClusterUnavailableError) or not reply["transaction_states"]:
        return {"error_code": _AWAY, "transactional_id": name, "topics": []}
    state: Message = reply["transaction_states"][0]
    return state
