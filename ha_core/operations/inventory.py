"""The lag of groups: what they have committed, where that lies, and how much there is to read, over all clusters.

A coordinator that is away has not forgotten anything, so nobody may read here that a group has committed nothing: what
was last seen of it is shown instead, with its age.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import Partition
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Cluster, Extent, KnownGroup, KnownTopic, View
from ha_core.model.extent import identity
from ha_core.operations.environment import Environment
from ha_core.operations.errors import RefusedError
from ha_core.operations.last_seen import age_s
from ha_core.operations.sides import PROBE_S
from ha_core.plan.aging import Commit
from ha_core.plan.lag import Held, behind
from ha_core.plan.verdict import duration

LOOK_S = 10.0


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Client offsets."""

    topic: str
    partition: int
    committed: int
    end: int | None
    lag_records: int | None
    next: str
    """Cluster of the record to be read next."""
    coordinator: str
    """Cluster that holds the commit."""
    age_s: float | None = None
    """None: the coordinator said it just now. Else it cannot be asked, and this was last seen so many seconds ago."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    group: str
    coordinators: Mapping[str, str]
    """Cluster → the group's state there."""
    partitions: tuple[PartitionLag, ...]
    left_over: tuple[str, ...] = ()
    """Clusters that still hold commits of it from before it moved away; nobody reads them."""
    unasked: Mapping[str, str] = field(default_factory=dict)
    """Cluster → why it could not be asked, and whether anything is known of the group there."""

    @property
    def lag_records(self) -> int | None:
        """Of all partitions; None where one is not known."""
        known = [one.lag_records for one in self.partitions if one.lag_records is not None]
        return sum(known) if len(known) == len(self.partitions) else None

    @property
    def age_s(self) -> float | None:
        """Of the oldest commit that was not said just now."""
        return max((one.age_s for one in self.partitions if one.age_s is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "lag_records": self.lag_records, "age_s": self.age_s}


@dataclass(frozen=True, slots=True)
class Said:
    """One group in one cluster."""

    state: str
    members: int
    offsets: Mapping[Partition, int]
    age_s: float | None = None

    @property
    def words(self) -> str:
        if self.age_s is not None:
            return f"last seen {duration(self.age_s)} ago{f' as {self.state}' if self.state else ''}"
        return f"{self.state}, {self.members} members"


@dataclass(frozen=True, slots=True)
class Look:
    """What the clusters say of groups and topics now."""

    up: Mapping[str, Admin]
    groups: Mapping[str, Mapping[str, Said]]
    """Cluster → group."""
    why: Mapping[str, str]
    """Cluster → why its coordinators could not be asked; its groups are as they were last seen."""


def group_lag(environment: Environment, group: str) -> GroupLag:
    """:raises RefusedError: no cluster knows the group, nor has anybody seen it there."""
    view = environment.store.load()
    look = look_at_groups(environment, view, [group])
    found = lags(environment, view, look, [group])
    if not found:
        away = f" ({', '.join(sorted(look.why))} cannot be asked)" if look.why else ""
        raise RefusedError(f"No cluster knows group {group}, and nobody has seen it there{away}. Check the name.")
    return found[0]


def look_at_groups(environment: Environment, view: View, wanted: Collection[str] | None = None) -> Look:
    """`wanted` groups (None: all) in every cluster; of coordinators that do not answer as they were last seen."""

    def look(cluster: Cluster) -> tuple[Admin | None, dict[str, Said], str]:
        admin, why = _admin(environment, cluster)
        if admin is not None:
            try:
                return admin, _asked(admin, wanted), ""
            except KafkaAdminError as error:
                why = str(error)
        return admin, _last_seen(environment, cluster.name, wanted), why

    clusters = [cluster for _, cluster in sorted(view.clusters.items())]
    looks = dict(zip((one.name for one in clusters), environment.pool.map(look, clusters), strict=True))
    return Look(
        up={name: admin for name, (admin, _, _) in looks.items() if admin is not None},
        groups={name: said for name, (_, said, _) in looks.items()},
        why={name: why for name, (_, _, why) in looks.items() if why},
    )


def lags(environment: Environment, view: View, look: Look, wanted: Collection[str] | None = None) -> list[GroupLag]:
    """The groups of `look` that some cluster knows, by name."""
    names = sorted({group for said in look.groups.values() for group in said} if wanted is None else set(wanted))
    topics = {
        topic for said in look.groups.values() for group in names if group in said for topic, _ in said[group].offsets
    }
    there = topics_there(environment, look.up, topics)
    return [found for name in names if (found := _lag(view, look, there, name)) is not None]


def topics_there(
    environment: Environment, up: Mapping[str, Admin], topics: Collection[str] | None
) -> dict[str, dict[str, TopicDescription]]:
    """Cluster → those of `topics` (None: all) that it has; a cluster that does not say it is missing."""

    def ask(name: str) -> dict[str, TopicDescription] | None:
        try:
            return up[name].topics(topics, timeout_s=LOOK_S)
        except KafkaAdminError as error:
            environment.say(f"the topics of {name} cannot be asked: {error}")
            return None

    found = zip(up, environment.pool.map(ask, up), strict=True)
    return {name: said for name, said in found if said is not None}


def held_in(there: Mapping[str, Mapping[str, TopicDescription]], key: Partition, cluster: str) -> Held | None:
    """A partition in one cluster: nothing where that has no such topic, None where it is not known."""
    if cluster not in there:
        return None
    described = there[cluster].get(key[0])
    if described is None:
        return Held(0, 0)
    ends = described.ends.get(key[1])
    return Held(ends.start, ends.high_watermark) if ends is not None else None


def extents_where(view: View, key: Partition, coordinator: str, holders: Collection[str]) -> tuple[Extent, ...]:
    """A topic without a map is where it is, as far as that can be said without knowing who asks."""
    document = view.topics.get(key[0])
    if document is not None and document.mapped:
        return document.extents(key[1])
    return identity(coordinator if coordinator in holders or not holders else min(holders))


def _lag(view: View, look: Look, there: Mapping[str, Mapping[str, TopicDescription]], group: str) -> GroupLag | None:
    document = view.groups.get(group)
    home = document.cluster if document is not None else None
    states: dict[str, str] = {}
    rows: list[PartitionLag] = []
    left_over: list[str] = []
    for cluster, groups in look.groups.items():
        said = groups.get(group)
        if said is None:
            continue
        if home not in {None, cluster} and not said.members:
            left_over.append(cluster)
            continue
        states[cluster] = said.words
        rows += _rows(view, cluster, said, there)
    if not states and not left_over and home not in look.why:
        return None
    unasked = {
        name: why if group in look.groups[name] else f"{why} Nothing was recorded of the group there."
        for name, why in look.why.items()
    }
    return GroupLag(group, states, tuple(rows), tuple(left_over), unasked)


def _rows(
    view: View, coordinator: str, said: Said, there: Mapping[str, Mapping[str, TopicDescription]]
) -> Iterator[PartitionLag]:
    for key, offset in sorted(said.offsets.items()):
        holders = [name for name, found in there.items() if key[0] in found]
        extents = extents_where(view, key, coordinator, holders)
        found = behind(extents, offset, partial(held_in, there, key))
        yield PartitionLag(key[0], key[1], offset, found.end, found.lag_records, found.next, coordinator, said.age_s)


def _admin(environment: Environment, cluster: Cluster) -> tuple[Admin | None, str]:
    """The admin of a cluster of which something answers, or why there is none."""
    try:
        admin = environment.admin(cluster)
        found = admin.probe(timeout_s=PROBE_S)
    except (KafkaAdminError, RefusedError) as error:
        return None, str(error)
    return (admin, "") if found.answers and not found.refused else (None, found.error)


def _asked(admin: Admin, wanted: Collection[str] | None) -> dict[str, Said]:
    names = sorted(admin.list_groups(timeout_s=LOOK_S)) if wanted is None else list(wanted)
    described = admin.describe_groups(names, timeout_s=LOOK_S) if names else {}
    committed = admin.group_offsets(names, stable=False, timeout_s=LOOK_S) if names else {}
    found = {}
    for name in names:
        offsets = {key: offset for key, (offset, _) in committed.get(name, {}).items()}
        if offsets or described[name].members:
            found[name] = Said(described[name].state, len(described[name].members), offsets)
    return found


def _last_seen(environment: Environment, cluster: str, wanted: Collection[str] | None) -> dict[str, Said]:
    return {
        name: Said(
            group.state,
            0,
            {(topic, partition): offset for topic, some in group.offsets.items() for partition, offset in some.items()},
            age_s(environment, group.at),
        )
        for name, group in environment.store.known(KnownGroup, cluster, wanted).items()
    }


LIVE = frozenset({"Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
"""States of a group with members."""
COMMITS_S = 30.0


@dataclass(frozen=True, slots=True)
class Commits:
    """Of some topics, over all clusters."""

    of: Mapping[Partition, tuple[Commit, ...]] = field(default_factory=dict)
    unasked: tuple[str, ...] = ()
    """Clusters that do not answer, and of which nothing was recorded either."""
    left_over: tuple[str, ...] = ()
    """`group GROUP in CLUSTER`: what a cluster still holds of a group that has moved away. Nobody reads it."""


def commits(environment: Environment, view: View, topics: Collection[str], up: Mapping[str, Admin]) -> Commits:
    """Committed offsets of `topics` in every registered cluster.

    :param up: the clusters that answer.
    """
    wanted = set(topics)
    unasked: list[str] = []
    left_over: set[str] = set()
    found: dict[Partition, list[Commit]] = {}

    def ask(name: str) -> list[tuple[Partition, Commit]] | None:
        admin = up.get(name)
        try:
            return list(_commits_last_seen(environment, name) if admin is None else _commits_asked(admin))
        except KafkaAdminError as error:
            environment.say(f"the groups of {name} cannot be asked: {error}")
            return list(_commits_last_seen(environment, name))
        except LookupError:
            return None

    names = sorted(view.clusters)
    for name, said in zip(names, environment.pool.map(ask, names), strict=True):
        if said is None:
            unasked.append(name)
            continue
        for key, commit in said:
            if key[0] not in wanted:
                continue
            if not commit.live and _moved_away(view, commit):
                left_over.add(f"group {commit.group} in {name}")
            else:
                found.setdefault(key, []).append(commit)
    return Commits({key: tuple(several) for key, several in found.items()}, tuple(unasked), tuple(sorted(left_over)))


def _commits_asked(admin: Admin) -> Iterator[tuple[Partition, Commit]]:
    states = admin.list_groups(timeout_s=COMMITS_S)
    unsaid = [name for name, state in states.items() if not state]
    for name, described in admin.describe_groups(unsaid, timeout_s=COMMITS_S).items() if unsaid else ():
        states[name] = described.state
    committed = admin.group_offsets(sorted(states), stable=False, timeout_s=COMMITS_S)
    for group, offsets in committed.items():
        for key, (offset, _) in offsets.items():
            yield key, Commit(group, admin.cluster.name, offset, states[group] in LIVE)


def _commits_last_seen(environment: Environment, cluster: str) -> Iterator[tuple[Partition, Commit]]:
    """:raises LookupError: nobody ever looked at this cluster."""
    groups = environment.store.known(KnownGroup, cluster)
    if not groups and not environment.store.known(KnownTopic, cluster):
        raise LookupError(cluster)
    for name, group in groups.items():
        for topic, offsets in group.offsets.items():
            for partition, offset in offsets.items():
                yield (topic, partition), Commit(name, cluster, offset, False)


def _moved_away(view: View, commit: Commit) -> bool:
    group = view.groups.get(commit.group)
    return group is not None and group.cluster is not None and group.cluster != commit.cluster


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic, over all clusters."""

    topic: str
    partitions: int
    written_in: tuple[str, ...]
    """Of a topic that was never moved: where it exists."""
    older_in: tuple[str, ...]
    """Other clusters whose records of it readers are still led to."""
    moved: bool
    records: int | None
    """Offsets that readers can be given; None: a cluster that would know does not answer."""
    groups: int
    """That have committed offsets of it."""
    lag_records: int | None
    """Of the group that is furthest behind; None: of one it is not known."""
    furthest: str
    """That group."""


@dataclass(frozen=True, slots=True)
class Overview:
    topics: tuple[TopicRow, ...]
    groups: tuple[GroupLag, ...]
    unasked: Mapping[str, str]
    """Cluster → why it could not be asked."""

    def to_json(self) -> dict[str, Any]:
        return {"topics": [asdict(one) for one in self.topics], "unasked": dict(self.unasked)}


def overview(environment: Environment) -> Overview:
    """All topics of all clusters that answer, and all that have a map. Changes nothing."""
    view = environment.store.load()
    look = look_at_groups(environment, view)
    groups = lags(environment, view, look)
    there = topics_there(environment, look.up, None)
    names = {name for found in there.values() for name, one in found.items() if not one.internal}
    names |= {name for name, topic in view.topics.items() if topic.mapped}
    behind_by = _lag_by_topic(groups)
    rows = tuple(_topic_row(view, there, name, behind_by.get(name, {})) for name in sorted(names))
    away = {name: look.why.get(name, "its topics cannot be asked") for name in view.clusters if name not in there}
    return Overview(rows, tuple(groups), {**look.why, **away})


def _lag_by_topic(groups: Collection[GroupLag]) -> dict[str, dict[str, int | None]]:
    """topic → group → its lag there."""
    found: dict[str, dict[str, int | None]] = {}
    for group in groups:
        for one in group.partitions:
            of = found.setdefault(one.topic, {})
            before = of.get(group.group, 0)
            of[group.group] = None if before is None or one.lag_records is None else before + one.lag_records
    return found


def _topic_row(
    view: View, there: Mapping[str, Mapping[str, TopicDescription]], name: str, groups: Mapping[str, int | None]
) -> TopicRow:
    document = view.topics.get(name)
    mapped = document is not None and document.mapped
    holders = sorted(cluster for cluster, found in there.items() if name in found)
    counts = [there[cluster][name].partitions for cluster in holders]
    count = max([*counts, *((p + 1 for p in document.partitions) if document is not None else ())], default=0)
    home = view.default_cluster or ""
    held = [
        behind(extents_where(view, (name, p), home, holders), 0, partial(held_in, there, (name, p))).lag_records
        for p in range(count)
    ]
    known = [one for one in held if one is not None]
    written = sorted(document.writers) if mapped and document is not None else holders
    extents = [one for some in document.partitions.values() for one in some] if document is not None else []
    older = sorted({one.cluster for one in extents if one.end is not None and not one.ignored} - set(written))
    furthest = max(groups, key=lambda group: -1 if (lag := groups[group]) is None else lag, default="")
    unknown = any(lag is None for lag in groups.values())
    return TopicRow(
        topic=name,
        partitions=count,
        written_in=tuple(written),
        older_in=tuple(older),
        moved=len({one.term for one in extents}) > 1 or any(one.term for one in extents),
        records=sum(known) if len(known) == len(held) else None,
        groups=len(groups),
        lag_records=None if unknown or not groups else groups[furthest],
        furthest=furthest,
    )
