"""Aging: extents that nobody can read and nobody needs are dropped, and the topics that they leave behind deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError, UnsupportedByClusterError
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Extent, KnownTopic, SingleOperation, Topic
from ha_core.operations.environment import Environment
from ha_core.operations.errors import RefusedError
from ha_core.operations.inventory import Commits, commits
from ha_core.operations.journal import Journal, new_operation_id
from ha_core.operations.registry import MAX_LISTED
from ha_core.operations.report import Report, step_times
from ha_core.operations.requests import chosen_by, require_named
from ha_core.operations.sides import answering
from ha_core.operations.single import write_maps
from ha_core.plan.aging import (
    Block,
    LogFacts,
    blocks,
    candidates,
    closed,
    crossed,
    drop,
    locked_topics,
    log_of,
    passed,
    undeletable,
)
from ha_core.plan.facts import Partition
from ha_core.store.errors import LockedError

LOOK_S = 30.0
DELETE_S = 60.0


@dataclass(frozen=True, slots=True)
class Old:
    """A closed extent, and what keeps it."""

    topic: str
    partition: int
    extent: Extent
    log: LogFacts | None
    blocks: tuple[Block, ...]

    @property
    def aged(self) -> bool:
        return not self.blocks

    def to_json(self) -> dict[str, Any]:
        where = {"topic": self.topic, "partition": self.partition, "cluster": self.extent.cluster}
        offsets = {"start": self.extent.start, "end": self.extent.end}
        return {**where, **offsets, "aged": self.aged, "blocks": [block._asdict() for block in self.blocks]}


@dataclass(frozen=True, slots=True)
class Aging:
    """What one run has found and done."""

    extents: tuple[Old, ...] = ()
    left_over: tuple[str, ...] = ()
    """Groups that have moved away from a cluster which still holds their offsets."""
    deleted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Cluster → topics; in a dry run those that would be."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """`TOPIC in CLUSTER` → why it is not deleted. Only where deletion was asked for."""
    put_off: tuple[str, ...] = ()
    reports: tuple[Report, ...] = ()

    @property
    def aged(self) -> int:
        """Extents that nothing keeps."""
        return sum(old.aged for old in self.extents)

    def to_json(self) -> dict[str, Any]:
        return {
            "extents": [old.to_json() for old in self.extents],
            "deleted": {cluster: list(names) for cluster, names in self.deleted.items()},
            "kept": dict(self.kept),
            "left_over": list(self.left_over),
            "put_off": list(self.put_off),
            "operations": [report.to_json() for report in self.reports],
        }


@dataclass(frozen=True, slots=True)
class Look:
    """What brokers say, asked once per run."""

    now_ms: int
    topics: Mapping[str, Mapping[str, TopicDescription]]
    """Cluster → topic."""
    earlier: Mapping[str, Mapping[str, KnownTopic]] = field(default_factory=dict)
    last_write_ms: Mapping[tuple[str, Partition], int | None] = field(default_factory=dict)
    """None: its leader does not say who writes there."""
    crossed_ms: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """See `crossed`."""

    def log(self, cluster: str, topic: str, partition: int) -> LogFacts | None:
        if cluster not in self.topics:
            return None
        described = self.topics[cluster].get(topic)
        ends = described.ends.get(partition) if described else None
        known = self.earlier.get(cluster, {}).get(topic)
        end = known.ends.get(partition) if known else None
        last_write_ms = self.last_write_ms.get((cluster, (topic, partition)), 0)
        return log_of(
            partition,
            0 if described is None else described.partitions,
            None if ends is None or last_write_ms is None else (ends.start, ends.log_end),
            {} if described is None else described.config,
            () if known is None or end is None else [(int(datetime.fromisoformat(known.at).timestamp() * 1000), end)],
            last_write_ms or 0,
            self.now_ms,
            self.crossed_ms.get((cluster, topic), 0),
        )


def age(
    environment: Environment,
    topics: Collection[str] = (),
    *,
    delete_origin: bool = False,
    accept_loss: bool = False,
    dry_run: bool = False,
    reason: str = "nothing of it can be read or is needed any more",
) -> Aging:
    """Judge every closed extent of `topics` (names or patterns; none: all) and drop what is aged. Safe to repeat.

    :param delete_origin: delete topics in clusters of whose extents none is left, once they hold no record.
    :param accept_loss: the operator does without what was lost in an origin.
    :raises RefusedError: a loss is accepted for no topic in particular.
    """
    if accept_loss:
        require_named(topics)
    view = environment.store.load()
    named = (topic for name, topic in sorted(view.topics.items()) if chosen_by(topics, name))
    free, worked_on = candidates(named, locked_topics(environment.store.locks()))
    put_off = [f"{name}: {why}" for name, why in worked_on.items()]
    chosen = {name: topic for name, topic in free.items() if delete_origin or any(True for _ in closed(topic))}
    up = answering(environment, view.clusters.values())
    look = _look(environment, up, chosen, everywhere=delete_origin)
    committed = commits(environment, view, chosen, up) if chosen else Commits()
    extents = judged(chosen, look, committed, view.masked, accept_loss)
    after, evidence = _without_aged(chosen, extents)

    def changed(topic: Topic) -> Topic | None:
        return after[topic.name] if topic == chosen[topic.name] else None

    reports: list[Report] = []
    if not dry_run:
        reports += write_maps(environment, "age", reason, after, changed, "aged", evidence, put_off)
    deleted: dict[str, tuple[str, ...]] = {}
    kept: dict[str, str] = {}
    for cluster, names in _deletable(look, chosen | after, committed, kept).items() if delete_origin else ():
        if dry_run:
            deleted[cluster] = names
            continue
        try:
            report, deleted[cluster] = delete_left_behind(environment, up[cluster], names, reason)
            reports.append(report)
        except (LockedError, KafkaAdminError, RefusedError) as error:
            kept.update((f"{name} in {cluster}", str(error)) for name in names)
    return Aging(tuple(extents), committed.left_over, deleted, kept, tuple(put_off), tuple(reports))


def judged(
    topics: Mapping[str, Topic], look: Look, committed: Commits, masked: Mapping[str, str], accept_loss: bool = False
) -> list[Old]:
    """Every closed extent of `topics`. `masked` and `accept_loss` as of `blocks`."""
    found: list[Old] = []
    for name, topic in topics.items():
        for partition, extent in closed(topic):
            log = look.log(extent.cluster, name, partition)
            against = blocks(
                topic.partitions[partition],
                extent,
                log,
                committed.of.get((name, partition), ()),
                look.now_ms,
                committed.unasked,
                accept_loss,
                masked,
                committed.last_seen,
            )
            found.append(Old(name, partition, extent, log, against))
    return found


def _look(environment: Environment, up: Mapping[str, Admin], chosen: Mapping[str, Topic], everywhere: bool) -> Look:
    wanted: dict[str, set[str]] = {name: set(chosen) for name in up} if everywhere else {}
    for topic in chosen.values():
        for _, extent in closed(topic):
            wanted.setdefault(extent.cluster, set()).add(topic.name)
    there: dict[str, dict[str, TopicDescription]] = {}
    earlier: dict[str, dict[str, KnownTopic]] = {}
    last_write_ms: dict[tuple[str, Partition], int | None] = {}
    for name in wanted.keys() & up.keys():
        try:
            there[name] = up[name].topics(wanted[name], timeout_s=LOOK_S)
        except KafkaAdminError as error:
            environment.say(f"the topics of {name} cannot be asked: {error}")
            continue
        earlier[name] = environment.store.known(KnownTopic, name, wanted[name])
        # Partitions whose log in the cluster goes on above what the map knows of it.
        longer = [
            (topic, partition)
            for topic, described in there[name].items()
            for partition, extents in chosen[topic].partitions.items()
            if (ends := described.ends.get(partition)) and passed(extents, name, ends.log_end) is not None
        ]
        last_write_ms |= _last_writes(environment, up[name], longer)
    operations = environment.store.operations(MAX_LISTED) if last_write_ms else ()
    return Look(environment.now_ms(), there, earlier, last_write_ms, crossed(operations))


def _last_writes(
    environment: Environment, admin: Admin, partitions: Collection[Partition]
) -> dict[tuple[str, Partition], int | None]:
    """When an idempotent producer last appended to each of them, as of `Look`; 0: none is known there."""
    name, latest = admin.cluster.name, dict[Partition, int]()
    try:
        states = admin.producers(partitions, timeout_s=LOOK_S) if partitions else {}
        latest = {key: max((one.last_timestamp_ms for one in some), default=0) for key, some in states.items()}
    except UnsupportedByClusterError:
        pass
    except KafkaAdminError as error:
        environment.say(f"nobody knows who writes in {name}: {error}")
        return {(name, key): None for key in partitions}
    return {(name, key): latest.get(key, 0) for key in partitions}


def _without_aged(
    chosen: Mapping[str, Topic], extents: Iterable[Old]
) -> tuple[dict[str, Topic], dict[str, list[list[Any]]]]:
    """The topics of which something is aged, as they are without it, and what the history keeps of each."""
    after: dict[str, Topic] = {}
    evidence: dict[str, list[list[Any]]] = {}
    for old in extents:
        if old.aged:
            topic, extent = after.get(old.topic, chosen[old.topic]), old.extent
            left = {**topic.partitions, old.partition: drop(topic.partitions[old.partition], {extent.term})}
            after[old.topic] = topic.model_copy(update={"partitions": left})
            if old.log is not None:
                row = [old.partition, extent.cluster, extent.start, extent.end, old.log.start, old.log.end]
                evidence.setdefault(old.topic, []).append(row)
    return after, evidence


def _deletable(
    look: Look, written: Mapping[str, Topic], committed: Commits, kept: dict[str, str]
) -> dict[str, tuple[str, ...]]:
    """Cluster → topics that are what an aged migration has left behind; `kept` gets why the others are not."""
    groups: dict[tuple[str, str], set[str]] = {}
    for (name, _), several in committed.of.items():
        for commit in several:
            groups.setdefault((commit.cluster, name), set()).add(commit.group)
    found: dict[str, list[str]] = {}
    for cluster, there in sorted(look.topics.items()):
        for name, described in sorted(there.items()):
            topic = written[name]
            if topic.writer == cluster:
                continue
            everything = range(described.partitions)
            known = {partition: log for partition in everything if (log := look.log(cluster, name, partition))}
            why = f"{cluster} does not say what it holds"
            if len(known) == len(everything):
                why = undeletable(topic, cluster, known, groups.get((cluster, name), ()))
            if why:
                kept[f"{name} in {cluster}"] = why
            else:
                found.setdefault(cluster, []).append(name)
    return {cluster: tuple(names) for cluster, names in found.items()}


def delete_left_behind(
    environment: Environment, admin: Admin, names: Collection[str], reason: str
) -> tuple[Report, tuple[str, ...]]:
    """Delete the topics `names` in one cluster, where no map refers to it and no record is left.

    :raises LockedError: another operation works on one of them. Nothing was deleted.
    :raises RefusedError: a map refers to the cluster again. Nothing was deleted.
    :raises StandsInTheWayError: one of them holds records. Nothing was deleted.
    """
    store, cluster, now = environment.store, admin.cluster.name, environment.now()
    id_ = new_operation_id("age", now)
    operation = SingleOperation(id=id_, kind="age", state="running", by=environment.by, reason=reason, started=now)
    epoch = store.create_operation(operation, [f"topic:{name}" for name in names])
    journal = Journal(environment, operation, epoch)
    try:
        with store.hold(operation.id, epoch), journal.step("delete") as seen:
            seen.update(cluster=cluster, topics=sorted(names))
            _require_left_behind(environment, cluster, names)
            # Deleted is deleted: whoever finds the operation from here on can only end it.
            journal.update(state="cut")
            deleted = admin.delete_drained_topics(names, journal.still_ours, timeout_s=DELETE_S)
            seen["deleted"] = list(deleted)
    except BaseException:
        journal.finish("failed", "not all of it was deleted: see the history")
        raise
    journal.finish("succeeded", f"deleted in {cluster}: {', '.join(deleted) or 'nothing'}")
    return Report(operation.id, "succeeded", 0, step_times(store.history(operation.id))), deleted


def _require_left_behind(environment: Environment, cluster: str, names: Collection[str]) -> None:
    for name in names:
        stored = environment.store.read(Topic, name)
        if stored is None or cluster in stored[0].clusters:
            raise RefusedError(f"Topic {name} is not deleted in {cluster}: its map has changed meanwhile.")
