"""Requests for a group's coordinator or for one broker: groups, log dirs."""

from __future__ import annotations

from typing import Any

from gateway.session import answers, groups
from gateway.session.commands import BrokerLane, Cause, Refresh, Saw
from gateway.session.pending import Kind, Slot
from gateway.session.state import ConnectionState
from ha_core.wire import (
    APIS,
    ErrorCode,
    RequestHeader,
    decode,
    encode,
    encode_request,
    encode_response,
    inline,
    peek_group,
)

_CLASSIC_ONLY = "the gateway serves classic consumer groups only: set group.protocol=classic"
_NO_LOGS = "gateway"
"""The empty log directory of a gateway's own node."""


def _slot(header: RequestHeader, kind: Kind) -> Slot:
    return Slot(header.api_key, header.api_version, header.correlation_id, kind)


def _request(session: ConnectionState, header: RequestHeader, buf: bytearray, end: int) -> dict[str, Any]:
    return decode(
        header.api_key,
        header.api_version,
        "request",
        memoryview(buf)[header.body_at : end],
        limits=inline(session.settings.limits),
    )


def _pass(session: ConnectionState, slot: Slot, frame: bytes | memoryview) -> None:
    port = session.port
    assert port.cluster is not None
    assert port.broker is not None
    session.enqueue(slot)
    session.forward(slot, BrokerLane(port.cluster, port.broker), frame)


def group(session: ConnectionState, header: RequestHeader, buf: bytearray, pos: int, end: int) -> None:
    """A request of a group's member, passed to the coordinator whichever node it came in by.

    NOT_COORDINATOR sends a member whose group has moved on a search. One that is just stopping loses its last commit
    with it, or never ends: aiokafka (0.14) does not search while it stops, and repeats that commit for ever.
    """
    name = peek_group(header.api_key, header.api_version, buf, header.body_at, end)
    routes = session.routes(header.client_id)
    route = routes.group(name)
    error: ErrorCode | None = None
    fence: str | None = None
    if not session.settings.lease.holds(session.now):
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    elif route.group is not None and route.group.fence is not None:
        error = APIS[header.api_key].fenced
        # A heartbeat is answered at once: it blocks nothing, and the member must not think its coordinator dead.
        fence = route.group.fence.operation if error is not ErrorCode.NONE else None
    elif route.coordinator is None:
        error = ErrorCode.NOT_COORDINATOR
        session.emit(Refresh())
    if error is not None:
        body = APIS[header.api_key].refusal(_request(session, header, buf, end), error)
        if error is ErrorCode.NONE:
            session.reply(_slot(header, Kind.WAIT), body)
        else:
            session.refuse(_slot(header, Kind.WAIT), body, fence)
        return
    assert route.coordinator is not None
    _notice(session, header, name)
    frame: bytes | memoryview = memoryview(buf)[pos:end]
    if route.members and route.group is not None:
        request = _request(session, header, buf, end)
        if groups.rename(route.group, route.members, header.api_key, request):
            frame = encode_request(
                header.api_key,
                header.api_version,
                header.correlation_id,
                header.client_id,
                encode(header.api_key, header.api_version, "request", request),
            )
    slot = _slot(header, Kind.PASS)
    slot.group = name
    session.enqueue(slot)
    session.forward(slot, route.coordinator, frame)


def newer_protocol(session: ConnectionState, header: RequestHeader, buf: bytearray, pos: int, end: int) -> None:
    """A member of a KIP-848 group is told what brokers tell it on which that protocol is off.

    franz-go goes on with the classic one, Java and librdkafka end their consumer and say why.
    """
    body = {"error_code": int(ErrorCode.UNSUPPORTED_VERSION), "error_message": _CLASSIC_ONLY}
    session.reply(_slot(header, Kind.WAIT), body)


def wake_joiners(session: ConnectionState) -> None:
    """Members that wait in a rebalance while their group is being fenced are answered, to ask again after the fence.

    What they wait for, that the others join or the leader hands out partitions, the same fence refuses: they would
    wait for it, and it, to be drained, for them. A broker works on one request per connection at a time, so a farewell
    behind a join waits with it.
    """
    known = session.snapshot.view.groups
    occupied: set[BrokerLane | None] = set()
    for slot in tuple(session.queue):
        if slot.kind is not Kind.PASS or slot.group is None:
            continue
        group = known.get(slot.group.decode("utf-8", "replace"))
        if group is None or group.fence is None:
            continue
        row = APIS[slot.api_key]
        if row.rebalance == "waits":
            occupied.add(slot.lane)
        elif slot.lane not in occupied or row.rebalance != "follows":
            continue
        body = row.refusal({"member_id": ""})
        encoded = encode(slot.api_key, slot.api_version, "response", body)
        frame = encode_response(slot.api_key, slot.api_version, slot.correlation_id, encoded)
        answers.abandon(session, slot, frame)
    session.flush()


def _notice(session: ConnectionState, header: RequestHeader, name: bytes) -> None:
    how = APIS[header.api_key].use
    key = hash((how, name))
    if how is not None and key not in session.seen and len(session.seen) < 10_000:
        session.seen.add(key)
        session.emit(Saw(session.identity(header.client_id), "group", name.decode("utf-8", "replace"), how))


def node(session: ConnectionState, header: RequestHeader, buf: bytearray, pos: int, end: int) -> None:
    """A request that is about the broker itself: a virtual node's is passed on, a gateway's node has no logs.

    Admin clients ask every node. No directory at all is to Java a right that is missing, no answer a broker that hangs.
    """
    if session.port.broker is None:
        session.reply(_slot(header, Kind.WAIT), {"error_code": 0, "results": [{"error_code": 0, "log_dir": _NO_LOGS}]})
        return
    if not session.snapshot.fresh:
        session.close(Cause.UNSUPPORTED, f"API key {header.api_key} before the gateway knows any cluster")
        return
    _pass(session, _slot(header, Kind.PASS), memoryview(buf)[pos:end])
