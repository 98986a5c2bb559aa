"""The lag of a group: what it has committed, where that lies, and how much there is to read, over all clusters."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Extent, View
from ha_core.moves.context import Environment
from ha_core.moves.errors import RefusedError
from ha_core.moves.sides import PROBE_S
from ha_core.plan.extents import extents_of, identity
from ha_core.plan.lag import Held, behind

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


@dataclass(frozen=True, slots=True)
class GroupLag:
    group: str
    coordinators: Mapping[str, str]
    """Cluster → the group's state there."""
    partitions: tuple[PartitionLag, ...]
    left_over: tuple[str, ...] = ()
    """Clusters that still hold commits of it from before it moved away; nobody reads them."""
    unasked: tuple[str, ...] = ()

    @property
    def lag_records(self) -> int | None:
        """Of all partitions; None where one is not known."""
        known = [one.lag_records for one in self.partitions if one.lag_records is not None]
        return sum(known) if len(known) == len(self.partitions) else None

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "lag_records": self.lag_records}


def group_lag(environment: Environment, group: str) -> GroupLag:
    """:raises RefusedError: no cluster that answers knows the group."""
    view = environment.store.load()
    up = _up(environment, view)
    document = view.groups.get(group)
    home = document.cluster if document is not None else None
    committed: dict[str, dict[tuple[str, int], int]] = {}
    states: dict[str, str] = {}
    left_over: list[str] = []
    for name, admin in up.items():
        described = admin.describe_groups([group], timeout_s=LOOK_S)[group]
        found = admin.group_offsets([group], stable=False, timeout_s=LOOK_S).get(group, {})
        if not found and not described.members:
            continue
        if home not in {None, name} and not described.members:
            left_over.append(name)
            continue
        committed[name] = {key: offset for key, (offset, _) in found.items()}
        states[name] = f"{described.state}, {len(described.members)} members"
    unasked = tuple(sorted(view.clusters.keys() - up.keys()))
    if not states and not left_over:
        away = f" ({', '.join(unasked)} cannot be asked)" if unasked else ""
        raise RefusedError(f"No cluster knows group {group}{away}. Check the name.")
    topics = {topic for some in committed.values() for topic, _ in some}
    there = {name: admin.topics(topics, timeout_s=LOOK_S) if topics else {} for name, admin in up.items()}
    rows = tuple(_rows(view, committed, there))
    return GroupLag(group, states, rows, tuple(left_over), unasked)


def _up(environment: Environment, view: View) -> dict[str, Admin]:
    def connect(name: str) -> Admin | None:
        try:
            admin = environment.admin(view.clusters[name])
            return admin if admin.probe(timeout_s=PROBE_S).reachable else None
        except (KafkaAdminError, RefusedError):
            return None

    names = sorted(view.clusters)
    found = zip(names, environment.pool.map(connect, names), strict=True)
    return {name: admin for name, admin in found if admin is not None}


def _rows(
    view: View,
    committed: Mapping[str, Mapping[tuple[str, int], int]],
    there: Mapping[str, Mapping[str, TopicDescription]],
) -> Iterator[PartitionLag]:
    for coordinator, offsets in committed.items():
        for (topic, partition), offset in sorted(offsets.items()):

            def log(cluster: str, topic: str = topic, partition: int = partition) -> Held | None:
                if cluster not in there:
                    return None
                described = there[cluster].get(topic)
                ends = described.ends.get(partition) if described is not None else None
                return Held(ends.start, ends.high_watermark) if ends is not None else Held(0, 0)

            holders = [name for name, found in there.items() if topic in found]
            extents = _extents(view, topic, partition, coordinator, holders)
            found = behind(extents, offset, log)
            yield PartitionLag(topic, partition, offset, found.end, found.lag_records, found.next, coordinator)


def _extents(view: View, topic: str, partition: int, coordinator: str, holders: Collection[str]) -> tuple[Extent, ...]:
    """A topic without a map is where it is, as far as that can be said without knowing who asks."""
    document = view.topics.get(topic)
    if document is not None and document.mapped:
        return extents_of(document, partition)
    return identity(coordinator if coordinator in holders or not holders else min(holders))
