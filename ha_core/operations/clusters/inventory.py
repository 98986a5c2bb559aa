"""Groups' commits and topics' contents, asked of all clusters at once; changes nothing."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Cluster, KnownTopic, View
from ha_core.operations.clusters.collect_facts import groups_of
from ha_core.operations.clusters.last_seen import groups_last_seen
from ha_core.operations.engine.cluster_admins import PROBE_S
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.facts.clusters import GroupFacts, Partition
from ha_core.plan.facts.lag import GroupLag, LogRange, TopicRow, group_lag, group_lag_by_topic, topic_row
from ha_core.plan.migration.aging import CommittedOffset, counts
from ha_core.plan.routing.resolve import group_homes

Logs = dict[str, dict[int, LogRange | None]]
"""Topic → partition → its log; None: unknown."""
LOOK_S = 10.0
COMMITS_S = 30.0
"""No operator waits for these."""
_LAST_SEEN = "Its topics are as they were last seen."
_NOT_RECORDED = "Nothing was recorded of its topics: those without a map are missing here."


@dataclass(frozen=True, slots=True)
class CurrentGroups:
    """The groups that clusters report now."""

    up: Mapping[str, Admin]
    groups: Mapping[str, Mapping[str, GroupFacts]]
    """Cluster → group."""
    why: Mapping[str, str]
    """Cluster → why its coordinators could not be asked; its groups are as they were last seen."""


@dataclass(frozen=True, slots=True)
class Overview:
    topics: tuple[TopicRow, ...]
    groups: tuple[GroupLag, ...]
    unasked: Mapping[str, str]
    """Cluster → why it could not be asked."""

    def to_json(self) -> dict[str, Any]:
        return {"topics": [asdict(topic) for topic in self.topics], "unasked": dict(self.unasked)}


@dataclass(frozen=True, slots=True)
class CommittedOffsets:
    """Groups' commits for some topics, over all clusters."""

    of: Mapping[Partition, tuple[CommittedOffset, ...]] = field(default_factory=dict)
    unasked: tuple[str, ...] = ()
    """Clusters that do not answer and were never recorded."""
    last_seen: tuple[str, ...] = ()
    """Clusters that do not answer, and count as they were recorded."""
    left_over: tuple[str, ...] = ()
    """`group GROUP in CLUSTER`: commits that a cluster still has of a group that has moved away. No member reads
    them."""


def look_at_groups(environment: Environment, view: View, wanted: Collection[str] | None = None) -> CurrentGroups:
    """`wanted` groups (None: all) in every cluster; last seen ones if coordinators do not answer."""

    def look(cluster: Cluster) -> tuple[Admin | None, dict[str, GroupFacts], str]:
        admin, why = _admin(environment, cluster)
        groups, error = _groups(environment, cluster.name, admin, wanted, LOOK_S)
        return admin, groups, error or why

    clusters = [cluster for _, cluster in sorted(view.clusters.items())]
    looks = dict(zip((one.name for one in clusters), environment.pool.map(look, clusters), strict=True))
    return CurrentGroups(
        up={name: admin for name, (admin, _, _) in looks.items() if admin is not None},
        groups={name: groups for name, (_, groups, _) in looks.items()},
        why={name: why for name, (_, _, why) in looks.items() if why},
    )


def lag_of(environment: Environment, group: str) -> GroupLag:
    """:raises RefusedError: no cluster has the group, or had it when it was last seen."""
    view = environment.store.load()
    look = look_at_groups(environment, view, [group])
    group_lags = lags(environment, view, look, [group])
    if not group_lags:
        away = f" ({', '.join(sorted(look.why))} cannot be asked)" if look.why else ""
        raise RefusedError(f"No cluster knows group {group}, now or when last seen{away}. Check the name.")
    return group_lags[0]


def lags(
    environment: Environment, view: View, look: CurrentGroups, wanted: Collection[str] | None = None
) -> list[GroupLag]:
    """The groups of `look` that some cluster knows, by name."""
    clusters = look.groups.values()
    names = sorted({name for groups in clusters for name in groups} if wanted is None else wanted)
    topics = {key[0] for groups in clusters for group in groups.values() for key in group.offsets}
    logs = {cluster: logs for cluster, (logs, _) in _topics(environment, look.up, topics).items()}
    homes = group_homes(view, environment.store.usage().values())
    group_lags = (group_lag(view, name, homes, look.groups, look.why, logs) for name in names)
    return [lag for lag in group_lags if lag is not None]


def overview(environment: Environment) -> Overview:
    """All topics that have a map, and all others of all clusters: of one that does not answer, those last seen."""
    view = environment.store.load()
    look = look_at_groups(environment, view)
    groups = lags(environment, view, look)
    there = _topics(environment, look.up, None)
    mapped = {name for name, topic in view.topics.items() if topic.mapped}
    away = {name: look.why.get(name, "Its topics cannot be listed.") for name in view.clusters if name not in there}
    seen = {name: _last_seen(environment, name) for name in away}
    logs = {cluster: logs for cluster, (logs, _) in there.items()}
    # The contents of a log that cannot be asked are unknown, not empty.
    logs |= {cluster: {name: {} for name in mapped} | last for cluster, last in seen.items()}
    names = {name for ranges, internal in there.values() for name in ranges.keys() - internal}
    names = (names.union(*seen.values()) - view.copy_logs) | mapped
    lag = group_lag_by_topic(groups)
    rows = tuple(topic_row(view, name, lag.get(name, {}), logs) for name in sorted(names))
    away = {name: f"{why} {_LAST_SEEN if seen[name] else _NOT_RECORDED}" for name, why in away.items()}
    return Overview(rows, tuple(groups), {**look.why, **away})


def commits(environment: Environment, view: View, topics: Collection[str], up: Mapping[str, Admin]) -> CommittedOffsets:
    """Committed offsets of `topics` in every registered cluster; `up` are those that answer."""
    unasked: list[str] = []
    last_seen: list[str] = []
    left_over: set[str] = set()
    committed_offsets: dict[Partition, list[CommittedOffset]] = {}

    def ask(cluster: str) -> tuple[dict[str, GroupFacts], bool]:
        groups, error = _groups(environment, cluster, up.get(cluster), None, COMMITS_S)
        if error:
            environment.say(f"the groups of {cluster} cannot be listed: {error}")
        return groups, cluster in up and not error

    wanted, clusters = set(topics), sorted(view.clusters)
    homes = group_homes(view, environment.store.usage().values())
    for cluster, (groups, answered) in zip(clusters, environment.pool.map(ask, clusters), strict=True):
        if not answered:
            was_recorded = bool(groups) or bool(environment.store.known(KnownTopic, cluster))
            (last_seen if was_recorded else unasked).append(cluster)
        for name, group in groups.items():
            direct = view.direct(name) is not None
            for key, offset in group.offsets.items():
                place = view.client_place(cluster, key, offset) if direct else offset
                if place is None:
                    continue
                commit = CommittedOffset(name, cluster, place, group.may_have_members)
                if key[0] in wanted and counts(commit, homes):
                    committed_offsets.setdefault(key, []).append(commit)
                elif key[0] in wanted:
                    left_over.add(f"group {name} in {cluster}")
    several = {key: tuple(commits) for key, commits in committed_offsets.items()}
    return CommittedOffsets(several, tuple(unasked), tuple(last_seen), tuple(sorted(left_over)))


def _admin(environment: Environment, cluster: Cluster) -> tuple[Admin | None, str]:
    """The admin of a cluster that answers at least in part, or why there is none."""
    try:
        admin = environment.admin(cluster)
        probe = admin.probe(timeout_s=PROBE_S)
    except (KafkaAdminError, RefusedError) as error:
        return None, str(error)
    return (admin, "") if probe.answers and not probe.refused else (None, probe.error)


def _groups(
    environment: Environment, cluster: str, admin: Admin | None, wanted: Collection[str] | None, timeout_s: float
) -> tuple[dict[str, GroupFacts], str]:
    """Groups from the coordinators; if these cannot be asked, the last seen ones, and the reason."""
    error = ""
    if admin is not None:
        try:
            states = admin.list_groups(timeout_s=timeout_s) if wanted is None else dict.fromkeys(wanted, "")
            group_facts = groups_of(admin, sorted(states), timeout_s)
            # Groups of the newer protocol (KIP-848) are described as dead, and listed as what they are.
            dead = {name: states[name] for name, group in group_facts.items() if group.state == "Dead" and states[name]}
            groups = group_facts | {name: replace(group_facts[name], state=state) for name, state in dead.items()}
            return {name: group for name, group in groups.items() if group.offsets or group.members}, ""
        except KafkaAdminError as refused:
            error = str(refused)
    return groups_last_seen(environment, cluster, wanted), error


def _last_seen(environment: Environment, cluster: str) -> Logs:
    """Recorded topics of a cluster; their logs are not known."""
    known = environment.store.known(KnownTopic, cluster).values()
    return {topic.name: dict.fromkeys(range(topic.partitions)) for topic in known}


def _topics(
    environment: Environment, up: Mapping[str, Admin], topics: Collection[str] | None
) -> dict[str, tuple[Logs, set[str]]]:
    """Cluster → the logs of `topics` (None: all) there, and the internal topics; without clusters that do not
    answer."""

    def ask(name: str) -> tuple[Logs, set[str]] | None:
        try:
            there = up[name].topics(topics, timeout_s=LOOK_S, settings=False)
        except KafkaAdminError as error:
            environment.say(f"the topics of {name} cannot be listed: {error}")
            return None
        logs: Logs = {}
        for key, topic in there.items():
            held = {p: LogRange(ends.start, ends.high_watermark) for p, ends in topic.ends.items()}
            logs[key] = {p: held.get(p) for p in range(topic.partitions)}
        return logs, {key for key, topic in there.items() if topic.internal}

    found = zip(up, environment.pool.map(ask, up), strict=True)
    return {name: said for name, said in found if said is not None}
