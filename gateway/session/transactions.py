"""Requests of transactional producers, and the producer ids of those without transactions.

A transaction lives in the cluster whose coordinator issued its producer's id (`issuing`). When the user is moved, what
begins after the cut begins in the target, under an id of the target; what began before can only end, where it began.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gateway.session import answers, groups
from gateway.session.commands import BrokerLane, Compose
from gateway.session.pending import Frames, Kind, Slot
from gateway.session.produce.issuing import issued_by, shown
from gateway.session.state import ConnectionState
from ha_core.model.producer import is_gateway_id
from ha_core.wire import (
    APIS,
    ApiKey,
    ErrorCode,
    RequestHeader,
    decode,
    encode,
    encode_request,
    encode_response,
    inline,
)

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


def transaction(session: ConnectionState, header: RequestHeader, buf: bytearray, pos: int, end: int) -> None:
    """A request for a transaction coordinator, or about a transaction's offsets."""
    body = memoryview(buf)[header.body_at : end]
    request = decode(header.api_key, header.api_version, "request", body, limits=inline(session.settings.limits))
    if header.api_key == ApiKey.INIT_PRODUCER_ID:
        if request["transactional_id"] is None:
            _idempotent(session, header, request)
        else:
            _initialise(session, header, request)
    elif header.api_key == ApiKey.END_TXN:
        _end(session, header, request)
    elif header.api_key == ApiKey.TXN_OFFSET_COMMIT:
        _commit_offsets(session, header, request)
    elif header.api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        _add_partitions(session, header, request)
    else:
        _add_offsets(session, header, request)


def _slot(header: RequestHeader, kind: Kind) -> Slot:
    return Slot(header.api_key, header.api_version, header.correlation_id, kind)


def _refuse(
    session: ConnectionState, header: RequestHeader, request: dict[str, Any], error: ErrorCode, fence: str | None = None
) -> None:
    session.refuse(_slot(header, Kind.WAIT), APIS[header.api_key].refusal(request, error), fence)


def _node(session: ConnectionState) -> BrokerLane:
    port = session.port
    assert port.cluster is not None
    assert port.broker is not None
    return BrokerLane(port.cluster, port.broker)


def _pass(session: ConnectionState, header: RequestHeader, request: dict[str, Any], slot: Slot) -> None:
    body = encode(header.api_key, header.api_version, "request", request)
    frame = encode_request(header.api_key, header.api_version, header.correlation_id, header.client_id, body)
    session.enqueue(slot)
    session.forward(slot, _node(session), frame)


def _ask(
    session: ConnectionState,
    header: RequestHeader,
    request: dict[str, Any],
    look: Callable[[dict[str, Any]], None],
    topics: tuple[bytes, ...] = (),
) -> None:
    """As `_pass`, for an answer that is looked at, and changed, on its way.

    :param topics: in whose logs the request may have traces.
    """
    slot = _slot(header, Kind.GATHER)
    slot.awaited = {_node(session)}
    slot.topics = topics

    def finish(frames: Frames) -> bytes | bytearray:
        (frame,) = frames.values()
        answer = answers.decoded(session, header, frame)
        assert answer is not None  # the session ends when the broker is lost
        look(answer)
        encoded = encode(header.api_key, header.api_version, "response", answer)
        return encode_response(header.api_key, header.api_version, header.correlation_id, encoded)

    slot.finish = finish
    _pass(session, header, request, slot)


def _able(session: ConnectionState) -> bool:
    """Whether anything may be forwarded to the port's broker."""
    return session.settings.lease.holds(session.now) and session.port.broker is not None


def _idempotent(session: ConnectionState, header: RequestHeader, request: dict[str, Any]) -> None:
    """Every cluster counts producer ids from 0, so ids come from the gateways' own range.

    A producer that asks to raise its epoch (KIP-360) keeps its id; its sequences start at 0 again.
    """
    known, epoch = request["producer_id"], request["producer_epoch"]
    if is_gateway_id(known) and 0 <= epoch < _MAX_EPOCH:
        session.reply(_slot(header, Kind.WAIT), {"error_code": 0, "producer_id": known, "producer_epoch": epoch + 1})
        return
    fresh = session.settings.next_producer_id()
    if fresh is None:
        _refuse(session, header, request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return
    session.reply(_slot(header, Kind.WAIT), {"error_code": 0, "producer_id": fresh, "producer_epoch": 0})


def _initialise(session: ConnectionState, header: RequestHeader, request: dict[str, Any]) -> None:
    """A producer that names an id of another cluster, to have its epoch raised (KIP-360), is new in this one.

    Its coordinator would take it for an older producer of the same transactional id, and answer PRODUCER_FENCED.
    """
    if not _able(session) or not session.routes(header.client_id).transactions_here():
        _refuse(session, header, request, ErrorCode.NOT_COORDINATOR)
        return
    issued = issued_by(session.settings.nodes, request["producer_id"])
    if issued.cluster == session.port.cluster:
        request["producer_id"] = issued.own
    else:
        request["producer_id"] = request["producer_epoch"] = -1

    def initialised(answer: dict[str, Any]) -> None:
        if answer["error_code"] == ErrorCode.NONE:
            coordinator = _node(session)
            broker = coordinator.cluster, coordinator.broker
            answer["producer_id"] = shown(session.settings.nodes, broker, answer["producer_id"])
            # What the producer had open, the coordinator has aborted.
            session.transactions.ended(request["transactional_id"])

    _ask(session, header, request, initialised)


def _add_partitions(session: ConnectionState, header: RequestHeader, request: dict[str, Any]) -> None:
    """A transaction takes partitions in: so it begins, for each client that sets out on a new one.

    Behind a fence that is answered CONCURRENT_TRANSACTIONS, as while the last transaction's end is still being written
    to the partitions: the only one that says to try the same again soon, to every client.
    """
    if not _coordinated(session, header, request):
        return
    name = request["transactional_id"]
    topics = tuple(topic["name"].encode() for topic in request["topics"])
    fence = session.transactions.fence_on(name, topics, session.snapshot.view)
    if fence is not None:
        session.transactions.kept_out(name)
        _refuse(session, header, request, ErrorCode.CONCURRENT_TRANSACTIONS, fence)
        return
    if _written_elsewhere(session, request):
        # Taken in, it would get the marker of the transaction's end here: in a copy that is to stay empty until its
        # cut, or behind the end of what was left.
        session.transactions.kept_out(name)
        _refuse(session, header, request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return

    def added(answer: dict[str, Any]) -> None:
        results = (one for topic in answer["results_by_topic"] for one in topic["results_by_partition"])
        if not any(one["partition_error_code"] for one in results):
            session.transactions.begun(name, topics, session.now)

    _ask(session, header, request, added, topics)


def _written_elsewhere(session: ConnectionState, request: dict[str, Any]) -> bool:
    """Whether a partition has its writer in another cluster than the transaction its coordinator."""
    topics = session.snapshot.view.topics
    return any(
        topic.written(partition).cluster != session.port.cluster
        for asked in request["topics"]
        if (topic := topics.get(asked["name"])) is not None and topic.mapped
        for partition in asked["partitions"]
    )


def _add_offsets(session: ConnectionState, header: RequestHeader, request: dict[str, Any]) -> None:
    """A transaction takes a group's offsets in."""
    if _coordinated(session, header, request):
        _pass(session, header, request, _slot(header, Kind.PASS))


def _coordinated(session: ConnectionState, header: RequestHeader, request: dict[str, Any]) -> bool:
    """Whether the port's cluster coordinates the transaction, which is under its own producer id then; else refused."""
    issued = issued_by(session.settings.nodes, request["producer_id"])
    if not _able(session) or not session.routes(header.client_id).transactions_here():
        _refuse(session, header, request, ErrorCode.NOT_COORDINATOR)
        return False
    if issued.cluster != session.port.cluster:
        _refuse(session, header, request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return False
    request["producer_id"] = issued.own
    return True


def _end(session: ConnectionState, header: RequestHeader, request: dict[str, Any]) -> None:
    """A transaction ends where it began, wherever its user is by now.

    Above all a commit that is asked for again because its answer was lost: it may have happened before the cut, and
    whoever is told that it did not would write all of its records a second time.
    """
    issued = issued_by(session.settings.nodes, request["producer_id"])
    name = request["transactional_id"]
    if not session.settings.lease.holds(session.now) or not session.snapshot.fresh:
        _refuse(session, header, request, ErrorCode.NOT_COORDINATOR)
    elif not request["committed"] and session.transactions.never_begun(name):
        # librdkafka aborts what was never begun, and the coordinator's INVALID_TXN_STATE would end its producer.
        session.transactions.ended(name)
        session.reply(_slot(header, Kind.WAIT), {"error_code": 0})
    elif issued.cluster is None:
        _refuse(session, header, request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    elif _able(session) and issued.cluster == session.port.cluster and not session.routes(header.client_id).closed:
        request["producer_id"] = issued.own

        def ended(answer: dict[str, Any]) -> None:
            if not stays_open(answer):
                session.transactions.ended(name)

        _ask(session, header, request, ended, session.transactions.topics(name))
    else:
        token = session.await_answer(_slot(header, Kind.WAIT))
        session.ending[token] = name
        session.emit(Compose(token, header.api_key, header.api_version, session.identity(header.client_id), request))


def _commit_offsets(session: ConnectionState, header: RequestHeader, request: dict[str, Any]) -> None:
    """Offsets belong to their group's coordinator, which must be in the producer's cluster.

    What belongs to another one's producer is answered ILLEGAL_GENERATION: all clients can abort after that, and
    INVALID_PRODUCER_ID_MAPPING is fatal here.
    """
    name = request["group_id"].encode()
    route = session.routes(header.client_id).group(name)
    fence = route.group.fence if route.group is not None else None
    issued = issued_by(session.settings.nodes, request["producer_id"])
    if not _able(session):
        _refuse(session, header, request, ErrorCode.NOT_COORDINATOR)
    elif fence is not None:
        _refuse(session, header, request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, fence.operation)
    elif not route.here:
        _refuse(session, header, request, ErrorCode.NOT_COORDINATOR)
    elif issued.cluster != session.port.cluster:
        _refuse(session, header, request, ErrorCode.ILLEGAL_GENERATION)
    else:
        request["producer_id"] = issued.own
        if route.members and route.group is not None:
            groups.rename(route.group, route.members, header.api_key, request)
        slot = _slot(header, Kind.PASS)
        slot.group = name
        _pass(session, header, request, slot)
