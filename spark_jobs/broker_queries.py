"""Queries to brokers, run by executors: every function takes the rows of one Spark partition and yields answers.

Bounds: an executor's task asks `CLUSTERS_AT_ONCE` clusters at a time, each over one connection per broker, in requests
of at most `PARTITIONS_PER_REQUEST` partitions; so a broker has as many connections as there are tasks
(`Reach.parallel`). Failures are answers: a cluster that cannot be reached yields rows with an error, after one timeout,
and a refused topic or group is separated from its neighbours by halving the request.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import (
    AuthenticationRefusedError,
    ClusterUnreachableError,
    KafkaAdminError,
    NotKafkaError,
    UnsupportedByClusterError,
)
from ha_core.kafka.facts import RecordTimes
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Cluster
from ha_core.model.mirror import COPY_LOG
from ha_core.model.portions import portions
from ha_core.plan.facts.clusters import Partition, may_have_members
from ha_core.wire.sasl import SecurityProfile

Answer = TypeVar("Answer")
CLUSTERS_AT_ONCE = 8
PARTITIONS_PER_REQUEST = 2_000
GROUPS_PER_REQUEST = 200
HOPELESS = (ClusterUnreachableError, AuthenticationRefusedError, NotKafkaError)
"""Errors after which asking this cluster again in this run would only cost another timeout."""


class Reach(NamedTuple):
    """How executors reach the clusters. It is sent with the task, accounts included, and is in no plan or log."""

    clusters: Mapping[str, Cluster]
    profiles: Mapping[str, SecurityProfile]
    timeout_s: float = 10.0
    """Per request, including retries."""
    parallel: int = 4
    """Concurrent tasks, and so connections per broker."""
    connect: Callable[[Cluster, SecurityProfile, float], Any] = Admin
    """Makes an `Admin`, or a substitute."""

    def open(self, cluster: str) -> Admin:
        """:raises KafkaAdminError: the cluster is not registered, or its security profile is unknown here."""
        known = self.clusters.get(cluster)
        if known is None:
            raise KafkaAdminError(cluster, "is not registered. Add it, or correct the name in the map.")
        if known.security not in self.profiles:
            some = ", ".join(sorted(self.profiles))
            raise KafkaAdminError(
                cluster, f"needs the security profile {known.security!r}, which is not known here (known: {some})."
            )
        admin: Admin = self.connect(known, self.profiles[known.security], self.timeout_s)
        return admin


class ToList(NamedTuple):
    """A cluster whose topics and groups are to be listed."""

    cluster: str


class Listed(NamedTuple):
    """A topic (with its number of partitions) or group of a cluster; or the reason why one of the lists is missing."""

    cluster: str
    what: str
    """`topic`, `group` or `error`."""
    name: str | None = None
    partitions: int = 0
    internal: bool = False
    state: str = ""
    """State of a group."""
    error: str | None = None


class TopicAsked(NamedTuple):
    cluster: str
    topic: str
    partitions: int
    """As far as known: for the size of requests."""


class TopicRead(NamedTuple):
    """A topic as its brokers report it. Lists are by partition; they are null where a leader did not answer."""

    cluster: str
    topic: str
    read_at_ms: int
    """By the executor's clock."""
    exists: bool | None = None
    """None: see `error`."""
    partitions: int = 0
    replication: int = 0
    config: str = "{}"
    """JSON of the topic's own settings."""
    internal: bool = False
    starts: Sequence[int | None] = ()
    ends: Sequence[int | None] = ()
    """Log ends, including records that are not replicated yet."""
    first_record_ms: Sequence[int | None] = ()
    """Timestamps as in the logs; this list and the next are empty if they were not requested."""
    newest_record_ms: Sequence[int | None] = ()
    """The largest of each partition."""
    error: str | None = None


class GroupAsked(NamedTuple):
    cluster: str
    group: str
    state: str


class CommitRead(NamedTuple):
    """One committed offset. A group without any yields one row without topic, an unreadable one an error."""

    cluster: str
    group: str
    read_at_ms: int
    live: bool = False
    """It has members, is getting some, or may have."""
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    """A client offset."""
    error: str | None = None


class PartitionAsked(NamedTuple):
    cluster: str
    topic: str
    partition: int


class ProducersRead(NamedTuple):
    """The producers that a partition's leader remembers. `producers` is None if it cannot report them."""

    cluster: str
    topic: str
    partition: int
    producers: int | None = None
    newest_record_ms: int | None = None
    """By the producers' clocks."""
    error: str | None = None


def list_clusters(reach: Reach, rows: Iterable[ToList]) -> Iterator[Listed]:
    """Names of all topics and groups of each cluster. A list that fails is one `error` row."""

    def ask(admin: Admin, requested: Sequence[ToList]) -> Iterator[Listed]:
        for to_list in requested:
            for name, topic in admin.topics(None, offsets=False).items():
                yield Listed(to_list.cluster, "topic", name, topic.partitions, topic.internal or name == COPY_LOG)
            try:
                for name, state in admin.list_groups().items():
                    yield Listed(to_list.cluster, "group", name, state=state)
            except KafkaAdminError as error:
                yield refused(to_list, str(error))

    def refused(requested: ToList, why: str) -> Listed:
        return Listed(requested.cluster, "error", error=why)

    return _ask_clusters(reach, rows, ask, refused, max_rows=1)


def read_topics(reach: Reach, rows: Iterable[TopicAsked], timestamps: bool = False) -> Iterator[TopicRead]:
    """Shape, configuration, starts and ends of each topic; a missing topic has a row that says so.

    With `timestamps` also those of records. A cluster has one timeout in total for them: those that come later, for
    example from slow disks, are null.
    """
    left_s = dict.fromkeys(reach.clusters, reach.timeout_s if timestamps else 0.0)

    def ask(admin: Admin, requested: Sequence[TopicAsked]) -> Iterator[TopicRead]:
        topics = admin.topics([one.topic for one in requested])
        at_ms = now_ms()
        times: Mapping[Partition, RecordTimes] = {}
        cluster = requested[0].cluster
        if left_s[cluster] > 0:
            ends = {(name, index): one for name, topic in topics.items() for index, one in topic.ends.items()}
            begun = time.monotonic()
            times = admin.record_times(ends, left_s[cluster])
            left_s[cluster] -= time.monotonic() - begun
        for one in requested:
            nothing = TopicRead(one.cluster, one.topic, at_ms, exists=False)
            topic = topics.get(one.topic)
            yield _read(nothing, topic, times if timestamps else None) if topic else nothing

    def refused(requested: TopicAsked, why: str) -> TopicRead:
        return TopicRead(requested.cluster, requested.topic, now_ms(), error=why)

    return _ask_clusters(reach, rows, ask, refused, PARTITIONS_PER_REQUEST, lambda one: max(1, one.partitions))


def _read(
    nothing: TopicRead, description: TopicDescription, times: Mapping[Partition, RecordTimes] | None
) -> TopicRead:
    ends = [description.ends.get(index) for index in range(description.partitions)]
    leaderless = [str(index) for index, one in enumerate(ends) if one is None]
    records = [] if times is None else [times.get((description.name, index)) for index in range(description.partitions)]
    some = f"{', '.join(leaderless[:5])}{' …' if len(leaderless) > 5 else ''}"
    return nothing._replace(
        exists=True,
        partitions=description.partitions,
        replication=description.replication,
        config=json.dumps(dict(description.config), sort_keys=True),
        internal=description.internal or description.name == COPY_LOG,
        starts=[one and one.start for one in ends],  # type: ignore[misc]
        ends=[one and one.log_end for one in ends],  # type: ignore[misc]
        first_record_ms=[record and record.first_ms for record in records],  # type: ignore[misc]
        newest_record_ms=[record and record.newest_ms for record in records],  # type: ignore[misc]
        error=f"no leader reports the offsets of partition {some}" if leaderless else None,
    )


def read_commits(reach: Reach, rows: Iterable[GroupAsked]) -> Iterator[CommitRead]:
    def ask(admin: Admin, requested: Sequence[GroupAsked]) -> Iterator[CommitRead]:
        stateless = [one.group for one in requested if not one.state]
        states = (
            {name: description.state for name, description in admin.describe_groups(stateless).items()}
            if stateless
            else {}
        )
        committed = admin.group_offsets([one.group for one in requested], stable=False)
        at_ms = now_ms()
        for one in requested:
            has_members = may_have_members(one.state or states.get(one.group, ""))
            offsets = committed.get(one.group) or {}
            for (topic, partition), (offset, _) in offsets.items():
                yield CommitRead(one.cluster, one.group, at_ms, has_members, topic, partition, offset)
            if not offsets:
                yield CommitRead(one.cluster, one.group, at_ms, has_members)

    def refused(requested: GroupAsked, why: str) -> CommitRead:
        return CommitRead(requested.cluster, requested.group, now_ms(), error=why)

    return _ask_clusters(reach, rows, ask, refused, GROUPS_PER_REQUEST)


def read_producers(reach: Reach, rows: Iterable[PartitionAsked]) -> Iterator[ProducersRead]:
    """Number of producers and their newest record. Brokers older than 2.8 do not report them, which is no error."""

    def ask(admin: Admin, requested: Sequence[PartitionAsked]) -> Iterator[ProducersRead]:
        try:
            facts = admin.producers([(one.topic, one.partition) for one in requested])
        except UnsupportedByClusterError:
            yield from (ProducersRead(*one) for one in requested)
            return
        for one in requested:
            states = facts.get((one.topic, one.partition), ())
            newest = max((state.last_timestamp_ms for state in states), default=None)
            yield ProducersRead(*one, len(states), newest)

    return _ask_clusters(reach, rows, ask, lambda one, why: ProducersRead(*one, error=why), PARTITIONS_PER_REQUEST)


Row = TypeVar("Row", bound=ToList | TopicAsked | GroupAsked | PartitionAsked)


def _ask_clusters(
    reach: Reach,
    rows: Iterable[Row],
    ask: Callable[[Admin, Sequence[Row]], Iterator[Answer]],
    refused: Callable[[Row, str], Answer],
    max_rows: int,
    size: Callable[[Row], int] = lambda _row: 1,
) -> Iterator[Answer]:
    """Asks clusters in parallel, each for its rows in portions of total size at most `max_rows` (or of a single
    row)."""
    by_cluster: dict[str, list[Row]] = {}
    for row in rows:
        by_cluster.setdefault(row.cluster, []).append(row)

    def ask_cluster(item: tuple[str, list[Row]]) -> list[Answer]:
        name, requested = item
        try:
            admin = reach.open(name)
        except KafkaAdminError as error:
            return [refused(row, str(error)) for row in requested]
        answers: list[Answer] = []
        try:
            left = [*portions(requested, max_rows, size)]
            while left:
                portion = left.pop()
                try:
                    answers += list(ask(admin, portion))
                except HOPELESS as error:
                    answers += [refused(row, str(error)) for some in (portion, *left) for row in some]
                    break
                except KafkaAdminError as error:
                    middle = len(portion) // 2
                    if middle:
                        left += [portion[:middle], portion[middle:]]
                    else:
                        answers.append(refused(portion[0], str(error)))
        finally:
            admin.close()
        return answers

    if by_cluster:
        with ThreadPoolExecutor(min(CLUSTERS_AT_ONCE, len(by_cluster)), "ask") as pool:
            for answers in pool.map(ask_cluster, by_cluster.items()):
                yield from answers


def now_ms() -> int:
    return time.time_ns() // 1_000_000
