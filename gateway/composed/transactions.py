"""DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS, and END_TXN after its user was moved."""

from __future__ import annotations

from gateway.composed import places
from gateway.composed.ask import (
    Ask,
    ClusterUnavailableError,
    Coordinator,
    Message,
    Reply,
    ask_each,
    ask_once,
)
from gateway.composed.by_partition import Shape, split, to_leaders
from gateway.composed.handlers import Context, Handler, handles
from gateway.composed.mentions import MAX_MENTIONS, numbered
from ha_core.model.producer import client_id, issuer
from ha_core.wire.codes import ApiKey, ErrorCode

# Java ends what it does not know: of all errors about leaders it knows this one here.
_PRODUCERS = Shape(ApiKey.DESCRIBE_PRODUCERS, indexes="partition_indexes", away=ErrorCode.NOT_LEADER_OR_FOLLOWER)
_AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE


@handles(ApiKey.DESCRIBE_PRODUCERS)
def describe_producers(context: Context, version: int, request: Message) -> Handler:
    """Of moved topics: what the present writer's cluster knows, under the producer ids that clients use."""
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
    key, cluster = ApiKey.DESCRIBE_TRANSACTIONS, places.user_cluster(context)
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
    """Of the user's cluster, each by the node of the broker that coordinates it, for the same reason as groups."""
    if context.port_cluster != places.user_cluster(context):
        return {"error_code": 0, "transaction_states": []}
    # COORDINATOR_NOT_AVAILABLE would end Java's listing of all brokers.
    away = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return (yield from places.ask_port(context, ApiKey.LIST_TRANSACTIONS, request, "transaction_states", away))


def _state(name: str, reply: Reply | None) -> Message:
    if reply is None or isinstance(reply, ClusterUnavailableError) or not reply["transaction_states"]:
        return {"error_code": _AWAY, "transactional_id": name, "topics": []}
    state: Message = reply["transaction_states"][0]
    return state


@handles(ApiKey.END_TXN)
def end_transaction(context: Context, version: int, request: Message) -> Handler:
    """Asks the coordinator that issued the producer's id.

    Of a transaction that was to begin after the cut it knows nothing, which librdkafka takes for fatal when it aborts:
    such a producer is told to begin anew.
    Where it is away, an abort is granted to who goes on in another cluster: the coordinator will do it by itself when
    the transaction's time is over, and has nothing that anybody reads until then. Who may go on under the same id when
    it is back asks again: the next transaction would be one with this one, and commit what was given up. Whether a
    commit has happened only the coordinator knows: the client asks again, unless operators have taken the cluster out
    of service; then it is told to begin anew.
    """
    node, own = issuer(request["producer_id"])
    broker = places.real_broker(context, node)
    if broker is None:
        return _error(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    commits, masked = request["committed"], places.masked(context, broker[0])
    if not masked:
        target = Coordinator("transaction", request["transactional_id"])
        reply = yield from ask_once(Ask(broker[0], target, ApiKey.END_TXN, {**request, "producer_id": own}))
        if not isinstance(reply, ClusterUnavailableError):
            nothing_to_abort = reply["error_code"] == ErrorCode.INVALID_TXN_STATE and not commits
            return _error(ErrorCode.INVALID_PRODUCER_ID_MAPPING if nothing_to_abort else reply["error_code"])
    if not commits:
        return _error(_AWAY if places.user_cluster(context) == broker[0] else ErrorCode.NONE)
    return _error(ErrorCode.INVALID_PRODUCER_ID_MAPPING if masked else _AWAY)


def _error(code: int) -> Message:
    return {"error_code": code}
