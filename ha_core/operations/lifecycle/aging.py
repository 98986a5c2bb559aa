"""Aging: extents that nobody can read and nobody needs are dropped, and the topics that they leave behind deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError, UnsupportedByClusterError
from ha_core.kafka.facts import Partition
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Extent, KnownTopic, Operation, Topic, View
from ha_core.operations.environment import Environment
from ha_core.operations.errors import RefusedError
from ha_core.operations.inventory import Commits, commits
from ha_core.operations.journal import Journal, new_operation_id
from ha_core.operations.registry import MAX_LISTED
from ha_core.operations.report import Report, step_times
from ha_core.operations.sides import PROBE_S
from ha_core.operations.single import write_dropped
from ha_core.plan.aging import (
    GONE,
    Block,
    LogFacts,
    blocks,
    closed,
    crossed,
    drop,
    undeletable,
    without_surplus,
)
from ha_core.plan.verdict import listed
from ha_core.store.errors import LockedError

LOOK_S = 30.0


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
        """The machine form."""
        return {
            "extents": [
                {
                    "topic": old.topic,
                    "partition": old.partition,
                    "cluster": old.extent.cluster,
                    "start": old.extent.start,
                    "end": old.extent.end,
                    "aged": old.aged,
                    "blocks": [block._asdict() for block in old.blocks],
                }
                for old in self.extents
            ],
            "deleted": {cluster: list(names) for cluster, names in self.deleted.items()},
            "kept": dict(self.kept),
            "left_over": list(self.left_over),
            "put_off": list(self.put_off),
            "operations": [report.to_json() for report in self.reports],
        }


@dataclass
class _Look:
    """What brokers say, asked once per run."""

    up: dict[str, Admin]
    topics: dict[str, dict[str, TopicDescription]]
    """Cluster → topic."""
    earlier: dict[str, dict[str, KnownTopic]]
    last_write_ms: dict[tuple[str, Partition], int]
    crossed_ms: dict[tuple[str, str], int] = field(default_factory=dict)
    """See `crossed`."""

    def log(self, cluster: str, topic: str, partition: int) -> LogFacts | None:
        if cluster not in self.topics:
            return None
        described = self.topics[cluster].get(topic)
        if described is None or partition >= described.partitions:
            return GONE
        ends = described.ends.get(partition)
        if ends is None:
            return None
        known = self.earlier[cluster].get(topic)
        log = LogFacts(
            ends.start,
            ends.log_end,
            known.ends.get(partition) if known is not None else None,
            self.last_write_ms.get((cluster, (topic, partition))),
            described.config,
        )
        earlier_at_ms = _ms(known.at) if known is not None else None
        return without_surplus(log, earlier_at_ms, self.crossed_ms.get((cluster, topic), 0))


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
    if accept_loss and not topics:
        raise RefusedError("Say for which topics: names or patterns, '*' for all. Nothing was changed.")
    store, view = environment.store, environment.store.load()
    locked = {lock.key: lock.operation for lock in store.locks()}
    put_off: list[str] = []
    chosen: dict[str, Topic] = {}
    for name, topic in sorted(view.topics.items()):
        if not topic.mapped or (topics and not any(fnmatchcase(name, pattern) for pattern in topics)):
            continue
        if f"topic:{name}" in locked or topic.fence is not None or topic.crossing is not None:
            put_off.append(f"{name}: operation {locked.get(f'topic:{name}', '')} works on it")
        elif delete_origin or any(True for _ in closed(topic)):
            chosen[name] = topic
    look = _ask(environment, view, chosen, everywhere=delete_origin)
    committed = commits(environment, view, chosen, look.up) if chosen else Commits()
    extents = tuple(_judged(environment, chosen, look, committed, accept_loss, view.masked))
    after = _without_aged(chosen, extents)
    reports = [] if dry_run else list(_write(environment, chosen, after, extents, reason, put_off))
    deleted: dict[str, tuple[str, ...]] = {}
    kept: dict[str, str] = {}
    if delete_origin:
        written = {name: after.get(name, topic) for name, topic in chosen.items()}
        for cluster, names in _deletable(look, written, committed, kept).items():
            if dry_run:
                deleted[cluster] = names
                continue
            try:
                report, gone = delete_left_behind(environment, look.up[cluster], names, reason)
                reports.append(report)
                deleted[cluster] = gone
            except (LockedError, KafkaAdminError, RefusedError) as error:
                kept.update((f"{name} in {cluster}", str(error)) for name in names)
    return Aging(extents, committed.left_over, deleted, kept, tuple(put_off), tuple(reports))


def _ask(environment: Environment, view: View, chosen: Mapping[str, Topic], everywhere: bool) -> _Look:
    def connect(name: str) -> Admin | None:
        cluster = view.clusters[name]
        admin = environment.admin(cluster)
        return admin if cluster.masked is None and admin.probe(timeout_s=PROBE_S).reachable else None

    names = sorted(view.clusters)
    up = {
        name: admin
        for name, admin in zip(names, environment.pool.map(connect, names), strict=True)
        if admin is not None
    }
    wanted: dict[str, set[str]] = {name: set(chosen) for name in up} if everywhere else {}
    for topic in chosen.values():
        for _, extent in closed(topic):
            wanted.setdefault(extent.cluster, set()).add(topic.name)
    look = _Look(up, {}, {}, {})
    goes_on = False
    for name, topics in wanted.items():
        if name not in up:
            continue
        try:
            look.topics[name] = up[name].topics(topics, timeout_s=LOOK_S)
        except KafkaAdminError as error:
            environment.say(f"the topics of {name} cannot be asked: {error}")
            continue
        look.earlier[name] = environment.store.known(KnownTopic, name, topics)
        behind = _behind(name, chosen, look.topics[name])
        goes_on = goes_on or bool(behind)
        look.last_write_ms |= _last_writes(up[name], behind)
    if goes_on:
        look.crossed_ms |= crossed(environment.store.operations(MAX_LISTED))
    return look


def _ms(at: str) -> int:
    return int(datetime.fromisoformat(at).timestamp() * 1000)


def _behind(cluster: str, chosen: Mapping[str, Topic], there: Mapping[str, TopicDescription]) -> list[Partition]:
    """Partitions whose log in the cluster goes on behind what the map knows of it."""
    found: list[Partition] = []
    for name, described in there.items():
        for partition, extents in chosen[name].partitions.items():
            own = [extent for extent in extents if extent.cluster == cluster]
            end = own[-1].physical_end if own else None
            ends = described.ends.get(partition)
            if end is not None and ends is not None and ends.log_end > end:
                found.append((name, partition))
    return found


def _last_writes(admin: Admin, partitions: Collection[Partition]) -> dict[tuple[str, Partition], int]:
    """When an idempotent producer last appended to each of them."""
    try:
        found = admin.producers(partitions, timeout_s=LOOK_S) if partitions else {}
    except UnsupportedByClusterError:
        return {}
    name = admin.cluster.name
    return {(name, key): max(one.last_timestamp_ms for one in states) for key, states in found.items() if states}


def _judged(
    environment: Environment,
    chosen: Mapping[str, Topic],
    look: _Look,
    committed: Commits,
    accept_loss: bool,
    masked: Mapping[str, str],
) -> list[Old]:
    now_ms = _ms(environment.now())
    found = []
    for name, topic in chosen.items():
        for partition, extent in closed(topic):
            log = look.log(extent.cluster, name, partition)
            said = committed.of.get((name, partition), ())
            against = blocks(
                topic.partitions[partition], extent, log, said, now_ms, committed.unasked, accept_loss, masked
            )
            found.append(Old(name, partition, extent, log, against))
    return found


def _without_aged(chosen: Mapping[str, Topic], extents: Collection[Old]) -> dict[str, Topic]:
    """The topics of which something is aged, as they are without it."""
    terms: dict[str, dict[int, set[int]]] = {}
    for old in extents:
        if old.aged:
            terms.setdefault(old.topic, {}).setdefault(old.partition, set()).add(old.extent.term)
    return {
        name: chosen[name].model_copy(
            update={
                "partitions": {
                    partition: drop(own, aged.get(partition, ())) for partition, own in chosen[name].partitions.items()
                }
            }
        )
        for name, aged in terms.items()
    }


def _write(
    environment: Environment,
    chosen: Mapping[str, Topic],
    after: Mapping[str, Topic],
    extents: Collection[Old],
    reason: str,
    put_off: list[str],
) -> list[Report]:
    evidence: dict[str, list[list[Any]]] = {}
    for old in extents:
        if old.aged and old.log is not None:
            evidence.setdefault(old.topic, []).append(
                [old.partition, old.extent.cluster, old.extent.start, old.extent.end, old.log.start, old.log.end]
            )
    return write_dropped(environment, "age", reason, "aged", chosen, after, evidence, put_off)


def _deletable(
    look: _Look, written: Mapping[str, Topic], committed: Commits, kept: dict[str, str]
) -> dict[str, tuple[str, ...]]:
    """Cluster → topics that are what an aged migration has left behind."""
    groups: dict[tuple[str, str], set[str]] = {}
    for (name, _), said in committed.of.items():
        for commit in said:
            groups.setdefault((commit.cluster, name), set()).add(commit.group)
    found: dict[str, list[str]] = {}
    for cluster, there in look.topics.items():
        for name, described in there.items():
            topic = written[name]
            if topic.writer == cluster:
                continue
            logs = {partition: look.log(cluster, name, partition) for partition in range(described.partitions)}
            known = {partition: log for partition, log in logs.items() if log is not None}
            why = (
                undeletable(topic, cluster, known)
                if len(known) == len(logs)
                else f"{cluster} does not say what it holds"
            )
            there_still = sorted(groups.get((cluster, name), ()))
            if not why and there_still:
                # A coordinator forgets the offsets of a topic that is deleted beside it, and takes no further ones.
                why = (
                    f"{listed(f'group {group}' for group in there_still)} commits offsets of it there, and would lose "
                    f"them: switch it to another cluster, or delete it"
                )
            if why:
                kept[f"{name} in {cluster}"] = why
            else:
                found.setdefault(cluster, []).append(name)
    return {cluster: tuple(sorted(names)) for cluster, names in found.items()}


DELETE_S = 60.0


def delete_left_behind(
    environment: Environment, admin: Admin, names: Collection[str], reason: str
) -> tuple[Report, tuple[str, ...]]:
    """Delete the topics `names` in one cluster, where no map refers to it and no record is left.

    :raises LockedError: another operation works on one of them. Nothing was deleted.
    :raises RefusedError: a map refers to the cluster again. Nothing was deleted.
    :raises TopicNotEmptyError: one of them holds records. Nothing was deleted.
    """
    store, cluster, now = environment.store, admin.cluster.name, environment.now()
    operation = Operation(
        id=new_operation_id("age", now), kind="age", state="running", by=environment.by, reason=reason, started=now
    )
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
        if stored is None or _refers(stored[0], cluster):
            raise RefusedError(f"Topic {name} is not deleted in {cluster}: its map has changed meanwhile.")


def _refers(topic: Topic, cluster: str) -> bool:
    return topic.writer == cluster or any(
        extent.cluster == cluster for extents in topic.partitions.values() for extent in extents
    )
