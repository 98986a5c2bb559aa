"""Routes of one identity's topics and groups through one port, on one snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote

from gateway.model.local_names import LocalVerdicts
from gateway.model.rights import numbers
from gateway.session.commands import BrokerLane
from gateway.session.refusal import Refusal
from gateway.session.request import Message, text
from gateway.session.snapshot import Port, Snapshot
from ha_core.model import Extent, Group, Identity, LastSequences, Mirror, Topic, UserBindings
from ha_core.plan.access.rights import Verdicts
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.mirror.mirrored_topics import read_from
from ha_core.plan.routing.bounded_cache import BoundedCache, CacheBudget
from ha_core.plan.routing.resolve import EXPLICIT_LEVELS, cluster_for_group, cluster_for_topic, cluster_for_user
from ha_core.wire import APIS, ApiKey
from ha_core.wire.fetch_answer import FetchShift

_UNBOUND = UserBindings(user="anybody")


class TopicRoute(NamedTuple):
    no_produce: Refusal | None = None
    """Why the topic may not be written; None: it may."""
    no_fetch: Refusal | None = None
    topic: Topic | None = None
    """Set if the topic is mapped: offsets and producer ids are translated."""
    mirror: Mirror | None = None
    """The mirror whose copy is read."""
    sequences: LastSequences | None = None
    fence: str | None = None
    """Operation whose fence stands, else None."""
    real: str | None = None
    """The remote topic that the client sees under this name."""


_PASSED = TopicRoute()
"""Forwarded unchanged to the port's broker."""
_DENIED = TopicRoute(Refusal.DENIED, Refusal.DENIED)
_CONCEALED = TopicRoute(Refusal.CONCEALED, Refusal.CONCEALED)
_WRITES, _READS = (
    numbers(each.operation, each.resource) for key in (ApiKey.PRODUCE, ApiKey.FETCH) for each in APIS[key].asks.each
)
"""Rights for produce and fetch."""


class OpenExtent(NamedTuple):
    """The open extent of a mapped topic's partition, as it is read through this port.

    :ivar since: client offsets from here on are read there, whatever is known about older ones.
    """

    key: tuple[bytes, int]
    since: int
    shift: FetchShift


def open_extent_at(topic: Topic, key: tuple[bytes, int], cluster: str | None) -> OpenExtent | None:
    """The open extent of a topic's partition, through a port of this cluster."""
    partition = key[1]
    if topic.damaged(partition) or topic.crosses(partition):
        return None
    extents = topic.extents(partition)
    extent, only = extents[-1], len(extents) == 1
    if extent.cluster != cluster:
        return None
    # A reader that comes from an older extent begins at the start, where records may be missing.
    since = extent.start if only else extent.start + 1
    return OpenExtent(key, since, FetchShift(extent.shift, not only, extent.start))


class GroupRoute(NamedTuple):
    coordinator: BrokerLane | None
    """Broker for the group's requests: the port's own broker if its cluster coordinates the group, else the coordinator
    itself; None while it is unknown."""
    refusal: Refusal | None
    """Why none of the group's requests is forwarded; None: they are."""
    fence: str | None
    """Operation whose fence stands, else None."""
    aliases: MemberAliases | None
    """Aliases of its adopted members."""


class Routes:
    """Routes cached by name: a new snapshot makes a new object."""

    __slots__ = (
        "_groups", "_open", "_room", "_topics", "_writers", "here", "identity", "names", "plain", "port", "refusal",
        "snapshot", "verdicts",
    )  # fmt: skip

    def __init__(
        self,
        snapshot: Snapshot,
        identity: Identity,
        port: Port,
        verdicts: Verdicts | None = None,
        room: CacheBudget | None = None,
    ) -> None:
        """:param verdicts: rights of the client; None: everything.
        :param room: memory budget shared with other caches, so that a client that invents names cannot fill the memory.
        """
        self.snapshot = snapshot
        self.identity = identity
        self.port = port
        self.verdicts = None if verdicts is None or verdicts.everything else verdicts
        self.names = verdicts.names if isinstance(verdicts, LocalVerdicts) else None
        """Local names of remote topics; None: each topic has its own name."""
        self.here = port.lane
        self._topics: BoundedCache[bytes, TopicRoute] = BoundedCache()
        self._writers: BoundedCache[Partition, Extent | Refusal] = BoundedCache()
        self._open: BoundedCache[tuple[bytes, int], OpenExtent | None] = BoundedCache()
        self._groups: BoundedCache[bytes, GroupRoute] = BoundedCache()
        self._room = CacheBudget() if room is None else room
        self.refusal = self._closes(port.cluster, Refusal.NO_BROKER)
        """Why nothing is forwarded; None: requests are."""
        self.plain = self._is_plain()
        """True if every topic passes, so that no request has to be examined."""

    def _is_plain(self) -> bool:
        view = self.snapshot.view
        if self.refusal or view.topics or view.mirrors or self.snapshot.unreadable or self.verdicts is not None:
            return False
        if any(map(self.snapshot.topology.existing, view.copy_logs)):
            return False
        bindings = view.bindings.get(self.identity.user, _UNBOUND)
        bound = bindings.instances.get(self.identity.instance, bindings.cluster)
        return not bindings.topics and bound in (None, self.port.cluster)

    def _closes(self, cluster: str | None, unknown: Refusal) -> Refusal | None:
        """Why nothing is forwarded to a cluster; None: requests are."""
        known = self.snapshot.view.clusters.get(cluster or "")
        if not self.snapshot.fresh:
            return Refusal.STARTING
        if known is None:
            return unknown
        return None if known.masked is None else Refusal.MASKED

    def topic(self, name: bytes) -> TopicRoute:
        route = self._topics.get(name)
        if route is None:
            route = self._judge_topic(name)
            self._room.keep(self._topics, name, name, route)
        return route

    def reads(self, topics: Iterable[bytes]) -> bool:
        """True if a fetch of these topics is forwarded unchanged."""
        if self.plain:
            return True
        if self.names is not None and self.rename(topics):
            return False
        routes = map(self.topic, topics)
        return not self.refusal and all(route.topic is None and route.no_fetch is None for route in routes)

    def rename(self, topics: Iterable[bytes]) -> bool:
        """True if one of them is a remote topic under its local name, so that its requests and answers are rewritten.

        Such a topic passes neither as it is nor with patched offsets: its answer would have the remote topic's name.
        """
        return any(self.topic(topic).real is not None for topic in topics)

    def used(self, topic: bytes) -> bytes:
        """The topic whose use is reported, where the client names this one."""
        real = self.topic(topic).real
        return topic if real is None else real.encode()

    def writes(self, topics: Iterable[bytes]) -> bool:
        """True if a produce to these topics is forwarded unchanged."""
        if self.plain:
            return True
        routes = map(self.topic, topics)
        return not self.refusal and all(route.topic is None and route.no_produce is None for route in routes)

    def _judge_topic(self, raw: bytes) -> TopicRoute:
        """Denial comes first, so that the answer reveals nothing else about the topic."""
        if self.verdicts is None:
            return self._lead(raw)
        name = text(raw)
        writes, reads = (self.verdicts.allows(*right, name) for right in (_WRITES, _READS))
        if not writes and not reads:
            return _DENIED
        route = self._lead(raw)
        if not writes:
            remote = self.verdicts.objection(*_WRITES, name)
            return route._replace(no_produce=Refusal.REMOTE_TOPIC if remote else Refusal.DENIED)
        return route if reads else route._replace(no_fetch=Refusal.DENIED)

    def _lead(self, raw: bytes) -> TopicRoute:
        if self.refusal:
            return TopicRoute(self.refusal, self.refusal)
        name = text(raw)
        if self.names is not None and (real := self.names.real(name)) is not None:
            return self._lead_named(real)._replace(real=real)
        return self._lead_named(name)

    def _lead_named(self, name: str) -> TopicRoute:
        view = self.snapshot.view
        topic = view.topics.get(name)
        if topic is None and self.snapshot.unreadable:
            paths = (f"/topics/{quote(name, safe='')}", f"/bindings/{quote(self.identity.user, safe='')}")
            if not self.snapshot.unreadable.isdisjoint(paths):
                return TopicRoute(Refusal.UNREADABLE, Refusal.UNREADABLE)
        if view.concealed(name):
            return _CONCEALED
        if topic is not None and topic.mapped:
            fence = topic.fence.operation if topic.fence else None
            mirror = read_from(view, self.identity.user, name, self.snapshot.zone)
            return TopicRoute(Refusal.FENCE if fence else None, None, topic, mirror, view.sequences.get(name), fence)
        if topic is not None and topic.fence is not None:
            return TopicRoute(Refusal.FENCE, fence=topic.fence.operation)
        # Only an explicit binding moves an unmapped topic away from the broker that the client found: the default
        # binding and the known places of topics may not have a topic yet that was just created.
        bound = cluster_for_topic(view, self.identity, name, lambda _name: ())
        if (bound.level in EXPLICIT_LEVELS or self.names is not None) and bound.cluster != self.port.cluster:
            served = cluster_for_topic(view, self.identity, name, self.snapshot.topology.existing)
            if served.cluster != self.port.cluster:
                return TopicRoute(Refusal.ELSEWHERE, Refusal.ELSEWHERE)
        return _PASSED

    def writer(self, topic: Topic, partition: int) -> Extent | Refusal:
        """The extent of a mapped topic's partition that is written through this port."""
        key = (topic.name, partition)
        writer = self._writers.get(key)
        if writer is None:
            if topic.damaged(partition):
                writer = Refusal.DAMAGED
            elif (extent := topic.written(partition)).cluster != self.port.cluster:
                writer = Refusal.ELSEWHERE
            else:
                writer = Refusal.CROSSING if topic.withheld(partition) else extent
            self._room.keep(self._writers, topic.name, key, writer)
        return writer

    def open_extent(self, name: bytes, partition: int) -> OpenExtent | None:
        """Where the newest records of a mapped topic are read; None if all of its extents have to be examined."""
        key = (name, partition)
        found = self._open.get(key)
        if found is not None or key in self._open:
            return found
        topic, here = self.topic(name).topic, self.here
        found = None if topic is None or here is None else open_extent_at(topic, key, here.cluster)
        self._room.keep(self._open, name, key, found)
        return found

    @property
    def reads_copies(self) -> bool:
        """True if the identity's user may read copies of mirrors."""
        bindings = self.snapshot.view.bindings.get(self.identity.user)
        return bindings is not None and bindings.read is not None

    def leader(self, cluster: str, topic: str, partition: int) -> BrokerLane | None:
        """The broker that can serve a partition in a cluster now."""
        topology = self.snapshot.topology
        leader = topology.leader(cluster, topic, partition) if topology.reachable(cluster) else None
        return None if leader is None or self._closes(cluster, Refusal.NO_LEADER) else BrokerLane(cluster, leader)

    def group(self, name: bytes) -> GroupRoute:
        route = self._groups.get(name)
        if route is None:
            group_name = text(name)
            cluster = cluster_for_group(self.snapshot.view, self.identity, group_name)
            group = self.snapshot.view.groups.get(group_name)
            aliases = MemberAliases(group) if group is not None and group.aliases and group.cluster == cluster else None
            refusal, coordinator = self._closes(cluster, Refusal.NO_LEADER), None
            if cluster is not None and refusal is None:
                if self.here is not None and cluster == self.here.cluster:
                    coordinator = self.here
                elif (broker := self.snapshot.topology.coordinator(cluster, group_name)) is not None:
                    coordinator = BrokerLane(cluster, broker)
                else:
                    refusal = Refusal.NO_LEADER
            fence = group.fence.operation if group is not None and group.fence is not None else None
            refusal = Refusal.FENCE if fence else refusal
            if self.snapshot.view.direct(group_name) is not None:
                refusal = Refusal.DIRECT
            route = GroupRoute(coordinator, refusal, fence, aliases)
            self._room.keep(self._groups, name, name, route)
        return route

    def transactions(self) -> Refusal | None:
        """Why the port's cluster does not coordinate the identity's transactions; None: it does."""
        if self.refusal or cluster_for_user(self.snapshot.view, self.identity) == self.port.cluster:
            return self.refusal
        return Refusal.ELSEWHERE


class MemberAliases:
    """Members of an adopted group, under the member ids that its coordinator, the target's, has given them.

    Where a client's request names a member of the origin, the gateway puts the target's member in, until the next
    rebalance gives all members new generations.
    """

    def __init__(self, group: Group) -> None:
        self._aliases = group.aliases
        # JOIN_GROUP and LEAVE_GROUP carry no generation.
        self._by_id = {name.split(":", 1)[1]: member for name, member in group.aliases.items()}

    def rename(self, api_key: int, request: Message) -> bool:
        """Replaces the origin's members by the target's, in place. False: the request names none."""
        if api_key in (ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP):
            named = False
            for entry in (request, *request.get("members", ())):
                member = self._by_id.get(entry.get("member_id", ""))
                if member is not None:
                    entry["member_id"] = member.member_id
                    named = True
            return named
        generation = "generation_id_or_member_epoch" if api_key == ApiKey.OFFSET_COMMIT else "generation_id"
        member = self._aliases.get(f"{request[generation]}:{request['member_id']}") if generation in request else None
        if member is None:
            return False
        request["member_id"], request[generation] = member.member_id, member.generation
        return True
