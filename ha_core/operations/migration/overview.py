"""Every topic on one line: where it is written, where its older records lie, how much it holds, and who is behind."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ha_core.kafka.topics import TopicDescription
from ha_core.model import View
from ha_core.operations.context import Environment
from ha_core.operations.migration.lag import GroupLag, extents_where, held_in, lags, look_at_groups, topics_there
from ha_core.plan.extents import writers
from ha_core.plan.lag import behind


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
    behind_by = _behind(groups)
    rows = tuple(_row(view, there, name, behind_by.get(name, {})) for name in sorted(names))
    away = {name: look.why.get(name, "its topics cannot be asked") for name in view.clusters if name not in there}
    return Overview(rows, tuple(groups), {**look.why, **away})


def _behind(groups: Collection[GroupLag]) -> dict[str, dict[str, int | None]]:
    """topic → group → its lag there."""
    found: dict[str, dict[str, int | None]] = {}
    for group in groups:
        for one in group.partitions:
            of = found.setdefault(one.topic, {})
            before = of.get(group.group, 0)
            of[group.group] = None if before is None or one.lag_records is None else before + one.lag_records
    return found


def _row(
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
    written = sorted(writers(document)) if mapped and document is not None else holders
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
