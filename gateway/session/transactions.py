"""Requests of transactional producers, and the producer ids of those without transactions.

A transaction lives in the cluster whose coordinator issued its producer's id (`issuing`). When the user is moved, what
begins after the cut begins in the target, under an id of the target; what began before can only end, where it began.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

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


def transaction(session: ConnectionState, request: Request) -> None:
    """A request for a transaction coordinator, or about a transaction's offsets."""
    message = request.decode()
    if request.api_key == ApiKey.INIT_PRODUCER_ID:
        if message["transactional_id"] is None:
            _idempotent(session, request, message)
        else:
            _initialise(session, request, message)
    elif request.api_key == ApiKey.END_TXN:
        _end(session, request, message)
    elif request.api_key == ApiKey.TXN_OFFSET_COMMIT:
        _commit_offsets(session, request, message)
    elif request.api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        _add_partitions(session, request, message)
    else:
        _add_offsets(session, request, message)


def _refuse(
    session: ConnectionState, request: Request, message: Message, error: ErrorCode, fence: str | None = None
) -> None:
    session.refuse(request, request.refusal(message, error), fence)


def _pass(session: ConnectionState, request: Request, message: Message, group: bytes | None = None) -> None:
    session.pass_on(Passed(request, group=group), session.broker, request.rewritten(message))


def _ask(session: ConnectionState, request: Request, message: Message) -> Generator[Send, Any, Message]:
    """What the port's broker answers."""
    frames = yield Send({session.broker: request.rewritten(message)})
    return request.decode_answer(frames[session.broker])


def _able(session: ConnectionState) -> bool:
    """Whether anything may be forwarded to the port's broker."""
    return session.leased() and session.here is not None


def _idempotent(session: ConnectionState, request: Request, message: Message) -> None:
    """Every cluster counts producer ids from 0, so ids come from the gateways' own range.

    A producer that asks to raise its epoch (KIP-360) keeps its id; its sequences start at 0 again.
    """
    known, epoch = message["producer_id"], message["producer_epoch"]
    if is_gateway_id(known) and 0 <= epoch < _MAX_EPOCH:
        session.reply(request, {"error_code": 0, "producer_id": known, "producer_epoch": epoch + 1})
        return
    fresh = session.settings.next_producer_id()
    if fresh is None:
        _refuse(session, request, message, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return
    session.reply(request, {"error_code": 0, "producer_id": fresh, "producer_epoch": 0})


def _initialise(session: ConnectionState, request: Request, message: Message) -> None:
    """A producer that names an id of another cluster, to have its epoch raised (KIP-360), is new in this one.

    Its coordinator would take it for an older producer of the same transactional id, and answer PRODUCER_FENCED.
    """
    if not _able(session) or not session.routes(request.client_id).transactions_here():
        _refuse(session, request, message, ErrorCode.NOT_COORDINATOR)
        return
    issued = issued_by(session.settings.nodes, message["producer_id"])
    if issued.cluster == session.port.cluster:
        message["producer_id"] = issued.own
    else:
        message["producer_id"] = message["producer_epoch"] = -1

    exchange.begin(session, request, _initialised(session, request, message))


def _initialised(session: ConnectionState, request: Request, message: Message) -> Exchange:
    answer = yield from _ask(session, request, message)
    if answer["error_code"] == ErrorCode.NONE:
        answer["producer_id"] = shown(session.settings.nodes, session.broker[:2], answer["producer_id"])
        # What the producer had open, the coordinator has aborted.
        session.transactions.ended(message["transactional_id"])
    return Answer(request.answer(answer))


def _add_partitions(session: ConnectionState, request: Request, message: Message) -> None:
    """A transaction takes partitions in: so it begins, for each client that sets out on a new one.

    Behind a fence that is answered CONCURRENT_TRANSACTIONS, as while the last transaction's end is still being written
    to the partitions: the only one that says to try the same again soon, to every client.
    """
    if not _coordinated(session, request, message):
        return
    name = message["transactional_id"]
    topics = tuple(topic["name"].encode() for topic in message["topics"])
    fence = session.transactions.fence_on(name, topics, session.snapshot.view)
    if fence is not None:
        session.transactions.kept_out(name)
        _refuse(session, request, message, ErrorCode.CONCURRENT_TRANSACTIONS, fence)
        return
    if _written_elsewhere(session, message):
        # Taken in, it would get the marker of the transaction's end here: in a copy that is to stay empty until its
        # cut, or after the end of what was left.
        session.transactions.kept_out(name)
        _refuse(session, request, message, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return

    exchange.begin(session, request, _added(session, request, message, topics), topics)


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


def _add_offsets(session: ConnectionState, request: Request, message: Message) -> None:
    """A transaction takes a group's offsets in."""
    if _coordinated(session, request, message):
        _pass(session, request, message)


def _coordinated(session: ConnectionState, request: Request, message: Message) -> bool:
    """Whether the port's cluster coordinates the transaction, which is under its own producer id then; else refused."""
    issued = issued_by(session.settings.nodes, message["producer_id"])
    if not _able(session) or not session.routes(request.client_id).transactions_here():
        _refuse(session, request, message, ErrorCode.NOT_COORDINATOR)
        return False
    if issued.cluster != session.port.cluster:
        _refuse(session, request, message, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return False
    message["producer_id"] = issued.own
    return True


def _end(session: ConnectionState, request: Request, message: Message) -> None:
    """A transaction ends where it began, wherever its user is by now.

    Above all a commit that is asked for again because its answer was lost: it may have happened before the cut, and
    whoever is told that it did not would write all of its records a second time.
    """
    issued = issued_by(session.settings.nodes, message["producer_id"])
    name = message["transactional_id"]
    if not session.leased() or not session.snapshot.fresh:
        _refuse(session, request, message, ErrorCode.NOT_COORDINATOR)
    elif not message["committed"] and session.transactions.never_begun(name):
        # librdkafka aborts what was never begun, and the coordinator's INVALID_TXN_STATE would end its producer.
        session.transactions.ended(name)
        session.reply(request, {"error_code": 0})
    elif issued.cluster is None:
        _refuse(session, request, message, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    elif _able(session) and issued.cluster == session.port.cluster and not session.routes(request.client_id).closed:
        message["producer_id"] = issued.own
        exchange.begin(session, request, _ended(session, request, message), session.transactions.topics(name))
    else:
        session.compose(request, message, ends=name)


def _ended(session: ConnectionState, request: Request, message: Message) -> Exchange:
    answer = yield from _ask(session, request, message)
    if not stays_open(answer):
        session.transactions.ended(message["transactional_id"])
    return Answer(request.answer(answer))


def _commit_offsets(session: ConnectionState, request: Request, message: Message) -> None:
    """Offsets belong to their group's coordinator, which must be in the producer's cluster.

    What belongs to another one's producer is answered ILLEGAL_GENERATION: all clients can abort after that, and
    INVALID_PRODUCER_ID_MAPPING is fatal here.
    """
    name = message["group_id"].encode()
    route = session.routes(request.client_id).group(name)
    fence = route.group.fence if route.group is not None else None
    issued = issued_by(session.settings.nodes, message["producer_id"])
    if not _able(session):
        _refuse(session, request, message, ErrorCode.NOT_COORDINATOR)
    elif fence is not None:
        _refuse(session, request, message, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, fence.operation)
    elif not route.here:
        _refuse(session, request, message, ErrorCode.NOT_COORDINATOR)
    elif issued.cluster != session.port.cluster:
        _refuse(session, request, message, ErrorCode.ILLEGAL_GENERATION)
    else:
        message["producer_id"] = issued.own
        if route.members and route.group is not None:
            rename(route.group, route.members, request.api_key, message)
        _pass(session, request, message, name)
