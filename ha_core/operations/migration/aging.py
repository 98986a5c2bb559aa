"""Aging: drops extents that no client can read and no group needs, and deletes the emptied topics."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError, UnsupportedByClusterError
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Extent, KnownTopic, SingleOperation, Topic
from ha_core.operations.clusters.inventory import CommittedOffsets, commits
from ha_core.operations.clusters.registered import MAX_LISTED
from ha_core.operations.engine.cluster_admins import admin_of, answering
from ha_core.operations.engine.environment import Environment, ms_of
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.report import Report, report_of
from ha_core.operations.engine.single import Single, begin_single, write_maps
from ha_core.operations.proposal.requests import chosen_by, require_named
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import listed
from ha_core.plan.migration.aging import (
    GONE,
    Block,
    LogFacts,
    blocks,
    candidates,
    closed_extents,
    crossed,
    drop,
    locked_topics,
    log_of,
    passed,
    undeletable,
)
from ha_core.store.errors import LockedError

LOOK_S = 30.0
DELETE_S = 60.0
AGAIN = "`switchyard age --delete-origin` again deletes what is left."


@dataclass(frozen=True, slots=True)
class Old:
    """A closed extent, and its reasons to stay."""

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
    """The result of one run."""

    extents: tuple[Old, ...] = ()
    left_over: tuple[str, ...] = ()
    """Groups that have moved away from a cluster which still holds their offsets."""
    deleted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Cluster → topics; in a dry run those that would be deleted."""
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


Log = Callable[[str, str, int], LogFacts | None]
"""Cluster, topic, partition → facts from the brokers."""


def age(
    environment: Environment,
    topics: Collection[str] = (),
    *,
    delete_origin: bool = False,
    accept_loss: bool = False,
    dry_run: bool = False,
    reason: str = "nothing of it can be read or is needed any more",
) -> Aging:
    """Judge every closed extent of `topics` (names or patterns; none: all) and drop the aged ones. Safe to repeat.

    :param delete_origin: delete topics in clusters that have no extent left, once they hold no record.
    :param accept_loss: the operator accepts the loss of records that were lost in an origin.
    :raises RefusedError: a loss is accepted without naming topics.
    """
    if accept_loss:
        require_named(topics)
    view = environment.store.load()
    named = (topic for name, topic in sorted(view.topics.items()) if chosen_by(topics, name))
    free, worked_on = candidates(named, locked_topics(environment.store.locks()))
    put_off = [f"{name}: {why}" for name, why in worked_on.items()]
    chosen = {name: topic for name, topic in free.items() if delete_origin or any(True for _ in closed_extents(topic))}
    up = answering(environment, view.clusters.values())
    now_ms = environment.now_ms()
    there, log = _look(environment, up, chosen, view.mirrors, now_ms, everywhere=delete_origin)
    committed = commits(environment, view, chosen, up) if chosen else CommittedOffsets()
    extents: list[Old] = []
    for name, topic in chosen.items():
        for partition, extent in closed_extents(topic):
            facts = log(extent.cluster, name, partition)
            against = blocks(
                topic.partitions[partition],
                extent,
                facts,
                committed.of.get((name, partition), ()),
                now_ms,
                committed.unasked,
                accept_loss,
                view.masked,
                committed.last_seen,
            )
            extents.append(Old(name, partition, extent, facts, against))
    after, evidence = _without_aged(chosen, extents)

    def changed(topic: Topic) -> Topic | None:
        return after[topic.name] if topic == chosen[topic.name] else None

    reports: list[Report] = []
    if not dry_run:
        reports += write_maps(environment, "age", reason, after, changed, "aged", evidence, put_off)
    deleted: dict[str, tuple[str, ...]] = {}
    kept: dict[str, str] = {}
    deletable = _deletable(there, log, chosen | after, committed, view.mirrors, kept) if delete_origin else {}
    for cluster, names in deletable.items():
        if dry_run:
            deleted[cluster] = names
            continue
        try:
            report, deleted[cluster] = delete_left_behind(environment, up[cluster], names, reason)
            reports.append(report)
        except (LockedError, KafkaAdminError, RefusedError) as error:
            kept.update((f"{name} in {cluster}", str(error)) for name in names)
    return Aging(tuple(extents), committed.left_over, deleted, kept, tuple(put_off), tuple(reports))


def _look(
    environment: Environment,
    up: Mapping[str, Admin],
    chosen: Mapping[str, Topic],
    mirrors: Collection[str],
    now_ms: int,
    everywhere: bool,
) -> tuple[dict[str, dict[str, TopicDescription]], Log]:
    """Cluster → topic → description; and facts about logs, asked once per run.

    :param mirrors: keys, `{topic}@{cluster that has the copy}`. The copier appends to a copy past the gateways.
    """
    wanted: dict[str, set[str]] = {name: set(chosen) for name in up} if everywhere else {}
    for topic in chosen.values():
        for _, extent in closed_extents(topic):
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
        # Partitions whose log in the cluster is longer than the map says.
        longer = [
            (topic, partition)
            for topic, described in there[name].items()
            for partition, extents in chosen[topic].partitions.items()
            if f"{topic}@{name}" not in mirrors
            and (ends := described.ends.get(partition))
            and passed(extents, name, ends.log_end) is not None
        ]
        last_write_ms |= _last_writes(environment, up[name], longer)
    crossed_ms = crossed(environment.store.operations(MAX_LISTED) if last_write_ms else ())

    def log(cluster: str, topic: str, partition: int) -> LogFacts | None:
        if cluster not in there:
            return None
        if (described := there[cluster].get(topic)) is None:
            return GONE
        ends, known_topic = described.ends.get(partition), earlier[cluster].get(topic)
        written_ms = last_write_ms.get((cluster, (topic, partition)), 0)
        looks = (
            [(ms_of(known_topic.at), known_topic.ends[partition])]
            if known_topic and partition in known_topic.ends
            else []
        )
        looks = [] if f"{topic}@{cluster}" in mirrors else looks
        return log_of(
            partition,
            described.partitions,
            None if ends is None or written_ms is None else (ends.start, ends.log_end),
            described.config,
            looks,
            written_ms or 0,
            now_ms,
            crossed_ms.get((cluster, topic), 0),
        )

    return there, log


def _last_writes(
    environment: Environment, admin: Admin, partitions: Collection[Partition]
) -> dict[tuple[str, Partition], int | None]:
    """Time of the last append by an idempotent producer; 0: the leader has none, None: it does not answer."""
    name, latest = admin.cluster.name, dict[Partition, int | None]()
    try:
        states = admin.producers(partitions, timeout_s=LOOK_S) if partitions else {}
        latest = {key: max((facts.last_timestamp_ms for facts in some), default=0) for key, some in states.items()}
    except UnsupportedByClusterError:
        pass
    except KafkaAdminError as error:
        environment.say(f"the producers of {name} cannot be listed: {error}")
        latest = dict.fromkeys(partitions)
    return {(name, key): latest.get(key, 0) for key in partitions}


def _without_aged(
    chosen: Mapping[str, Topic], extents: Iterable[Old]
) -> tuple[dict[str, Topic], dict[str, list[list[Any]]]]:
    """The topics with aged extents, without these extents; and topic → detail for the history."""
    after: dict[str, Topic] = {}
    evidence: dict[str, list[list[Any]]] = {}
    for old in extents:
        if old.aged:
            topic, extent = after.get(old.topic, chosen[old.topic]), old.extent
            left = {**topic.partitions, old.partition: drop(topic.partitions[old.partition], {extent.start})}
            after[old.topic] = topic.model_copy(update={"partitions": left})
            if old.log is not None:
                row = [old.partition, extent.cluster, extent.start, extent.end, old.log.start, old.log.end]
                evidence.setdefault(old.topic, []).append(row)
    return after, evidence


def _deletable(
    looks: Mapping[str, Mapping[str, TopicDescription]],
    log: Log,
    written: Mapping[str, Topic],
    committed: CommittedOffsets,
    mirrors: Collection[str],
    kept: dict[str, str],
) -> dict[str, tuple[str, ...]]:
    """Cluster → topics that an aged migration has emptied; `kept` gets the reasons for the others.

    :param mirrors: keys, `{topic}@{cluster that has the copy}`.
    """
    groups = grouped(
        ((commit.cluster, name), commit.group) for (name, _), several in committed.of.items() for commit in several
    )
    found: dict[str, list[str]] = {}
    for cluster, there in sorted(looks.items()):
        for name, described in sorted(there.items()):
            topic = written[name]
            if topic.writer == cluster:
                continue
            logs = {p: facts for p in range(described.partitions) if (facts := log(cluster, name, p))}
            why = f"{cluster} does not say what it holds"
            if f"{name}@{cluster}" in mirrors:
                why = "it is the copy of a mirror: `switchyard mirrors`"
            elif len(logs) == described.partitions:
                why = undeletable(topic, cluster, logs, {*groups.get((cluster, name), ())})
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
    store, cluster = environment.store, admin.cluster.name
    journal = begin_single(environment, "age", reason, [f"topic:{name}" for name in sorted(names)], deletes_in=cluster)
    operation_id = journal.operation.id
    try:
        with store.hold(operation_id, journal.epoch), journal.step("delete") as seen:
            seen.update(cluster=cluster, topics=sorted(names))
            _require_left_behind(environment, cluster, names)
            # A deletion cannot be undone: an executor that resumes the operation can only end it.
            journal.update(state="cut")
            deleted = admin.delete_drained_topics(names, journal.still_ours, timeout_s=DELETE_S)
            seen["deleted"] = list(deleted)
    except BaseException:
        journal.finish("failed", f"Not all of it was deleted in {cluster}: see the history. {AGAIN}")
        raise
    journal.finish("succeeded", f"deleted in {cluster}: {', '.join(deleted) or 'nothing'}")
    return report_of(environment, journal.operation), deleted


class Age(Single):
    """Drops aged extents from maps; or, without a revision, deletes the topics left in a cluster."""

    names = ("age",)

    def end(self, journal: Journal[SingleOperation]) -> None:
        if cluster := journal.operation.evidence.deletes_in:
            _end_interrupted(journal, cluster)
        else:
            super().end(journal)


def _end_interrupted(journal: Journal[SingleOperation], cluster: str) -> None:
    """End a deletion, and report the topics that are left."""
    environment, operation = journal.environment, journal.operation.id
    names = [lock.key.removeprefix("topic:") for lock in environment.store.locks() if lock.operation == operation]
    try:
        left = listed(sorted(admin_of(environment, cluster).topics(names, offsets=False)))
    except (KafkaAdminError, RefusedError) as error:
        left = f"not known which of {len(names)} topics ({error})"
    if left:
        journal.finish("failed", f"Interrupted while it deleted topics in {cluster}. Left are: {left}. {AGAIN}")
    else:
        journal.finish("succeeded", f"deleted in {cluster}")


def _require_left_behind(environment: Environment, cluster: str, names: Collection[str]) -> None:
    for name in names:
        stored = environment.store.read(Topic, name)
        if stored is None or cluster in stored[0].clusters:
            raise RefusedError(f"Topic {name} is not deleted in {cluster}: its map has changed meanwhile.")
