"""Lag of groups, over all clusters that hold records of a partition: in client offsets, or for direct groups in
physical offsets of the cluster that holds the commit.

A coordinator that does not answer still has its commits, so its groups are never shown as without commits: the last
recorded ones are shown instead, with their age.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

from ha_core.model import Extent, View
from ha_core.model.extent import identity
from ha_core.plan.facts.clusters import GroupFacts, Partition
from ha_core.plan.routing.resolve import at_home


class LogRange(NamedTuple):
    """The readable range of a partition's log in one cluster, in that cluster's own offsets."""

    start: int
    end: int


Logs = Mapping[str, Mapping[str, Mapping[int, LogRange | None]]]
"""Cluster → topic → every partition; None: its leader does not answer. A cluster that does not answer is missing."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Lag of a group on one partition. Offsets are client offsets, or the coordinator's for direct groups."""

    topic: str
    partition: int
    committed: int
    end: int | None
    lag_records: int | None
    next: str
    """Cluster of the next record to read."""
    coordinator: str
    """Cluster that holds the commit."""
    age_s: float | None = None
    """See `GroupFacts`."""
    standby: bool = False
    """A mirror has brought the commit, from a cluster that has it too: it does not count twice."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    group: str
    coordinators: Mapping[str, str]
    """Cluster → the group's state there."""
    partitions: tuple[PartitionLag, ...]
    left_over: tuple[str, ...] = ()
    """Clusters that still hold commits from before it moved away, which no client uses."""
    unasked: Mapping[str, str] = field(default_factory=dict)
    """Cluster → why it did not answer, and whether facts of the group are recorded there."""
    offsets: Literal["client", "physical"] = "client"
    """The kind of its commits; `physical`: it is a direct group."""

    @property
    def lag_records(self) -> int | None:
        """The lag over all partitions; None if one is not known."""
        return total(partition.lag_records for partition in self.partitions if not partition.standby)

    @property
    def age_s(self) -> float | None:
        """Age of the oldest recorded commit; None: all were read just now."""
        return max((partition.age_s for partition in self.partitions if partition.age_s is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "lag_records": self.lag_records, "age_s": self.age_s}


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic, over all clusters."""

    topic: str
    partitions: int
    written_in: tuple[str, ...]
    """Clusters of its writers; for a topic that was never moved, those where it exists."""
    older_in: tuple[str, ...]
    """Other clusters that still serve records of it to readers."""
    moved: bool
    records: int | None
    """Readable offsets; None: a cluster that holds some does not answer."""
    groups: int
    """Groups that have committed offsets of it."""
    lag_records: int | None
    """The highest lag of a group; None if that of any group is not known."""
    furthest: str
    """The group with that lag."""


def group_lag(
    view: View,
    group: str,
    homes: Mapping[str, frozenset[str]],
    seen: Mapping[str, Mapping[str, GroupFacts]],
    unasked: Mapping[str, str],
    logs: Logs,
) -> GroupLag | None:
    """The lag of a group; None: no cluster knows it.

    :param homes: see `group_homes`.
    :param seen: cluster → group → its facts.
    :param unasked: cluster → why its coordinators did not answer.
    """
    states: dict[str, str] = {}
    rows: list[PartitionLag] = []
    left_over: list[str] = []
    direct = view.direct(group) is not None
    for cluster, groups in seen.items():
        here = groups.get(group)
        if here and not here.members and not at_home(homes, group, cluster):
            left_over.append(cluster)
        elif here:
            states[cluster] = here.words
            for key, offset in sorted(here.offsets.items()):
                look = partial(_in_log, key) if direct else partial(_behind, view, key)
                end, lag, following = look(offset, cluster, logs)
                mirror = view.mirrors.get(f"{key[0]}@{cluster}")
                source = None if mirror is None or here.members else seen.get(mirror.source, {}).get(group)
                standby = source is not None and key in source.offsets
                rows.append(PartitionLag(*key, offset, end, lag, following, cluster, here.age_s, standby))
    if not states and not left_over and not homes.get(group, frozenset()) & unasked.keys():
        return None
    no_record = " Nothing was recorded of the group there."
    why = {name: text if group in seen[name] else text + no_record for name, text in unasked.items()}
    return GroupLag(group, states, tuple(rows), tuple(left_over), why, "physical" if direct else "client")


def topic_row(view: View, topic: str, groups: Mapping[str, int | None], logs: Logs) -> TopicRow:
    """:param groups: group → its lag on the topic."""
    document = view.mapped(topic)
    partitions = document.partitions if document is not None else {}
    holders = sorted(cluster for cluster, there in logs.items() if topic in there)
    count = max([*(len(logs[cluster][topic]) for cluster in holders), *(p + 1 for p in partitions)], default=0)
    home = view.default_cluster or ""
    written = sorted(document.writers) if document is not None else holders
    extents = [extent for several in partitions.values() for extent in several]
    older = {extent.cluster for extent in extents if extent.end is not None and not extent.ignored} - set(written)
    furthest = max(groups, key=lambda group: -1 if (lag := groups[group]) is None else lag, default="")
    return TopicRow(
        topic=topic,
        partitions=count,
        written_in=tuple(written),
        older_in=tuple(sorted(older)),
        moved=any(extent.writer_epoch for extent in extents),
        records=total(_behind(view, (topic, p), 0, home, logs).lag_records for p in range(count)),
        groups=len(groups),
        lag_records=groups[furthest] if groups and None not in groups.values() else None,
        furthest=furthest,
    )


def group_lag_by_topic(groups: Collection[GroupLag]) -> dict[str, dict[str, int | None]]:
    """topic → group → its lag there."""
    found: dict[str, dict[str, int | None]] = {}
    for group in groups:
        for row in group.partitions:
            if row.standby:
                continue
            lags = found.setdefault(row.topic, {})
            lags[group.group] = total((lags.get(group.group, 0), row.lag_records))
    return found


def total(counts: Iterable[int | None]) -> int | None:
    """The sum; None if a count is not known."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _behind(view: View, key: Partition, committed: int, home: str, logs: Logs) -> GroupPosition:
    """:param home: assumed cluster of a topic without a map, since the reader's bindings are not known."""
    topic, number = key
    if (document := view.mapped(topic)) is not None:
        extents = document.extents(number)
    else:
        holders = [cluster for cluster, there in logs.items() if topic in there]
        extents = identity(home if home in holders or not holders else min(holders))

    def held(cluster: str) -> LogRange | None:
        if cluster not in logs:
            return None
        there = logs[cluster].get(topic)
        return LogRange(0, 0) if there is None else there.get(number)

    return group_position(extents, committed, held)


def _in_log(key: Partition, committed: int, cluster: str, logs: Logs) -> GroupPosition:
    """The position of a direct group, in physical offsets of the cluster that it reads."""
    topic, number = key
    there = logs.get(cluster, {}).get(topic)
    held = LogRange(0, 0) if there is None and cluster in logs else (there or {}).get(number)
    if held is None:
        return GroupPosition(None, None, cluster)
    return GroupPosition(held.end, max(0, held.end - max(committed, held.start)), cluster)


class GroupPosition(NamedTuple):
    """Position of a group in a partition, in the kind of its offsets."""

    end: int | None
    """End of the records; None: the cluster that holds it does not answer."""
    lag_records: int | None
    """Offsets from the committed one to the end, without holes. None: a cluster with some of them does not answer."""
    next: str
    """The cluster that holds the next record to read, or will get it."""


def group_position(extents: Sequence[Extent], committed: int, log: Callable[[str], LogRange | None]) -> GroupPosition:
    """Where a group with commit `committed` continues, and its lag.

    :param extents: all of one partition; the last one is open.
    :param log: cluster → the partition's log there; None: it does not answer.
    """
    end: int | None = None
    lag: int | None = 0
    following = ""
    full = True  # the extent before ends at its cut; while a cut lies ahead, records end in the last but one extent
    for extent in extents:
        if extent.ignored:
            continue
        held = log(extent.cluster)
        wanted = extent.end is None or committed < extent.end
        if held is None:
            end, full = extent.end, True
            if wanted:
                lag, following = None, following or extent.cluster
            continue
        first, last = extent.clip(held.start), extent.clip(held.end)
        left = max(0, last - max(committed, first))
        if full:
            end = last
        full = extent.end is None or last >= extent.end or extent.known_end is not None
        if not following and (left or extent.end is None or (wanted and not full)):
            following = extent.cluster
        if lag is not None:
            lag += left
    return GroupPosition(end, lag if end is not None else None, following)
