"""Requests for a group's coordinator or for one broker (log directories)."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from gateway.model.rights import Gate, allows
from gateway.session.client import SessionClient
from gateway.session.commands import BrokerLane, Cause, Refresh
from gateway.session.context import SessionContext
from gateway.session.exchange import ask_broker
from gateway.session.handler import RequestHandler
from gateway.session.in_flight import RequestsInFlight
from gateway.session.pending import Exchange, Frames, OffloadStep, Passed, QueuedAnswer, Send
from gateway.session.refusal import Refusal, refusal_frame
from gateway.session.request import Message, Request, text
from gateway.session.rights import Authorization, amended
from ha_core.plan.routing.resolve import cluster_for_topic, lead_group
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
        name = request.group()
        gate = None
        if request.api.asks.each:
            gate = Authorization(session).gate(request, request.read()) if session.client.verdicts is not None else None
            if gate is not None and gate.answer is not None:
                return
        elif not Authorization(session).member(request, name):
            return
        route = session.client.routes(request.client_id).group(name)
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
            return QueuedAnswer(answered)
        self.context.count_refused((Refusal.LEASE,))
        return QueuedAnswer(
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


class NodeRequest(RequestHandler):
    """A request about the broker itself."""

    __slots__ = ()

    def handle(self) -> None:
        """A request about the broker itself: forwarded for a virtual node; a gateway's own node reports one empty log
        directory (Java takes an empty list for a missing right)."""
        session, context, request = self.session, self.context, self.request
        if session.client.verdicts is not None and Authorization(session).gate(request, request.read()) is not None:
            return
        if context.here is None:
            session.in_flight.reply(request, {"error_code": 0, "results": [{"error_code": 0, "log_dir": "gateway"}]})
        elif not context.snapshot.fresh:
            session.intake.leave(Cause.UNSUPPORTED, f"API key {request.api_key} before the gateway knows any cluster")
        else:
            session.in_flight.pass_on(Passed(request), context.here, request.frame)


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


def wake_joiners(in_flight: RequestsInFlight, context: SessionContext) -> None:
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
    in_flight.flush()


_DEAD = "Dead"
"""State of a group that its coordinator does not know."""
_NOT_COMMITTED = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": "", "error_code": 0}
PATIENCE_S = 5.0
"""Without an answer of another cluster by then, the topology decides whether to go on waiting."""


class OffsetFetch(RequestHandler):
    """One OFFSET_FETCH: a group's committed offsets, read from the cluster that lists and describes the group.

    Bindings route the request to a coordinator. If that one does not know the group, a copy in another cluster counts:
    it was made past the gateways, or by a user who was bound to that cluster then. A client that only reads offsets (a
    page that shows lags) often belongs to another user than the group. The two questions that find this out are sent
    only if the first answer has no offset. A group that a move has adopted, or that has its own binding, is read only
    there: its remains elsewhere are outdated.

    An offset is valid only in the log for which it was committed. Two clusters may each have a topic and a group of
    equal names: with an offset of one, a reader of the other would skip records. So the gateway returns another
    cluster's offset only for a moved topic, which has one offset space everywhere, and for a topic that is served from
    that cluster.
    """

    __slots__ = ()

    def exchange(self, group: str, lane: BrokerLane, gate: Gate | None) -> Exchange:
        """:param gate: the allowed part of the request and the answer; None: all of it."""
        request = self.request
        wanted = request.decode() if gate is None else gate.request
        asked = request.rewritten(wanted)
        frames = yield Send({lane: asked})
        answer = request.decode_answer(frames[lane])
        others = dict.fromkeys(self._other_coordinators(group, lane.cluster), asked)
        if others and _no_offsets(answer):
            question = request.asking(ApiKey.DESCRIBE_GROUPS, 0)
            described = yield Send({lane: question.rewritten({"groups": [group]})})
            if _is_unknown(question.decode_answer(described[lane])):
                found = yield Send(others, survives_loss=True, spared=frozenset(others), patience_s=PATIENCE_S)
                answer = next(self._committed(wanted, found), answer)
        return QueuedAnswer(request.answer(answer if gate is None else gate.amend(answer)))

    def _other_coordinators(self, group: str, here: str) -> list[BrokerLane]:
        """Coordinators of the group in other clusters, by cluster name, as listings choose."""
        snapshot, found = self.context.snapshot, list[BrokerLane]()
        for cluster in sorted(snapshot.view.clusters.keys() - {here} - snapshot.view.masked.keys()):
            broker = snapshot.topology.coordinator(cluster, group)
            if broker is not None:
                found.append(BrokerLane(cluster, broker))
        return found

    def _committed(self, request: Message, frames: Frames) -> Iterator[Message]:
        """Answers of other clusters that have an offset, in the order of the clusters' names."""
        for lane, frame in sorted(frames.items()):
            if frame is not None:
                answer = self._served_offsets(request, lane.cluster, self.request.decode_answer(frame))
                if not _no_offsets(answer):
                    yield answer

    def _served_offsets(self, request: Message, cluster: str, answer: Message) -> Message:
        """The cluster's answer, without offsets of topics that another cluster serves to this client."""
        view, topology = self.context.snapshot.view, self.context.snapshot.topology
        identity = self.session.client.routes(self.request.client_id).identity

        def counts(topic: Message) -> bool:
            name = topic["name"]
            led = cluster_for_topic(view, identity, name, topology.existing)
            return led.level == "map" or led.cluster == cluster

        topics = [
            topic
            if counts(topic)
            else topic | {"partitions": [partition | _NOT_COMMITTED for partition in topic["partitions"]]}
            for topic in answer["topics"]
            if request["topics"] is not None or counts(topic)
        ]
        return answer | {"topics": topics}


def _no_offsets(answer: Message) -> bool:
    """True if the group has no committed offset for the request; an error is an answer."""
    if answer["error_code"]:
        return False
    partitions = (partition for topic in answer["topics"] for partition in topic["partitions"])
    return all(partition["committed_offset"] < 0 and not partition["error_code"] for partition in partitions)


def _is_unknown(answer: Message) -> bool:
    (group,) = answer["groups"]
    if group["error_code"] == ErrorCode.GROUP_ID_NOT_FOUND:
        return True
    return not group["error_code"] and group["group_state"] == _DEAD
