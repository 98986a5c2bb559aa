"""Input of a pre-flight: the request, all facts, and the part of the closure that really is in the origin."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ha_core.model import (
    GatewayRecord,
    Identity,
    Lock,
    LostTail,
    Mirror,
    MoveRequest,
    MoveSet,
    SyncFinding,
    Usage,
    View,
)
from ha_core.plan.absence.crossing_without_origin import crossing_out
from ha_core.plan.facts.clusters import CopyFacts, CopyLag, Facts, Partition, TopicFacts, Trial
from ha_core.plan.mirror.mirrored_topics import fed_by, internal_topics
from ha_core.plan.move.closure import Closure
from ha_core.plan.move.partitions import written_in
from ha_core.plan.routing.resolve import cluster_for_group, cluster_for_topic

_BEFORE_FORMAT_2 = ("0.8", "0.9", "0.10")


@dataclass(frozen=True)
class PreflightCase:
    """Input of the pre-flight's rules.

    `facts` are of origin, target and every other cluster that answered: the topics and groups of the closure, and
    `outside_topics(...)`. `locks` are all held locks.
    """

    view: View
    request: MoveRequest
    closure: Closure
    facts: Facts
    locks: Collection[Lock] = ()
    gateways: Collection[GatewayRecord] = ()
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """User → its uses that count."""
    dormant: Mapping[str, Usage] = field(default_factory=dict)
    """User → its uses that are too old to count (`ha_core.plan.access.usage_age`)."""
    lags: Mapping[tuple[str, int], CopyLag] = field(default_factory=dict)
    """Lags of mirrors as copiers have reported them, by mirror key and partition."""
    copies: Mapping[Partition, CopyFacts] = field(default_factory=dict)
    """State of the copies of mirrored topics, from the copiers' newest notes."""
    noted: Mapping[Partition, int] = field(default_factory=dict)
    """The first source offset that a copy lacked, from its newest notes. Copies without notes read are missing."""
    later: Collection[Partition] = ()
    """Copies that may have deleted records that their sources have, by their newest notes and both log starts."""
    not_begun: Collection[Partition] = ()
    """Copies that no copier has begun, by their copy logs."""
    findings: Collection[SyncFinding] = ()
    """Findings of the last sync of the origin's mirrors in the target."""
    tails: Collection[LostTail] = ()
    """Lost tails of forced switches, in any cluster."""
    known: Collection[str] = ()
    """Topics that clusters were last seen to have, if the request names one that does not exist."""
    trials: Mapping[str, Trial] = field(default_factory=dict)
    """Validation of topics to be created in the target; topics without objections are missing."""

    @cached_property
    def moves(self) -> MoveSet:
        """Everything that the move would carry out: the closure without topics and groups that are in the target, get
        there by the end of their crossing (`crossing_out`), or do not exist although usage names them."""
        moves, request = self.closure.moves, self.request
        own = internal_topics(self.view)
        topics = tuple(
            t
            for t in moves.topics
            if t not in own and self.source(t) == request.origin and self.crossing_out(t) is None
        )
        groups = tuple(g for g in moves.groups if self.coordinator(g) != request.target)
        kept = MoveSet(topics=topics, groups=groups)
        reasons = {key: why for key, why in moves.reasons.items() if key in kept.keys}
        return kept.changed(reasons=reasons, left_out=tuple(sorted(moves.reasons.keys() - reasons.keys())))

    @cached_property
    def to_copies(self) -> dict[str, Mirror]:
        """Topics that move as a whole to their copies, which become their logs."""
        request = self.request
        return {
            mirror.topic: mirror
            for mirror in self.view.mirrors.values()
            if mirror.topic in self.moves.topics
            and (mirror.source, mirror.target) == (request.origin, request.target)
            and mirror.topic not in request.scope.partitions
            and (request.mode == "forced" or request.cut == "barrier" or mirror.topic in self.barriers)
        }

    @cached_property
    def tails_in_copies(self) -> tuple[LostTail, ...]:
        """Tails with records in the target, of compacted topics that move to their copies there. The topic may have
        been created again since."""
        request = self.request
        return tuple(
            tail
            for tail in self.tails
            if tail.cluster == request.target
            and tail.topic in self.to_copies
            and any(part.records for part in tail.partitions.values())
            and any(
                topic is not None and topic.compacted
                for topic in (self.facts.topic(name, tail.topic) for name in (request.origin, request.target))
            )
        )

    @cached_property
    def barriers(self) -> dict[str, str]:
        """Topics for which a predicted cut cannot be exact, with the reason: they take the barrier."""
        if self.request.cut != "predicted":
            return {}
        return {name: why for name, here in self.in_origin() if (why := self._inexact(here))}

    @property
    def ahead(self) -> tuple[str, ...]:
        """Topics whose cuts are to lie ahead of their logs."""
        return tuple(t for t in self.moves.topics if t not in self.barriers) if self.request.cut == "predicted" else ()

    def _inexact(self, here: TopicFacts) -> str:
        origin = self.facts.clusters.get(self.request.origin)
        if origin is not None and not origin.describe_producers:
            return (
                f"{origin.name} does not offer DESCRIBE_PRODUCERS (Kafka 2.8 and newer), so the last sequences of "
                "producers below the cut would be unknown"
            )
        if here.transactional:
            return "it has transactional producers, and a transaction cannot be split at a cut"
        version = here.config.get("message.format.version", "")
        if version.startswith(_BEFORE_FORMAT_2):
            return f"its batches are of format {version}, which has no sequences that identify batches below a cut"
        return ""

    def answers(self, cluster: str) -> bool:
        facts = self.facts.clusters.get(cluster)
        return facts is not None and facts.reachable

    def in_origin(self) -> Iterator[tuple[str, TopicFacts]]:
        """Moving topics that exist in the origin, with their facts."""
        for name in self.moves.topics:
            if (here := self.here(name)) is not None:
                yield name, here

    def here(self, topic: str) -> TopicFacts | None:
        """Facts of the topic in the origin; None: unknown or missing there."""
        facts = self.facts.topic(self.request.origin, topic)
        return facts if facts is not None and facts.exists else None

    @property
    def whole(self) -> bool:
        """Whether anything moves besides single partitions of topics."""
        scope, moves = self.request.scope, self.moves
        return bool(scope.named_users or moves.groups or set(moves.topics) - scope.partitions.keys())

    @property
    def with_leader(self) -> Iterator[str]:
        """The named partitions that have a leader in the origin, or can get one by a clean election."""
        for name, partitions in self.request.scope.partitions.items():
            if (here := self.here(name)) is not None:
                yield from (f"{name}-{p}" for p in partitions if p < here.partitions and p not in here.leaderless)

    def log_start(self, cluster: str, key: Partition) -> int:
        """Log start of a partition there, now or when last recorded; 0: not known, or nothing was deleted."""
        topic, partition = key
        topic_facts = self.facts.topic(cluster, topic)
        return 0 if topic_facts is None else topic_facts.starts.get(partition, 0)

    def crossing_out(self, topic: str) -> str | None:
        return crossing_out(self.request, self.view.topics.get(topic))

    def writer(self, topic: str) -> str | None:
        """The topic's writer now; None: it does not exist, or is being deleted.

        The origin, if it is the writer of any moving partition: single partitions may have another one.
        """
        request = self.request
        if self.view.deleted(topic):
            return None
        document = self.view.mapped(topic)
        if document is not None:
            found = written_in(request, document)
            return next((side for side in (request.origin, request.target) if side in found), min(found))
        holders = sorted(cluster for (cluster, name), t in self.facts.topics.items() if name == topic and t.exists)
        if request.mode == "forced" and not self.answers(request.origin):
            # A dead cluster cannot report its topics. If it lacks this one, its unknown partitions refuse the move.
            return request.origin
        if len(holders) < 2:
            return holders[0] if holders else None
        for user, instance in self.closure.identities(f"topic:{topic}"):
            bound = cluster_for_topic(self.view, Identity(user, instance), topic, lambda _name: holders).cluster
            if bound != request.origin:
                return bound
        return request.origin if request.origin in holders else holders[0]

    def source(self, topic: str) -> str | None:
        """The cluster from which the request takes the topic: its writer; or, to mirror it, the origin, if that has a
        copy whose records come from the writer. None: the topic does not exist."""
        writer, request = self.writer(topic), self.request
        if writer is None or not request.COPIES:
            return writer
        return request.origin if fed_by(self.view, topic, request.origin)[:1] == (writer,) else writer

    def coordinator(self, group: str) -> str | None:
        """The cluster that coordinates the group for the identities that move with it."""
        origin = self.request.origin
        found = {
            cluster_for_group(self.view, Identity(user, instance), group) or origin
            for user, instance in self.closure.identities(f"group:{group}")
        }
        return origin if origin in found or not found else min(found)


def outside_topics(moves: MoveSet, facts: Facts) -> tuple[str, ...]:
    """Topics outside the move that its groups have committed offsets of: facts of the target have to include them."""
    named = {topic for (_, group), g in facts.groups.items() if group in moves.groups for topic, _ in g.offsets}
    return tuple(sorted(named - set(moves.topics)))
