"""Moves a group from a flow's source to its target: one operation commits the group's offsets there.

The group's members stop in the source, the operation runs, and members start in the target. The offsets in the source
stay as they are, so to go back, start members there again.
"""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ha_core.flows.configuration import Configuration
from ha_core.flows.errors import FlowError
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.group_move import EMPTY, LogStarts, MovedOffset, MovedTopic, NotMoved, moved_offsets, place_of
from ha_core.flows.groups import TargetGroup
from ha_core.flows.translation import SyncStore, Translation, Untranslated, by_runs
from ha_core.kafka.admin import Admin
from ha_core.kafka.groups import Committed
from ha_core.mirror_client import ExactMap, MirrorClient, exact_maps
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.flows_file import FlowsFile
from ha_core.model import SingleOperation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import StepFailedError, unchanged
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.report import Report, report_of
from ha_core.operations.engine.single import beginning, commit_single
from ha_core.operations.flows.declaring import configuration_of, require_declared
from ha_core.operations.flows.interrupted_group_moves import REPEAT
from ha_core.plan.facts.clusters import ListedTopic, Partition
from ha_core.plan.facts.verdict import amount, listed

MAX_WAIT_S = 3_600.0
_NOTED_S = 15.0
"""Seconds to wait for copiers' notes, which are written every few seconds."""
_LOOK_S = 1.0
_NAMED = 100
"""Maximum number of partitions in the history and in an error."""


class GroupWay(NamedTuple):
    """The flows between two clusters, in the direction of a group's move and back; None: that flow is not enabled."""

    source: str
    target: str
    forward: FlowConfig | None
    backward: FlowConfig | None


@dataclass(frozen=True)
class GroupMove:
    """The offsets that a move would commit.

    :ivar moved: offsets to commit in the target.
    :ivar not_moved: offsets that prevent the move.
    :ivar offsets: the group's offsets in the source.
    """

    group: str
    source: str
    target: str
    moved: tuple[MovedOffset, ...]
    not_moved: tuple[NotMoved, ...]
    offsets: Mapping[Partition, Committed] = field(repr=False, default_factory=dict)

    @property
    def repeated(self) -> tuple[MovedOffset, ...]:
        return tuple(one for one in self.moved if one.repeats)

    @property
    def words(self) -> str:
        return f"group {self.group}, {self.source} to {self.target}: {amount(len(self.moved), 'partition')}"

    def to_json(self) -> dict[str, Any]:
        return {
            "group": self.group,
            "source": self.source,
            "target": self.target,
            "moved": [one._asdict() for one in self.moved],
            "not_moved": [one._asdict() for one in self.not_moved],
        }

    def require(self, may_repeat: bool) -> None:
        """:raises RefusedError: offsets cannot be moved, or only if the group rereads records; the text names them."""
        if self.not_moved:
            raise unchanged(_named(f"Group {self.group} cannot move", self.not_moved, "reason"))
        if self.repeated and not may_repeat:
            text = _named(f"Group {self.group} would reread records", self.repeated, "repeats")
            raise unchanged(f"{text}\nTry again once these records are copied, or give --repeat.")


def configured(environment: Environment, flow: str, file: Path | None, declared: str | None) -> Configuration:
    """The configuration with this flow: the file, the declaration, or the only declaration that has the flow.

    :raises RefusedError: no declaration has the flow, or several have it.
    """
    try:
        if file is not None:
            return FlowsFile(file).read()
        if declared:
            return configuration_of(require_declared(environment, declared))
        names = set(map("->".join, (_aliases(flow), _aliases(flow)[::-1])))
        found = [configuration_of(one) for one in environment.store.flow_declarations()]
    except FlowError as error:
        raise unchanged(str(error)) from error
    having = [one for one in found if names & {each.name for each in one.flows}]
    if len(having) != 1:
        raise unchanged(_which(environment, flow, names, [one.name for one in having]))
    return having[0]


def _which(environment: Environment, flow: str, names: Collection[str], having: Sequence[str]) -> str:
    """Several configurations have the flow, or no declaration."""
    if having:
        return f"Several have {flow}: {listed(having)}. Give --declared NAME."
    workers = environment.store.flow_workers()
    files = sorted({f"{one.file} on {one.host}" for one in workers for key in one.flows if key.split("@")[0] in names})
    where = f" Workers run it by {listed(files)}." if files else ""
    return f"No declaration has {flow} or its other direction.{where} Give --file FILE with its properties."


def way_of(found: Configuration, flow: str) -> GroupWay:
    """:raises RefusedError: the flow is enabled in neither direction."""
    source, target = _aliases(flow)
    by_name = {one.name: one for one in found.flows}
    forward, backward = by_name.get(f"{source}->{target}"), by_name.get(f"{target}->{source}")
    if forward is None and backward is None:
        known = ", ".join(by_name) or "none"
        raise unchanged(f"{found.name} has no enabled flow between {source} and {target}. Its flows: {known}.")
    return GroupWay(source, target, forward, backward)


def plan_group_move(found: Configuration, way: GroupWay, group: str, wait_s: float = 0.0) -> GroupMove:
    """Read both clusters, and translate the group's offsets. Changes nothing.

    :param wait_s: seconds to wait until the group has no members in either cluster, 0 to 3,600.
    :raises RefusedError: the group has members, or no offsets in the source.
    """
    if not 0 <= wait_s <= MAX_WAIT_S:
        raise unchanged(f"Waiting {wait_s:g} s is not possible; give 0 to {MAX_WAIT_S:g}.")
    with _both(found, way) as (clusters, source, target):
        return _planned(clusters, source, target, way, group, wait_s)


def move_group(
    environment: Environment, found: Configuration, way: GroupWay, group: str, reason: str, may_repeat: bool = False
) -> tuple[GroupMove, Report]:
    """Commit the group's offsets in the target.

    :param may_repeat: whether to accept lower offsets where exact ones are unknown.
    :raises RefusedError: the group has members, or its offsets cannot be moved; nothing was changed.
    :raises LockedError: another operation moves the group.
    :raises StepFailedError: members came back in the source meanwhile, or commits failed; the text says how to go on.
    """
    if not reason.strip():
        raise unchanged(f"Moving group {group} needs a reason. Give --reason.")
    with _both(found, way) as (clusters, source, target):
        with beginning(environment, "move-group", reason, [group_lock(group)]) as journal:
            plan = _planned(clusters, source, target, way, group, 0.0)
            plan.require(may_repeat)
            try:
                with journal.step("move-group") as seen:
                    _commit(journal, plan, source, target, seen)
                    commit_single(journal, (), {}, seen)
            except Exception as error:
                why = f"Some offsets of group {group} may be committed in {way.target}: {error}. {REPEAT}"
                if journal.operation.state == "running":
                    journal.finish("failed", why)
                raise StepFailedError(why) from error
            journal.finish("succeeded", plan.words)
        return plan, report_of(environment, journal.operation)


def group_lock(group: str) -> str:
    return f"group:{group}"


def _commit(
    journal: Journal[SingleOperation], plan: GroupMove, source: Admin, target: Admin, seen: dict[str, Any]
) -> None:
    seen |= {
        "group": plan.group,
        "from": plan.source,
        "to": plan.target,
        "partitions": len(plan.moved),
        "repeated": len(plan.repeated),
        "offsets": {f"{one.place[0]}-{one.place[1]}": one.there for one in plan.moved[:_NAMED]},
    }
    due: dict[Partition, Committed] = {one.place: (one.there, one.metadata) for one in plan.moved}
    target.set_group_offsets(plan.group, due, still_ours=journal.still_ours)
    now = _look(source, plan.group)
    if now.state not in EMPTY or source.group_offsets([plan.group], stable=False)[plan.group] != plan.offsets:
        raise StepFailedError(f"its members came back in {plan.source} meanwhile: stop them there")


@contextmanager
def _both(found: Configuration, way: GroupWay) -> Iterator[tuple[FlowClusters, Admin, Admin]]:
    try:
        clusters = FlowClusters(found.clusters, found.name)
    except FlowError as error:
        raise unchanged(str(error)) from error
    with clusters.admin(way.source) as source, clusters.admin(way.target) as target:
        yield clusters, source, target


def _planned(
    clusters: FlowClusters, source: Admin, target: Admin, way: GroupWay, group: str, wait_s: float
) -> GroupMove:
    there = _await_empty(source, target, way, group, wait_s)
    offsets = source.group_offsets([group])[group]
    if not offsets:
        raise unchanged(
            f"Group {group} has no offsets in {way.source}: check both names. If they are right, the offsets have "
            "expired, and the group may start in the target by its auto.offset.reset."
        )
    forward, backward = (None if one is None else one.route for one in (way.forward, way.backward))
    places = {topic: place_of(topic, forward, backward, way.target) for topic, _ in offsets}
    known = {(topic, partition): place for topic, partition in offsets if (place := places[topic]) is not None}
    topics = source.list_topics(), target.list_topics()
    starts = LogStarts(
        _starts(source, topics[0], offsets),
        _starts(target, topics[1], [(place.topic, partition) for (_, partition), place in known.items()]),
    )
    deadline = time.monotonic() + _NOTED_S
    while True:
        maps = _maps(clusters, way, known, topics)
        found = list(moved_offsets(offsets, places, starts, maps.translate, there))
        move = GroupMove(
            group,
            way.source,
            way.target,
            tuple(one for one in found if isinstance(one, MovedOffset)),
            tuple(one for one in found if isinstance(one, NotMoved)),
            offsets,
        )
        if time.monotonic() > deadline or not (move.repeated or move.not_moved):
            return move
        time.sleep(_LOOK_S)


@dataclass
class _Maps:
    """The exact maps of both directions.

    :ivar copies: (remote topic in the target, partition) → map of the flow's copy.
    :ivar origins: (topic of the source, partition) → map of the copy that the flow in the other direction made.
    """

    clusters: FlowClusters
    way: GroupWay
    copies: Mapping[tuple[str, int], ExactMap]
    origins: Mapping[tuple[str, int], ExactMap]
    source_topics: Mapping[str, ListedTopic]
    target_topics: Mapping[str, ListedTopic]
    _syncs: SyncStore | None = None

    def translate(self, partition: Partition, place: MovedTopic, offset: int) -> Translation:
        exact = self.origins.get(partition) if place.by == "origin" else self.copies.get((place.topic, partition[1]))
        if exact is None:
            return Untranslated("no copier has noted yet where its records lie")
        copied = self.source_topics.get(partition[0]) if place.by == "copy" else self.target_topics.get(place.topic)
        if copied is not None and exact.source_id and copied.topic_id and exact.source_id != copied.topic_id:
            where = self.way.source if place.by == "copy" else self.way.target
            return Untranslated(
                f"the topic was made again in {where}, and no copier has noted yet where its records lie"
            )
        if place.by == "copy":
            if exact.begins_at and exact.runs and offset < exact.runs[0].source:
                return self._earlier(partition, offset)
            return exact.translate(offset)
        if offset < exact.begins_at:
            return Untranslated(f"records below offset {exact.begins_at} were not copied by Switchyard")
        return by_runs([run.reversed for run in exact.runs], offset)

    def _earlier(self, partition: Partition, offset: int) -> Translation:
        """Translate by the offset syncs of MirrorMaker 2, which copied these records."""
        flow = self.way.forward
        assert flow is not None
        if self._syncs is None:
            self._syncs = SyncStore()
            where, other = (flow.source, flow.target) if flow.syncs_in == "source" else (flow.target, flow.source)
            with MirrorClient(self.clusters.librdkafka(where), flow.policy) as client:
                for sync in client.offset_syncs(other):
                    self._syncs.add(sync)
        return self._syncs.translate(*partition, offset)


def _maps(
    clusters: FlowClusters,
    way: GroupWay,
    places: Mapping[Partition, MovedTopic],
    topics: tuple[Mapping[str, ListedTopic], Mapping[str, ListedTopic]],
) -> _Maps:
    copies = [(place.topic, partition) for (_, partition), place in places.items() if place.by == "copy"]
    origins = [key for key, place in places.items() if place.by == "origin"]
    return _Maps(
        clusters,
        way,
        exact_maps(clusters.librdkafka(way.target), f"{way.source}->{way.target}", copies) if copies else {},
        exact_maps(clusters.librdkafka(way.source), f"{way.target}->{way.source}", origins) if origins else {},
        *topics,
    )


def _starts(admin: Admin, topics: Mapping[str, ListedTopic], wanted: Iterable[Partition]) -> dict[Partition, int]:
    """Log starts of the partitions that exist."""
    existing = [key for key in wanted if key[0] in topics and key[1] < topics[key[0]].partitions]
    return {key: ends.start for key, ends in admin.ends(existing).items()} if existing else {}


def _await_empty(source: Admin, target: Admin, way: GroupWay, group: str, wait_s: float) -> TargetGroup:
    """Wait until the group has no members in either cluster; returns the group in the target.

    :raises RefusedError: the group still has members.
    """
    deadline = time.monotonic() + wait_s
    while True:
        here, there = _look(source, group), _look(target, group)
        live = [
            f"{one.state} in {alias}"
            for alias, one in ((way.source, here), (way.target, there))
            if one.state not in EMPTY
        ]
        if not live:
            return there
        if time.monotonic() >= deadline:
            text = f"Group {group} is {' and '.join(live)}: stop its members, or give --wait-s."
            raise unchanged(text)
        time.sleep(_LOOK_S)


def _look(admin: Admin, group: str) -> TargetGroup:
    described = admin.describe_groups([group])[group].state
    # The old API describes groups of the newer protocol (KIP-848) as dead, but lists their real state.
    state = admin.list_groups().get(group) or described if described == "Dead" else described
    offsets = admin.group_offsets([group], stable=False).get(group, {})
    return TargetGroup(state, {key: offset for key, (offset, _) in offsets.items()})


def _aliases(flow: str) -> tuple[str, str]:
    source, arrow, target = flow.partition("->")
    if not (source and arrow and target):
        raise unchanged(f"{flow!r} is not a flow: give SOURCE->TARGET, by the aliases of its configuration.")
    return source, target


def _named(text: str, several: tuple[Any, ...], why: str) -> str:
    lines = [f"- {one.topic}-{one.partition} at {one.offset}: {getattr(one, why)}" for one in several[:_NAMED]]
    more = [f"- and {len(several) - _NAMED} more"] if len(several) > _NAMED else []
    return "\n".join([f"{text}:", *lines, *more])
