"""Mirrors compared with their sources by this process, partition after partition."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.verifying import Coverage, PartitionRanges, compare, plan
from ha_core.mirror.progress import CopyDamagedError
from ha_core.mirror.side_by_side import Compared
from ha_core.model import Cluster, Mirror
from ha_core.operations.environment import Environment
from ha_core.operations.errors import RefusedError
from ha_core.plan.mirrored import NoSuchMirrorError, named


@dataclass(frozen=True, slots=True)
class PartitionCompared:
    """What came of a partition."""

    mirror: Mirror
    plan: PartitionRanges
    found: Compared

    def to_json(self) -> dict[str, Any]:
        first = self.found.first
        return {
            "topic": self.plan.topic,
            "partition": self.plan.partition,
            "from": self.mirror.source,
            "to": self.mirror.target,
            "compared": self.found.compared,
            "first_difference": first and first.offset,
            "difference": first and first.what,
            "gone_in_source": self.found.gone_in_source,
            "gone_in_copy": self.found.gone_in_copy,
            "behind": self.plan.behind,
            "ranges": len(self.plan.ranges),
            "of_ranges": self.plan.of,
        }


@dataclass(frozen=True, slots=True)
class MirrorsCompared:
    extent: Coverage
    partitions: tuple[PartitionCompared, ...]

    @property
    def equal(self) -> bool:
        return all(one.found.first is None for one in self.partitions)

    @property
    def sampled(self) -> bool:
        return self.extent.share < 1

    def to_json(self) -> dict[str, Any]:
        sample = {"share": self.extent.share, "seed": self.extent.seed} if self.sampled else None
        return {"equal": self.equal, "sample": sample, "partitions": [one.to_json() for one in self.partitions]}


def compare_mirrors(
    environment: Environment, topics: Collection[str], target: str, share: float, seed: int
) -> MirrorsCompared:
    """Compare the mirrors of `topics`, see `ha_core.plan.mirrored`. Changes nothing.

    :param share: of the ranges of each topic, chosen by the seed; 1: all.
    :raises RefusedError: a topic has no mirror, or several and none is named.
    :raises KafkaAdminError: one of the clusters cannot be asked.
    """
    extent = Coverage(share, seed)
    view = environment.store.load()
    try:
        mirrors = named(view.mirrors.values(), topics, target)
    except NoSuchMirrorError as error:
        raise RefusedError(str(error)) from error
    found: list[PartitionCompared] = []
    for mirror in mirrors:
        for side in (mirror.source, mirror.target):
            if side not in view.clusters:
                raise RefusedError(f"Cluster {side} of the mirror {mirror.key} is not registered. Add it.")
        found += _compare(environment, mirror, view.clusters[mirror.source], view.clusters[mirror.target], extent)
    return MirrorsCompared(extent, tuple(found))


def _compare(
    environment: Environment, mirror: Mirror, source: Cluster, target: Cluster, extent: Coverage
) -> list[PartitionCompared]:
    theirs, ours = environment.admin(source), environment.admin(target)
    try:
        plans = plan(theirs, ours, mirror, extent)
    except CopyDamagedError as error:
        raise KafkaAdminError(mirror.target, str(error)) from error
    found = []
    for one in plans:
        environment.progress(f"{mirror.topic}-{one.partition}: {len(one.ranges)} of {one.of} ranges")
        total = Compared(gone_in_source=one.gone_in_source)
        for span in one.ranges:
            total = _sum(total, compare(theirs, ours, (one.topic, one.partition), span, one.compacted))
            if total.first is not None:
                break
        first = min(filter(None, (total.first, one.damage)), default=None)
        found.append(PartitionCompared(mirror, one, total._replace(first=first)))
    return found


def _sum(one: Compared, other: Compared) -> Compared:
    return Compared(
        one.compared + other.compared,
        one.gone_in_source + other.gone_in_source,
        one.gone_in_copy + other.gone_in_copy,
        one.read + other.read,
        one.first or other.first,
    )
