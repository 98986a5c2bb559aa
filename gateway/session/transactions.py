"""Requests of transactional producers, and the producer ids of those without transactions.

A transaction lives in the cluster whose coordinator issued its producer's id (`issuing`). When the user is moved, what
begins after the cut begins in the target, under an id of the target; what began before can only end, where it began.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from gateway.session import exchange
from gateway.session.groups import rename
from gateway.session.pending import Answer, Exchange, Passed, Send
from gateway.session.produce.issuing import issued_by, shown
from gateway.session.request import Message, Request
from gateway.session.state import ConnectionState
from ha_core.model.producer import is_gateway_id
from ha_core.wire import ApiKey, ErrorCode

_MAX_EPOCH = 32_766
_TRY_AGAIN = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Answers after which a transaction is still open."""


def stays_open(answer: dict[str, Any]) -> bool:
    """Whether a transaction is still open after this answer to END_TXN."""
    return answer["error_code"] in _TRY_AGAIN


class Refused(NamedTuple):
    error: ErrorCode
    fence: str | None = None
    """Of the operation for whose fence the refusal is held."""


def transaction(session: ConnectionState, request: Request) -> None:
    """A request for a transaction coordinator, or about a transaction's offsets."""
    message = request.decode()
    refused = _HANDLERS[ApiKey(request.api_key)](session, request, message)
    if refused is not None:
        session.refuse(request, request.refusal(message, refused.error), refused.fence)


def _pass(session: ConnectionState, request: Request, message: Message, group: bytes | None = None) -> None:
    session.pass_on(Passed(request, group=group), session.broker, request.rewritten(message))


def _ask(session: ConnectionState, request: Request, message: Message) -> Generator[Send, Any, Message]:
    """What the port's broker answers."""
    frames = yield Send({session.broker: request.rewritten(message)})
    return request.decode_answer(frames[session.broker])


def _able(session: ConnectionState) -> bool:
    """Whether anything may be forwarded to the port's broker."""
    return session.leased() and session.here is not None


def _init(session: ConnectionState, request: Request, message: Message) -> Refused | None:
    return (_idempotent if message["transactional_id"] is None else _initialise)(session, request, message)


def _idempotent(session: ConnectionState, request: Request, message: Message) -> Refused | None:
    """Every cluster counts producer ids from 0, so ids come from the gateways' own range.

    A producer that asks to raise its epoch (KIP-360) keeps its id; its sequences start at 0 again.
    """
    producer_id, epoch = message["producer_id"], message["producer_epoch"] + 1
    if not is_gateway_id(producer_id) or not 0 < epoch <= _MAX_EPOCH:
        producer_id, epoch = session.settings.next_producer_id(), 0
    if producer_id is None:
        return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    session.reply(request, {"error_code": 0, "producer_id": producer_id, "producer_epoch": epoch})
    return None


def _initialise(session: ConnectionState, request: Request, message: Message) -> Refused | None:
    """A producer that names an id of another cluster, to have its epoch raised (KIP-360), is new in this one.

    Its coordinator would take it for an older producer of the same transactional id, and answer PRODUCER_FENCED.
    """
    if not _coordinates(session, request):
        return Refused(ErrorCode.NOT_COORDINATOR)
    issued = issued_by(session.settings.nodes, message["producer_id"])
    if issued.cluster == session.port.cluster:
        message["producer_id"] = issued.own
    else:
        message["producer_id"] = message["producer_epoch"] = -1
    exchange.begin(session, request, _initialised(session, request, message))
    return None


def _initialised(session: ConnectionState, request: Request, message: Message) -> Exchange:
    answer = yield from _ask(session, request, message)
    if answer["error_code"] == ErrorCode.NONE:
        answer["producer_id"] = shown(session.settings.nodes, session.broker[:2], answer["producer_id"])
        # What the producer had open, the coordinator has aborted.
        session.transactions.ended(message["transactional_id"])
    return Answer(request.answer(answer))


def _add_partitions(session: ConnectionState, request: Request, message: Message) -> Refused | None:
    """A transaction takes partitions in: so it begins, for each client that sets out on a new one.

    Under a fence that is answered CONCURRENT_TRANSACTIONS, as while the last transaction's end is still being written
    to the partitions: the only one that says to try the same again soon, to every client.
    """
    refused = _not_ours(session, request, message)
    if refused is not None:
        return refused
    name = message["transactional_id"]
    topics = tuple(topic["name"].encode() for topic in message["topics"])
    fence = session.transactions.fence_on(name, topics, session.snapshot.view)
    if fence is not None:
        session.transactions.kept_out(name)
        return Refused(ErrorCode.CONCURRENT_TRANSACTIONS, fence)
    if _written_elsewhere(session, message):
        # Taken in, it would get the marker of the transaction's end here: in a copy that is to stay empty until its
        # cut, or after the end of what was left.
        session.transactions.kept_out(name)
        return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    exchange.begin(session, request, _added(session, request, message, topics), topics)
    return None


def _added(session: ConnectionState, request: Request, message: Message, topics: tuple[bytes, ...]) -> Exchange:
    answer = yield from _ask(session, request, message)
    results = (result for topic in answer["results_by_topic"] for result in topic["results_by_partition"])
    if not any(result["partition_error_code"] for result in results):
        session.transactions.begun(message["transactional_id"], topics, session.now)
    return Answer(request.answer(answer))


def _written_elsewhere(session: ConnectionState, message: Message) -> bool:
    """Whether a partition has its writer in another cluster than the transaction its coordinator."""
    topics = session.snapshot.view.topics
    return any(
        topic.written(partition).cluster != session.port.cluster
        for asked in message["topics"]
        if (topic := topics.get(asked["name"])) is not None and topic.mapped
        for partition in asked["partitions"]
    )


def _add_offsets(session: ConnectionState, request: Request, message: Message) -> Refused | None:
    """A transaction takes a group's offsets in."""
    refused = _not_ours(session, request, message)
    if refused is None:
        _pass(session, request, message)
    return refused


def _coordinates(session: ConnectionState, request: Request) -> bool:
    """Whether the port's cluster coordinates the client's transactions, and may be sent something."""
    return _able(session) and session.routes(request.client_id).transactions_here()


def _not_ours(session: ConnectionState, request: Request, message: Message) -> Refused | None:
    """None: the port's cluster coordinates the transaction, which is under its own producer id now."""
    issued = issued_by(session.settings.nodes, message["producer_id"])
    if not _coordinates(session, request):
        return Refused(ErrorCode.NOT_COORDINATOR)
    if issued.cluster != session.port.cluster:
        return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    message["producer_id"] = issued.own
    return None


def _end(session: ConnectionState, request: Request, message: Message) -> Refused | None:
    """A transaction ends where it began, wherever its user is by now.

    Above all a commit that is asked for again because its answer was lost: it may have happened before the cut, and
    whoever is told that it did not would write all of its records a second time.
    """
    issued = issued_by(session.settings.nodes, message["producer_id"])
    name = message["transactional_id"]
    if not session.leased() or not session.snapshot.fresh:
        return Refused(ErrorCode.NOT_COORDINATOR)
    if not message["committed"] and session.transactions.never_begun(name):
        # librdkafka aborts what was never begun, and the coordinator's INVALID_TXN_STATE would end its producer.
        session.transactions.ended(name)
        session.reply(request, {"error_code": 0})
    elif issued.cluster is None:
        return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    elif _able(session) and issued.cluster == session.port.cluster and not session.routes(request.client_id).closed:
        message["producer_id"] = issued.own
        exchange.begin(session, request, _ended(session, request, message), session.transactions.topics(name))
    else:
        session.compose(request, message, ends=name)
    return None


def _ended(session: ConnectionState, request: Request, message: Message) -> Exchange:
    answer = yield from _ask(session, request, message)
    if not stays_open(answer):
        session.transactions.ended(message["transactional_id"])
    return Answer(request.answer(answer))


def _commit_offsets(session: ConnectionState, request: Request, message: Message) -> Refused | None:
    """Offsets belong to their group's coordinator, which must be in the producer's cluster.

    What belongs to another one's producer is answered ILLEGAL_GENERATION: all clients can abort after that, and
    INVALID_PRODUCER_ID_MAPPING is fatal here.
    """
    name = message["group_id"].encode()
    route = session.routes(request.client_id).group(name)
    fence = route.group.fence if route.group is not None else None
    issued = issued_by(session.settings.nodes, message["producer_id"])
    if not _able(session):
        return Refused(ErrorCode.NOT_COORDINATOR)
    if fence is not None:
        return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, fence.operation)
    if not route.here:
        return Refused(ErrorCode.NOT_COORDINATOR)
    if issued.cluster != session.port.cluster:
        return Refused(ErrorCode.ILLEGAL_GENERATION)
    message["producer_id"] = issued.own
    if route.members and route.group is not None:
        rename(route.group, route.members, request.api_key, message)
    _pass(session, request, message, name)
    return None


_HANDLERS = {
    ApiKey.INIT_PRODUCER_ID: _init,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _add_offsets,
    ApiKey.END_TXN: _end,
    ApiKey.TXN_OFFSET_COMMIT: _commit_offsets,
}
