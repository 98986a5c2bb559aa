"""Requests for a group's coordinator or for one broker (log directories)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from gateway.model.rights import allows
from gateway.session import answers, exchange, group_offsets, offloading, rights, streaming
from gateway.session.commands import BrokerLane, Cause, Refresh
from gateway.session.lease_guard import leased
from gateway.session.pending import Exchange, OffloadStep, Passed, QueuedAnswer
from gateway.session.refusal import Refusal
from gateway.session.refusing import refusal_frame, refuse
from gateway.session.request import Message, Request, text
from gateway.session.state import ConnectionState
from ha_core.wire import ApiKey, ErrorCode


def group(session: ConnectionState, request: Request) -> None:
    """Forwards a group member's request to the coordinator, whichever node it came in by.

    NOT_COORDINATOR would make a stopping member lose its last commit, or never end: aiokafka (0.14) does not look for a
    coordinator then, and repeats the commit endlessly.
    """
    name = request.group()
    gate = None
    if request.api.asks.each:
        gate = rights.gate(session, request, request.read()) if session.verdicts is not None else None
        if gate is not None and gate.answer is not None:
            return
    elif not rights.member(session, request, name):
        return
    route = session.routes(request.client_id).group(name)
    refusal = route.refusal if leased(session) else Refusal.LEASE
    if refusal is Refusal.NO_LEADER:
        session.emit(Refresh())
    if refusal is Refusal.FENCE and request.api.fenced is ErrorCode.NONE:
        # A heartbeat is answered at once, or the member would think its coordinator dead.
        session.reply(request, request.api.refusal(request.read(), ErrorCode.NONE))
        return
    if refusal is not None:
        refuse(session, request, request.read(), refusal, route.fence)
        return
    assert route.coordinator is not None
    if request.api.use is not None:
        session.notice(request, "group", name, request.api.use)
    if request.api_key == ApiKey.OFFSET_FETCH and group_offsets.may_be_elsewhere(session, request, name):
        group_offsets.read(session, request, name, route, gate)
        return
    if gate is not None:
        if route.carried is not None:
            route.carried.rename(request.api_key, gate.request)
        exchange.begin(session, request, rights.amended(session, request, gate, route.coordinator), group=name)
        return
    frame: bytes | memoryview = request.frame
    if route.carried is not None:
        message = request.read()
        if route.carried.rename(request.api_key, message):
            if request.prepared is not None:
                sent = _sent(session, request, message, route.coordinator)
                exchange.begin(session, request, sent, group=name)
                return
            frame = request.rewritten(message)
    session.pass_on(Passed(request, group=name), route.coordinator, frame)


def _sent(session: ConnectionState, request: Request, message: Message, lane: BrokerLane) -> Exchange:
    """Forwards a long request whose body was rewritten; the broker's answer is the client's."""
    answered = yield from offloading.ask(session, request, message, lane)
    if answered is not None:
        return QueuedAnswer(answered)
    session.count_refused((Refusal.LEASE,))
    return QueuedAnswer(
        (yield OffloadStep(partial(refusal_frame, request, message, Refusal.LEASE, None))), promises=False
    )


_NAMED: dict[int, Callable[[Message], Iterable[str]]] = {
    ApiKey.FIND_COORDINATOR: lambda asked: () if asked["key_type"] else (asked["key"],),
    ApiKey.DELETE_GROUPS: lambda asked: set(asked["groups_names"]),
    ApiKey.OFFSET_DELETE: lambda asked: (asked["group_id"],),
}
"""Groups that a composed handler refuses under a fence."""


def fences(session: ConnectionState, request: Request, message: Message) -> list[str]:
    """The operations whose fences refuse groups of a composed request, one entry per group."""
    names = _NAMED[request.api_key](message) if request.api_key in _NAMED else ()
    routes, verdicts = session.routes(request.client_id), session.verdicts
    if verdicts is not None and names:  # the delay of an answer must not reveal denied groups
        asks = request.api.asks
        rights_to = [(need.operation, need.resource) for need in asks.needs]
        rights_to += [(each.operation, each.resource) for each in asks.each]
        asked = next(right for right in rights_to if right[1] == "GROUP")
        names = [name for name in names if allows(verdicts, *asked, name)]
    return [fence for name in names if (fence := routes.group(name.encode()).fence) is not None]


def newer_protocol(session: ConnectionState, request: Request) -> None:
    """Refuses a KIP-848 member as a broker with that protocol disabled does: franz-go falls back to the classic
    protocol, Java and librdkafka stop their consumer and report the error."""
    why = "the gateway serves classic consumer groups only: set group.protocol=classic"
    session.reply(request, {"error_code": int(ErrorCode.UNSUPPORTED_VERSION), "error_message": why})


def wake_joiners(session: ConnectionState) -> None:
    """Answers members that wait in a rebalance of a group being fenced, so that they retry after the fence.

    The fence refuses the requests they wait for, and waits for these members to drain. A broker handles one request per
    connection at a time, so a LEAVE_GROUP after a join waits, too.
    """
    occupied: set[BrokerLane | None] = set()
    for pending in tuple(session.queue):
        if not isinstance(pending, Passed) or pending.group is None:
            continue
        group, api = session.snapshot.view.groups.get(text(pending.group)), pending.request.api
        if group is None or group.fence is None:
            continue
        if api.rebalance == "waits":
            occupied.add(pending.lane)
        elif pending.lane not in occupied or api.rebalance != "follows":
            continue
        code = Refusal.FENCE.code(api)
        answer = pending.request.answer(api.refusal({"member_id": ""}, code))
        if answers.abandon(session, pending, answer) and code is not ErrorCode.NONE:
            session.count_refused((Refusal.FENCE,))
    session.flush()


def node(session: ConnectionState, request: Request) -> None:
    """A request about the broker itself: forwarded for a virtual node; a gateway's own node reports one empty log
    directory (Java takes an empty list for a missing right)."""
    if session.verdicts is not None and rights.gate(session, request, request.read()) is not None:
        return
    if session.here is None:
        session.reply(request, {"error_code": 0, "results": [{"error_code": 0, "log_dir": "gateway"}]})
    elif not session.snapshot.fresh:
        streaming.leave(session, Cause.UNSUPPORTED, f"API key {request.api_key} before the gateway knows any cluster")
    else:
        session.pass_on(Passed(request), session.here, request.frame)
