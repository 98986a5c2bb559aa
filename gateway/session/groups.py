"""Requests for a group's coordinator."""

from collections.abc import Callable, Iterable
from functools import partial

from gateway.model.rights import allows
from gateway.session.client import SessionClient
from gateway.session.commands import BrokerLane, Refresh
from gateway.session.context import SessionContext
from gateway.session.exchange import ask_broker
from gateway.session.group_offsets import OffsetFetch
from gateway.session.handler import RequestHandler
from gateway.session.in_flight import RequestsInFlight
from gateway.session.pending import Exchange, ExchangeAnswer, OffloadStep, Passed
from gateway.session.refusal import Refusal, refusal_frame
from gateway.session.request import Message, Request, text
from gateway.session.rights import Authorization, amended
from ha_core.plan.routing.resolve import lead_group
from ha_core.wire import ApiKey, ErrorCode


class GroupRequest(RequestHandler):
    """A request for a group's coordinator."""

    __slots__ = ()

    def handle(self) -> None:
        """Forwards a group member's request to the coordinator, whichever node it came in by.

        NOT_COORDINATOR would make a stopping member lose its last commit, or never end: aiokafka (0.14) does not look
        for a coordinator then, and repeats the commit endlessly.
        """
        session, context, request = self.session, self.context, self.request
        name, routes = request.group(), session.client.routes(request.client_id)
        gate = None
        if request.api.asks.each:
            gate = Authorization(session).gate(request, request.read()) if routes.verdicts is not None else None
            if gate is not None and gate.answer is not None:
                return
        elif not Authorization(session).member(request, name):
            return
        route = routes.group(name)
        refusal = route.refusal if context.leased() else Refusal.LEASE
        if refusal is Refusal.NO_LEADER:
            context.emit(Refresh())
        if refusal is Refusal.FENCE and request.api.fenced is ErrorCode.NONE:
            # A heartbeat is answered at once, or the member would think its coordinator dead.
            session.in_flight.reply(request, request.api.refusal(request.read(), ErrorCode.NONE))
            return
        if refusal is not None:
            session.in_flight.refuse(request, request.read(), refusal, route.fence)
            return
        assert route.coordinator is not None
        if request.api.use is not None:
            session.seen_uses.notice(request, "group", name, request.api.use)
        if request.api_key == ApiKey.OFFSET_FETCH and self._may_be_elsewhere(name):
            offsets = OffsetFetch(session, request).exchange(text(name), route.coordinator, gate)
            session.exchanges.start(request, offsets, group=name)
            return
        if gate is not None:
            if route.aliases is not None:
                route.aliases.rename(request.api_key, gate.request)
            session.exchanges.start(request, amended(context, request, gate, route.coordinator), group=name)
            return
        frame: bytes | memoryview = request.frame
        if route.aliases is not None:
            message = request.read()
            if route.aliases.rename(request.api_key, message):
                if request.prepared is not None:
                    sent = self._sent(message, route.coordinator)
                    session.exchanges.start(request, sent, group=name)
                    return
                frame = request.rewritten(message)
        session.in_flight.pass_on(Passed(request, group=name), route.coordinator, frame)

    def _may_be_elsewhere(self, name: bytes) -> bool:
        """True if another cluster may know a group for which its coordinator has no offsets."""
        view, group = self.context.snapshot.view, text(name)
        if len(view.clusters) < 2:
            return False
        moved = view.groups.get(group)
        if moved is not None and moved.cluster is not None:
            return False
        _, level = lead_group(view, self.session.client.routes(self.request.client_id).identity, group)
        return level != "group"

    def _sent(self, message: Message, lane: BrokerLane) -> Exchange:
        """Forwards a long request whose body was rewritten; the broker's answer is the client's."""
        answered = yield from ask_broker(self.context, self.request, message, lane)
        if answered is not None:
            return ExchangeAnswer(answered)
        self.context.count_refused((Refusal.LEASE,))
        return ExchangeAnswer(
            (yield OffloadStep(partial(refusal_frame, self.request, message, Refusal.LEASE, None))), promises=False
        )


class NewerProtocolRequest(RequestHandler):
    """A request of a member by KIP-848."""

    __slots__ = ()

    def handle(self) -> None:
        """Refuses a KIP-848 member as a broker with that protocol disabled does: franz-go falls back to the classic
        protocol, Java and librdkafka stop their consumer and report the error."""
        why = "the gateway serves classic consumer groups only: set group.protocol=classic"
        self.session.in_flight.reply(
            self.request, {"error_code": int(ErrorCode.UNSUPPORTED_VERSION), "error_message": why}
        )


_NAMED: dict[int, Callable[[Message], Iterable[str]]] = {
    ApiKey.FIND_COORDINATOR: lambda asked: () if asked["key_type"] else (asked["key"],),
    ApiKey.DELETE_GROUPS: lambda asked: set(asked["groups_names"]),
    ApiKey.OFFSET_DELETE: lambda asked: (asked["group_id"],),
}
"""Groups that a composed handler refuses under a fence."""


def fences(client: SessionClient, request: Request, message: Message) -> list[str]:
    """The operations whose fences refuse groups of a composed request, one entry per group."""
    names = _NAMED[request.api_key](message) if request.api_key in _NAMED else ()
    routes, verdicts = client.routes(request.client_id), client.verdicts
    if verdicts is not None and names:  # the delay of an answer must not reveal denied groups
        asks = request.api.asks
        rights_to = [(need.operation, need.resource) for need in asks.needs]
        rights_to += [(each.operation, each.resource) for each in asks.each]
        asked = next(right for right in rights_to if right[1] == "GROUP")
        names = [name for name in names if allows(verdicts, *asked, name)]
    return [fence for name in names if (fence := routes.group(name.encode()).fence) is not None]


def wake_joiners(in_flight: RequestsInFlight, context: SessionContext, client: SessionClient) -> None:
    """Answers members that wait in a rebalance of a group being fenced, so that they retry after the fence.

    The fence refuses the requests they wait for, and waits for these members to drain. A broker handles one request per
    connection at a time, so a LEAVE_GROUP after a join waits, too.
    """
    occupied: set[BrokerLane | None] = set()
    for pending in tuple(in_flight.queue):
        if not isinstance(pending, Passed) or pending.group is None:
            continue
        group, api = context.snapshot.view.groups.get(text(pending.group)), pending.request.api
        if group is None or group.fence is None:
            continue
        if api.rebalance == "waits":
            occupied.add(pending.lane)
        elif pending.lane not in occupied or api.rebalance != "follows":
            continue
        code = Refusal.FENCE.code(api)
        answer = pending.request.answer(api.refusal({"member_id": ""}, code))
        if in_flight.abandon(pending, answer) and code is not ErrorCode.NONE:
            context.count_refused((Refusal.FENCE,))
            client.fenced(group.fence.operation, pending.request.client_id)
    in_flight.flush()
