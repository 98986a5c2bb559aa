"""Records facts about clusters while they answer, for a time when they do not.

A look is a handful of requests per broker, whatever the number of topics. One of the gateways takes one each minute
(`recorder_process`), the `record_facts` DAG every quarter of an hour, `switchyard facts record` by hand. Facts have
their age.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import NoReturn

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import LogEnds
from ha_core.kafka.groups import Committed
from ha_core.model import Cluster, KnownGroup, KnownTopic, MirrorReport, MoveSet, View
from ha_core.model.mirror import COPY_LOG
from ha_core.operations.engine.cluster_admins import no_such_cluster
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.revisions import nested_by_topic
from ha_core.plan.facts.clusters import Facts, GroupFacts, Partition, PartitionEnds, TopicFacts
from ha_core.plan.facts.settings import mattering
from ha_core.plan.facts.verdict import amount
from ha_core.store.errors import StoreError, StoreUnavailableError

LOOK_S = 30.0


@dataclass(frozen=True, slots=True)
class RecordedCluster:
    """The recorded counts; with an `error` nothing was recorded, and earlier facts stay."""

    cluster: str
    at: str
    topics: int = 0
    partitions: int = 0
    groups: int = 0
    error: str = ""

    @property
    def words(self) -> str:
        if self.error:
            return f"{self.cluster}: {self.error} Facts recorded before stay."
        return (
            f"{self.cluster}: {amount(self.topics, 'topic')} with "
            f"{amount(self.partitions, 'partition')}, {amount(self.groups, 'group')}"
        )


def record(environment: Environment, names: Collection[str] | None = None) -> tuple[RecordedCluster, ...]:
    """Record specs and ends of all topics and commits of all groups, of the clusters `names` (None: of all).

    :raises RefusedError: a cluster is not registered.
    """
    clusters = environment.store.clusters()
    unknown = sorted(set(names or ()) - clusters.keys())
    if unknown:
        raise no_such_cluster(unknown[0], clusters)
    chosen = [cluster for name, cluster in sorted(clusters.items()) if names is None or name in names]
    looks = tuple(environment.pool.map(lambda cluster: _record(environment, cluster), chosen))
    for look in looks:
        environment.say(look.words)
    return looks


def record_always(
    environment: Environment,
    every_s: float,
    names: Collection[str] | None = None,
    looked: Callable[[Sequence[RecordedCluster]], None] = lambda _looks: None,
) -> NoReturn:
    """Repeat `record` until the process is stopped. While the store is away, wait for it.

    :param looked: called after each round.
    :raises RefusedError: a cluster is not registered, or no longer is.
    """
    while True:
        begun = environment.monotonic()
        try:
            looked(record(environment, names))
        except StoreUnavailableError as error:
            environment.say(f"nothing was recorded: {error}")
        environment.sleep(max(0.0, begun + every_s - environment.monotonic()))


def known_topics(
    admin: Admin, at: str, before: Callable[[Collection[str]], dict[str, KnownTopic]]
) -> dict[str, KnownTopic]:
    """Every topic that clients may use, without copy logs. If a leader of a topic did not answer, its `before` facts
    stay: an end that is older than its time could be taken for the log's end."""
    topics = [
        topic for topic in admin.topics(timeout_s=LOOK_S).values() if not topic.internal and topic.name != COPY_LOG
    ]
    earlier = before([topic.name for topic in topics])
    found = {
        topic.name: KnownTopic(
            cluster=admin.cluster.name,
            name=topic.name,
            at=at,
            partitions=topic.partitions,
            replication=topic.replication,
            config=dict(topic.config),
            defaults=mattering(topic.defaults),
            ends={partition: ends.log_end for partition, ends in topic.ends.items()},
            starts={partition: ends.start for partition, ends in topic.ends.items() if ends.start},
        )
        for topic in topics
    }
    lacking = {topic.name for topic in topics if len(topic.ends) < topic.partitions}
    for name in found.keys() & earlier.keys():
        kept = earlier[name]
        found[name] = kept if name in lacking else found[name].changed(fastest=_fastest(kept, found[name]))
    return found


def _fastest(before: KnownTopic, now: KnownTopic) -> float | None:
    """Highest known growth of a partition per second; looks within one second do not count."""
    seconds = (datetime.fromisoformat(now.at) - datetime.fromisoformat(before.at)).total_seconds()
    if seconds < 1.0:
        return before.fastest
    grown = max((end - before.ends[p] for p, end in now.ends.items() if p in before.ends), default=0)
    return max(before.fastest or 0.0, round(grown / seconds, 1))


def known_groups(admin: Admin, at: str) -> dict[str, KnownGroup]:
    """Every group and its commits."""
    states = admin.list_groups(timeout_s=LOOK_S)
    committed = admin.group_offsets(sorted(states), stable=False, timeout_s=LOOK_S)
    return {
        name: KnownGroup(
            cluster=admin.cluster.name,
            name=name,
            at=at,
            state=state,
            offsets=nested_by_topic({key: offset for key, (offset, _) in committed.get(name, {}).items()}),
        )
        for name, state in states.items()
    }


def _record(environment: Environment, cluster: Cluster) -> RecordedCluster:
    at, begun, store = environment.now(), environment.monotonic(), environment.store
    try:
        admin = environment.admin(cluster)
        topics = known_topics(admin, at, partial(store.known, KnownTopic, cluster.name))
        groups = known_groups(admin, at)
        look_s = environment.monotonic() - begun
        seen = [topic.model_copy(update={"look_s": look_s}) if topic.at == at else topic for topic in topics.values()]
        # Groups first: aging takes a cluster's groups as recorded when its topics are.
        store.keep_known(KnownGroup, cluster.name, groups.values())
        store.keep_known(KnownTopic, cluster.name, seen)
    except StoreUnavailableError:
        raise
    except (KafkaAdminError, RefusedError, StoreError) as error:
        # A cluster whose facts do not fit into ZooKeeper must not keep the others from being recorded.
        return RecordedCluster(cluster.name, at, error=str(error))
    return RecordedCluster(
        cluster.name, at, len(topics), sum(topic.partitions for topic in topics.values()), len(groups)
    )


WOBBLE_S = 5.0
"""Clocks under NTP differ by less. A time further in the future counts as unknown."""


@dataclass(frozen=True, slots=True)
class LastKnown:
    """Last known facts of a move's topics and groups. Empty if the origin answers or was never recorded."""

    topics: Mapping[str, KnownTopic] = field(default_factory=dict)
    groups: Mapping[str, KnownGroup] = field(default_factory=dict)
    committed: Mapping[Partition, int] = field(default_factory=dict)
    """The highest client offset that any group of any cluster had committed."""
    ages_s: Mapping[str, float | None] = field(default_factory=dict)
    """Topic → seconds between its look and `read_at`; None if clocks contradict each other."""
    read_at: float = 0.0
    """On the monotonic clock."""
    starts: Mapping[Partition, int] = field(default_factory=dict)
    """Log starts of the origin, from the last look and from copiers' reports. They never move back."""

    @classmethod
    def read(cls, environment: Environment, origin: str, moves: MoveSet) -> LastKnown:
        store = environment.store
        committed: dict[Partition, int] = {}
        view = store.load()
        groups = (group for cluster in view.clusters for group in store.known(KnownGroup, cluster).values())
        for group in groups:
            direct = view.direct(group.name) is not None
            for key, offset in group.committed.items():
                place = view.client_place(group.cluster, key, offset) if direct else offset
                if key[0] in moves.topics and place is not None:
                    committed[key] = max(place, committed.get(key, 0))
        read_at = environment.monotonic()
        topics = store.known(KnownTopic, origin, moves.topics)
        written = store.known_ages_s(KnownTopic, origin, topics)
        ages = {name: _age_s(environment, topic, written.get(name)) for name, topic in topics.items()}
        starts = _starts(topics.values(), store.mirror_reports().values(), view, origin)
        return cls(topics, store.known(KnownGroup, origin, moves.groups), committed, ages, read_at, starts)

    def ends(
        self, environment: Environment, key: Partition, target: int, origin: LogEnds | None, target_start: int = 0
    ) -> PartitionEnds:
        """All known starts and ends of a partition of the origin.

        :param target: log end in the target; `origin`: ends that the origin itself still answered.
        """
        topic = self.topics.get(key[0])
        seen = None if topic is None else topic.ends.get(key[1])
        age = self.ages_s.get(key[0])
        if age is not None:
            age += environment.monotonic() - self.read_at
        log_end, start = (None, 0) if origin is None else (origin.log_end, origin.start)
        starts = max(start, self.starts.get(key, 0))
        return PartitionEnds(
            target,
            log_end,
            seen=seen,
            seen_age_s=age,
            known=self.committed.get(key),
            origin_start=starts,
            target_start=target_start,
        )

    def group_offsets(self) -> dict[str, dict[Partition, Committed]]:
        """group → partition → (offset, metadata), as they were committed in the origin."""
        groups = self.groups.items()
        return {name: {key: (offset, "") for key, offset in group.committed.items()} for name, group in groups}


def _starts(
    topics: Iterable[KnownTopic], reports: Iterable[MirrorReport], view: View, origin: str
) -> dict[Partition, int]:
    found = {(topic.name, partition): start for topic in topics for partition, start in topic.starts.items()}
    for partition_report in (partition for report in reports for partition in report.partitions):
        mirror = view.mirrors.get(partition_report.mirror)
        if partition_report.source_start is not None and mirror is not None and mirror.source == origin:
            key = partition_report.topic, partition_report.partition
            found[key] = max(partition_report.source_start, found.get(key, 0))
    return found


def _age_s(environment: Environment, topic: KnownTopic, written_s: float | None) -> float | None:
    """Seconds since a topic was looked at, by the clock that gives more: that of ZooKeeper, which wrote the facts, or
    those of the two machines, then and now."""
    clocks_s = (datetime.fromisoformat(environment.now()) - datetime.fromisoformat(topic.at)).total_seconds()
    if written_s is None or min(clocks_s, written_s) < -WOBBLE_S:
        return None
    return max(0.0, clocks_s, written_s + topic.look_s)


def with_last_known(environment: Environment, origin: str, moves: MoveSet, facts: Facts) -> Facts:
    """`facts` with the last known state of the origin if it cannot be asked now; else only with that of partitions that
    no live broker can lead."""
    reached = facts.clusters.get(origin)
    if reached is None or reached.refused:
        return facts
    if reached.reachable:
        return facts.also(Facts(topics=_leaderless(environment, origin, facts)))
    topics = {
        (origin, name): TopicFacts(
            exists=True,
            partitions=topic.partitions,
            config=topic.config,
            defaults=topic.defaults,
            starts=topic.starts,
            ends=topic.ends,
            replication=topic.replication,
            age_s=environment.age_s(topic.at),
            fastest=topic.fastest,
        )
        for name, topic in environment.store.known(KnownTopic, origin, moves.topics).items()
    }
    groups = {(origin, name): group for name, group in groups_last_seen(environment, origin, moves.groups).items()}
    return facts.also(Facts(topics=topics, groups=groups))


def _leaderless(environment: Environment, origin: str, facts: Facts) -> dict[tuple[str, str], TopicFacts]:
    topics = {name: topic for (cluster, name), topic in facts.topics.items() if cluster == origin and topic.leaderless}
    known = environment.store.known(KnownTopic, origin, topics) if topics else {}
    return {
        (origin, name): replace(
            topics[name],
            fastest=seen.fastest,
            leaderless={partition: seen.ends.get(partition) for partition in topics[name].leaderless},
            leaderless_age_s=environment.age_s(seen.at),
        )
        for name, seen in known.items()
    }


def groups_last_seen(
    environment: Environment, cluster: str, names: Collection[str] | None = None
) -> dict[str, GroupFacts]:
    """Groups (None: all) as they were last seen in the cluster, with their ages."""
    known = environment.store.known(KnownGroup, cluster, names)
    return {
        name: GroupFacts(state=group.state, offsets=group.committed, age_s=environment.age_s(group.at))
        for name, group in known.items()
    }
