"""How far behind groups are, in client offsets, over all the clusters that hold the records of a partition.

A coordinator that is away has not forgotten anything, so nobody may read here that a group has committed nothing: what
was last seen of it is shown instead, with its age.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from ha_core.model import Extent, View
from ha_core.model.extent import identity
from ha_core.plan.facts.clusters import GroupFacts, Partition
from ha_core.plan.routing.resolve import at_home


class LogRange(NamedTuple):
    """A partition's log in one cluster, in that cluster's own offsets: what readers can be given."""

    start: int
    end: int


Logs = Mapping[str, Mapping[str, Mapping[int, LogRange | None]]]
"""Cluster → topic → every partition; None: its leader does not answer. A cluster that does not answer is missing."""


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
    """As of `GroupFacts`."""


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
        """The lag over all partitions; None if one is not known."""
        return total(one.lag_records for one in self.partitions)

    @property
    def age_s(self) -> float | None:
        """The age of the oldest commit that was not said just now."""
        return max((one.age_s for one in self.partitions if one.age_s is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "lag_records": self.lag_records, "age_s": self.age_s}


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic, over all clusters."""

    topic: str
    partitions: int
    written_in: tuple[str, ...]
    """For a topic that was never moved: where it exists."""
    older_in: tuple[str, ...]
    """Other clusters whose records of it readers are still led to."""
    moved: bool
    records: int | None
    """Offsets that readers can be given; None: a cluster that would know does not answer."""
    groups: int
    """That have committed offsets of it."""
    lag_records: int | None
    """The lag of the group that is furthest behind; None if that of any group is not known."""
    furthest: str
    """That group."""


def group_lag(
    view: View,
    group: str,
    homes: Mapping[str, frozenset[str]],
    seen: Mapping[str, Mapping[str, GroupFacts]],
    unasked: Mapping[str, str],
    logs: Logs,
) -> GroupLag | None:
    """The lag of a group; None: no cluster knows it.

    :param homes: as of `group_homes`.
    :param seen: cluster → group.
    :param unasked: cluster → why its coordinators could not be asked.
    """
    states: dict[str, str] = {}
    rows: list[PartitionLag] = []
    left_over: list[str] = []
    for cluster, groups in seen.items():
        here = groups.get(group)
        if here and not here.members and not at_home(homes, group, cluster):
            left_over.append(cluster)
        elif here:
            states[cluster] = here.words
            for key, offset in sorted(here.offsets.items()):
                end, lag, following = _behind(view, key, offset, cluster, logs)
                rows.append(PartitionLag(*key, offset, end, lag, following, cluster, here.age_s))
    if not states and not left_over and not homes.get(group, frozenset()) & unasked.keys():
        return None
    no_record = " Nothing was recorded of the group there."
    why = {name: text if group in seen[name] else text + no_record for name, text in unasked.items()}
    return GroupLag(group, states, tuple(rows), tuple(left_over), why)


def topic_row(view: View, topic: str, groups: Mapping[str, int | None], logs: Logs) -> TopicRow:
    """:param groups: group → its lag on the topic."""
    document = view.mapped(topic)
    partitions = document.partitions if document is not None else {}
    holders = sorted(cluster for cluster, there in logs.items() if topic in there)
    count = max([*(len(logs[cluster][topic]) for cluster in holders), *(p + 1 for p in partitions)], default=0)
    home = view.default_cluster or ""
    written = sorted(document.writers) if document is not None else holders
    extents = [extent for several in partitions.values() for extent in several]
    older = {one.cluster for one in extents if one.end is not None and not one.ignored} - set(written)
    furthest = max(groups, key=lambda group: -1 if (lag := groups[group]) is None else lag, default="")
    return TopicRow(
        topic=topic,
        partitions=count,
        written_in=tuple(written),
        older_in=tuple(sorted(older)),
        moved=any(one.term for one in extents),
        records=total(_behind(view, (topic, p), 0, home, logs).lag_records for p in range(count)),
        groups=len(groups),
        lag_records=groups[furthest] if groups and None not in groups.values() else None,
        furthest=furthest,
    )


def by_topic(groups: Collection[GroupLag]) -> dict[str, dict[str, int | None]]:
    """topic → group → its lag there."""
    found: dict[str, dict[str, int | None]] = {}
    for group in groups:
        for row in group.partitions:
            lags = found.setdefault(row.topic, {})
            lags[group.group] = total((lags.get(group.group, 0), row.lag_records))
    return found


def total(counts: Iterable[int | None]) -> int | None:
    """Their sum; None where one is not known."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _behind(view: View, key: Partition, committed: int, home: str, logs: Logs) -> GroupPosition:
    """:param home: where a topic without a map is, as far as that can be said without knowing who asks."""
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

    return behind(extents, committed, held)


class GroupPosition(NamedTuple):
    """Client offsets."""

    end: int | None
    """Where the records end; None: the cluster that would know does not answer."""
    lag_records: int | None
    """Offsets from the committed one to the end, without what no cluster holds. None: as above."""
    next: str
    """The cluster that holds the record to be read next, or gets it where there is none yet."""


def behind(extents: Sequence[Extent], committed: int, log: Callable[[str], LogRange | None]) -> GroupPosition:
    """Where a group that has committed `committed` goes on, and how much there is to read.

    :param extents: of one partition; the last one is open.
    :param log: cluster → the partition there; None: it does not answer.
    """
    end: int | None = None
    lag: int | None = 0
    following = ""
    full = True  # Of what lies before: while a cut lies ahead, the records end in the extent before the last.
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
