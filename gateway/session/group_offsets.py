"""OFFSET_FETCH across clusters: committed offsets are read from the cluster that lists and describes the group."""

from collections.abc import Iterator

from gateway.model.rights import Gate
from gateway.session.commands import BrokerLane
from gateway.session.handler import RequestHandler
from gateway.session.pending import Exchange, ExchangeAnswer, Frames, Send
from gateway.session.request import Message
from ha_core.plan.routing.resolve import cluster_for_topic
from ha_core.wire import ApiKey, ErrorCode

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
        return ExchangeAnswer(request.answer(answer if gate is None else gate.amend(answer)))

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
