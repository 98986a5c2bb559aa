"""Requests of transactional producers, and the producer ids of those without transactions.

A transaction lives in the cluster whose coordinator issued its producer's id (`issuing`). When the user is moved, what
begins after the cut begins in the target, under an id of the target; what began before can only end, where it began.
"""

from __future__ import annotations

from typing import Any

from gateway.session import answers, groups, refusals
from gateway.session.commands import Compose, Node
from gateway.session.conversation import Conversation
from gateway.session.issuing import issued_by, shown
from gateway.session.slots import Frames, Kind, Slot
from ha_core.model.producer import is_gateway_id
from ha_core.wire import (
    ApiKey,
    ErrorCode,
    RequestHeader,
    decode,
    encode,
    encode_request,
    encode_response,
)

_MOST_EPOCH = 32_766


def transaction(session: Conversation, header: RequestHeader, buf: bytearray, pos: int, end: int) -> None:
    """A request for a transaction coordinator, or about a transaction's offsets."""
    body = memoryview(buf)[header.body_at : end]
    request = decode(header.api_key, header.api_version, "request", body, limits=session.settings.limits)
    if header.api_key == ApiKey.INIT_PRODUCER_ID:
        if request["transactional_id"] is None:
            _idempotent(session, header, request)
        else:
            _initialise(session, header, request)
    elif header.api_key == ApiKey.END_TXN:
        _end(session, header, request)
    elif header.api_key == ApiKey.TXN_OFFSET_COMMIT:
        _commit_offsets(session, header, request)
    else:
        _add(session, header, request)


def _slot(header: RequestHeader, kind: Kind) -> Slot:
    return Slot(header.api_key, header.api_version, header.correlation_id, kind)


def _refuse(
    session: Conversation, header: RequestHeader, request: dict[str, Any], error: ErrorCode, fence: str | None = None
) -> None:
    session.refuse(_slot(header, Kind.WAIT), refusals.transaction(header.api_key, request, error), fence)


def _pass(session: Conversation, header: RequestHeader, request: dict[str, Any], slot: Slot) -> None:
    port = session.port
    assert port.cluster is not None
    assert port.broker is not None
    body = encode(header.api_key, header.api_version, "request", request)
    frame = encode_request(header.api_key, header.api_version, header.correlation_id, header.client_id, body)
    node = Node(port.cluster, port.broker)
    if slot.kind is Kind.GATHER:
        slot.awaited = {node}
    session.enqueue(slot)
    session.forward(slot, node, frame)


def _able(session: Conversation) -> bool:
    """Whether anything may be forwarded to the port's broker."""
    return session.settings.lease.holds(session.now) and session.port.broker is not None


def _idempotent(session: Conversation, header: RequestHeader, request: dict[str, Any]) -> None:
    """Every cluster counts producer ids from 0, so ids come from the gateways' own range.

    A producer that asks to raise its epoch (KIP-360) keeps its id; its sequences start at 0 again.
    """
    known, epoch = request["producer_id"], request["producer_epoch"]
    if is_gateway_id(known) and 0 <= epoch < _MOST_EPOCH:
        session.reply(_slot(header, Kind.WAIT), {"error_code": 0, "producer_id": known, "producer_epoch": epoch + 1})
        return
    fresh = session.settings.next_producer_id()
    if fresh is None:
        _refuse(session, header, request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return
    session.reply(_slot(header, Kind.WAIT), {"error_code": 0, "producer_id": fresh, "producer_epoch": 0})


def _initialise(session: Conversation, header: RequestHeader, request: dict[str, Any]) -> None:
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
    slot = _slot(header, Kind.GATHER)

    def finish(frames: Frames) -> bytes | bytearray:
        ((node, frame),) = frames.items()
        answer = answers.decoded(session, header, frame)
        assert answer is not None  # the session ends when the broker is lost
        if answer["error_code"] == ErrorCode.NONE:
            answer["producer_id"] = shown(session.settings.nodes, node, answer["producer_id"])
        encoded = encode(header.api_key, header.api_version, "response", answer)
        return encode_response(header.api_key, header.api_version, header.correlation_id, encoded)

    slot.finish = finish
    _pass(session, header, request, slot)


def _add(session: Conversation, header: RequestHeader, request: dict[str, Any]) -> None:
    """Partitions, or a group's offsets, are to become part of a transaction."""
    issued = issued_by(session.settings.nodes, request["producer_id"])
    if not _able(session) or not session.routes(header.client_id).transactions_here():
        _refuse(session, header, request, ErrorCode.NOT_COORDINATOR)
    elif issued.cluster != session.port.cluster:
        _refuse(session, header, request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    else:
        request["producer_id"] = issued.own
        _pass(session, header, request, _slot(header, Kind.PASS))


def _end(session: Conversation, header: RequestHeader, request: dict[str, Any]) -> None:
    """A transaction ends where it began, wherever its user is by now.

    Above all a commit that is asked for again because its answer was lost: it may have happened before the cut, and
    whoever is told that it did not would write all of its records a second time.
    """
    issued = issued_by(session.settings.nodes, request["producer_id"])
    if not session.settings.lease.holds(session.now) or not session.snapshot.fresh:
        _refuse(session, header, request, ErrorCode.NOT_COORDINATOR)
    elif issued.cluster is None:
        _refuse(session, header, request, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    elif _able(session) and issued.cluster == session.port.cluster and not session.routes(header.client_id).closed:
        request["producer_id"] = issued.own
        _pass(session, header, request, _slot(header, Kind.PASS))
    else:
        token = session.await_answer(_slot(header, Kind.WAIT))
        session.emit(Compose(token, header.api_key, header.api_version, session.identity(header.client_id), request))


def _commit_offsets(session: Conversation, header: RequestHeader, request: dict[str, Any]) -> None:
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
