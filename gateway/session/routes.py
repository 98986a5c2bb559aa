"""What one identity may do with each topic and group through one port, on one snapshot."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple
from urllib.parse import quote

from gateway.session.commands import BrokerLane
from gateway.session.request import text
from gateway.session.snapshot import Port, Snapshot
from ha_core.model import Group, Identity, LastSequences, Member, Topic
from ha_core.plan.resolve import EXPLICIT_LEVELS, cluster_for_group, cluster_for_topic, cluster_for_user

MAX_CACHED = 10_000
"""Names come from the wire: a client that invents some must not fill the memory."""


class Way(IntEnum):
    PASS = 0
    """Forward as it is to the port's broker."""
    MAPPED = 1
    """Forward with offsets and producer ids translated."""
    REFUSE = 2
    """Answer a retriable error: the client has to look for the leader again."""


class TopicRoute(NamedTuple):
    produce: Way
    fetch: Way
    topic: Topic | None
    sequences: LastSequences | None
    fence: str | None
    """Operation whose fence stands, else None."""


_PASS = TopicRoute(Way.PASS, Way.PASS, None, None, None)
_REFUSE = TopicRoute(Way.REFUSE, Way.REFUSE, None, None, None)


class GroupRoute(NamedTuple):
    here: bool
    """Whether the port's cluster coordinates the group."""
    coordinator: BrokerLane | None
    """Where the group's requests go: the port's own broker where its cluster coordinates the group, else the
    coordinator itself; None while it is not known."""
    group: Group | None
    members: dict[str, Member]
    """Aliases of the group by member id, if they lead to the cluster that coordinates it."""


class Routes:
    """Verdicts, cached by name: a new snapshot makes a new object."""

    __slots__ = ("_groups", "_topics", "closed", "here", "identity", "plain", "port", "snapshot")

    def __init__(self, snapshot: Snapshot, identity: Identity, port: Port) -> None:
        self.snapshot = snapshot
        self.identity = identity
        self.port = port
        self.here = port.lane
        self._topics: dict[bytes, TopicRoute] = {}
        self._groups: dict[bytes, GroupRoute] = {}
        known = snapshot.view.clusters.get(port.cluster or "")
        self.closed = known is None or known.masked is not None or not snapshot.fresh
        """Nothing passes: a listener without a broker, a masked cluster, or no state yet."""
        self.plain = self._is_plain()
        """Every topic passes: no request needs a look."""

    def _is_plain(self) -> bool:
        view = self.snapshot.view
        if self.closed or view.topics or self.snapshot.unreadable:
            return False
        bindings = view.bindings.get(self.identity.user)
        if bindings is None:
            return self.identity.topic_hint is None
        bound = bindings.instances.get(self.identity.instance, bindings.cluster)
        return not bindings.topics and bound in (None, self.port.cluster)

    def topic(self, name: bytes) -> TopicRoute:
        route = self._topics.get(name)
        if route is None:
            if len(self._topics) > MAX_CACHED:
                self._topics.clear()
            route = self._topics[name] = self._judge_topic(name)
        return route

    def _judge_topic(self, raw: bytes) -> TopicRoute:
        view = self.snapshot.view
        here = self.port.cluster
        if here is None or self.closed:
            return _REFUSE
        name = text(raw)
        topic = view.topics.get(name)
        if topic is None and self._in_doubt(name):
            return _REFUSE
        if topic is not None and topic.mapped:
            fence = topic.fence.operation if topic.fence else None
            produce = Way.REFUSE if fence else Way.MAPPED
            return TopicRoute(produce, Way.MAPPED, topic, view.sequences.get(name), fence)
        if topic is not None and topic.fence is not None:
            return TopicRoute(Way.REFUSE, Way.PASS, topic, None, topic.fence.operation)
        resolved = cluster_for_topic(view, self.identity, name, self.snapshot.topology.existing)
        # Only an explicit binding moves an unmapped topic away from the broker that the client found: the default may
        # lag behind a topic that was created a moment ago.
        if resolved.cluster != here and resolved.level in EXPLICIT_LEVELS:
            return _REFUSE
        return _PASS

    def _in_doubt(self, topic: str) -> bool:
        unreadable = self.snapshot.unreadable
        return bool(unreadable) and not unreadable.isdisjoint(
            (f"/topics/{quote(topic, safe='')}", f"/bindings/{quote(self.identity.user, safe='')}")
        )

    def group(self, name: bytes) -> GroupRoute:
        route = self._groups.get(name)
        if route is None:
            if len(self._groups) > MAX_CACHED:
                self._groups.clear()
            group_name = text(name)
            cluster = cluster_for_group(self.snapshot.view, self.identity, group_name)
            here = not self.closed and cluster == self.port.cluster
            group = self.snapshot.view.groups.get(group_name)
            members = _members_by_id(group) if group is not None and group.cluster == cluster else {}
            coordinator = self._coordinator(cluster, group_name)
            route = self._groups[name] = GroupRoute(here, coordinator, group, members)
        return route

    def _coordinator(self, cluster: str | None, group: str) -> BrokerLane | None:
        known = self.snapshot.view.clusters.get(cluster or "")
        if known is None or known.masked is not None or not self.snapshot.fresh:
            return None
        if self.here is not None and known.name == self.here.cluster:
            return self.here
        broker = self.snapshot.topology.coordinator(known.name, group)
        return None if broker is None else BrokerLane(known.name, broker)

    def transactions_here(self) -> bool:
        """Whether the port's cluster coordinates the identity's transactions."""
        return not self.closed and cluster_for_user(self.snapshot.view, self.identity) == self.port.cluster


def _members_by_id(group: Group) -> dict[str, Member]:
    """Aliases by member id alone: JOIN_GROUP and LEAVE_GROUP name no generation."""
    return {key.split(":", 1)[1]: member for key, member in group.aliases.items()}
