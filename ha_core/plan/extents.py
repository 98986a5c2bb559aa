"""Arithmetic of extents: one client offset space per partition, for ever, wherever the bytes lie.

Extents of a partition are in client order and half-open; the last one is open and belongs to the writer. What lies
between two extents is a hole, as a compacted log has them. Every function leaves `check` without a problem.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ha_core.model import Extent, Topic
from ha_core.model.producer import MAX_TERM


class Place(NamedTuple):
    """Where a client offset lies: `physical` is the offset in `extent.cluster`."""

    extent: Extent
    physical: int


class Hole(NamedTuple):
    """No cluster holds the client offset: readers go on at the start of `extent`, the next one that is readable."""

    extent: Extent


def locate(extents: Sequence[Extent], offset: int) -> Place | Hole:
    """The extent that holds client offset `offset`; ignored extents are holes.

    :raises ValueError: no extents, or a negative offset (the protocol's -1 and -2 are no offsets).
    """
    if offset < 0:
        raise ValueError(f"{offset} is no client offset: offsets start at 0")
    # The newest first: nearly every request is for the writer's extent.
    following = live(extents)
    for extent in reversed(extents):
        if extent.ignored:
            continue
        if offset >= extent.start:
            if extent.end is None or offset < extent.end:
                return Place(extent, extent.base + (offset - extent.start))
            break
        following = extent
    return Hole(following)


def to_client(extent: Extent, physical: int) -> int:
    """The client offset of `physical` in `extent.cluster`; the end itself is allowed, as log ends are exclusive.

    :raises ValueError: `physical` lies outside the extent.
    """
    end = physical_end(extent)
    if physical < extent.base or (end is not None and physical > end):
        raise ValueError(
            f"offset {physical} of cluster {extent.cluster} is outside its extent "
            f"[{extent.base}, {'open' if end is None else end})"
        )
    return extent.start + (physical - extent.base)


def physical_end(extent: Extent) -> int | None:
    """The extent's exclusive end in its own cluster, None while it is open."""
    return None if extent.end is None else extent.base + (extent.end - extent.start)


def live(extents: Sequence[Extent]) -> Extent:
    """The writer's extent: the last one, which is open.

    :raises ValueError: there is none.
    """
    if not extents or extents[-1].end is not None:
        raise ValueError("the partition has no open extent, so it has no writer: its map is damaged")
    return extents[-1]


def written(topic: Topic, partition: int) -> Extent:
    """The extent that a producer's batch goes to first: the open one, or the origin's while the cut lies ahead of it.

    :raises ValueError: the map is damaged.
    """
    extents = extents_of(topic, partition)
    current = live(extents)
    if not topic.crosses(partition):
        return current
    if len(extents) < 2 or extents[-2].cluster == current.cluster:
        raise ValueError(f"topic {topic.name} partition {partition} crosses over from nowhere: its map is damaged")
    return extents[-2]


def writers(topic: Topic) -> frozenset[str]:
    """The clusters that producers of a mapped topic are led to, those of partitions that are added later too."""
    found = {written(topic, partition).cluster for partition in topic.partitions}
    return frozenset(found | ({topic.writer} if topic.writer else set()))


def extents_of(topic: Topic, partition: int) -> tuple[Extent, ...]:
    """The extents of a partition. One that the map does not list was added later: identity in the writer, term 0.

    :raises ValueError: the topic has neither this partition nor a writer.
    """
    listed = topic.partitions.get(partition)
    if listed is not None:
        return listed
    if topic.writer is None:
        raise ValueError(f"topic {topic.name} has no map: partition {partition} is passed through untouched")
    return identity(topic.writer)


def identity(cluster: str) -> tuple[Extent, ...]:
    """The extents of a partition that never left `cluster`."""
    return (Extent(cluster=cluster, start=0, end=None, base=0, term=0),)


def append(
    extents: Sequence[Extent], target: str, at: int, base: int, known_end: int | None = None
) -> tuple[Extent, ...]:
    """Close the writer's extent at client offset `at` and open one in `target`, whose log ends at `base` (physical).

    A stay in which nothing was written leaves no extent, but its term is used up all the same: producer ids of that
    term may be known to its cluster.
    A forced move closes an extent above anything it can hold. When the writer comes back to that cluster, its log end
    says what it did hold, so the older extent is closed there.

    :param known_end: of a forced move, see `Extent.known_end`.
    :raises ValueError: the cut lies below the writer's extent, the target is the writer, or terms are used up.
    """
    current = live(extents)
    if current.cluster == target:
        raise ValueError(f"{target} is the writer already: a cut needs another cluster")
    if at < current.start:
        raise ValueError(f"the cut {at} lies below {current.start}, where the stay in {current.cluster} began")
    if current.term >= MAX_TERM:
        raise ValueError(f"the partition has changed its writer {current.term} times, the most that can be counted")
    closed = current.model_copy(update={"end": at, "known_end": known_end})
    kept = tuple(_within(extent, target, base) for extent in (*extents[:-1], closed))
    opened = Extent(cluster=target, start=at, end=None, base=base, term=current.term + 1)
    return (*_without_empty(kept), opened)


def cut(extents: Sequence[Extent], origin_end: int, target: str, base: int) -> tuple[Extent, ...]:
    """`append` at the writer's log end `origin_end`, as its own cluster counts.

    :raises ValueError: as `append`; and a log end below the writer's extent, which means lost records.
    """
    return append(extents, target, to_client(live(extents), origin_end), base)


def close(extents: Sequence[Extent], cluster: str, true_end: int) -> tuple[Extent, ...]:
    """Lower the end of the newest closed extent of `cluster` to `true_end` (physical), known once it has returned.

    From then on its end is confirmed. The cut itself never changes: what lay between is a hole.

    :raises ValueError: no closed extent there, or `true_end` lies outside it.
    """
    for index in reversed(range(len(extents) - 1)):
        extent = extents[index]
        if extent.cluster == cluster:
            shorter = extent.model_copy(update={"end": to_client(extent, true_end), **_CONFIRMED})
            return _without_empty((*extents[:index], shorter, *extents[index + 1 :]))
    raise ValueError(f"cluster {cluster} has no closed extent in this partition")


def prune(extents: Sequence[Extent], log_starts: Mapping[str, int]) -> tuple[Extent, ...]:
    """Drop closed extents of which nothing is left: their cluster's log start (physical) has passed their end."""
    return tuple(
        extent
        for extent in extents
        if (end := physical_end(extent)) is None or log_starts.get(extent.cluster, extent.base) < end
    )


def check(extents: Sequence[Extent]) -> list[str]:
    """What is wrong with a partition's extents, in words; empty when all is well."""
    problems: list[str] = []
    if not extents:
        return ["there is no extent, so nobody may write"]
    if extents[-1].end is not None:
        problems.append(f"the last extent, in {extents[-1].cluster}, is closed, so nobody may write")
    if extents[-1].ignored:
        problems.append(f"the last extent, in {extents[-1].cluster}, is ignored, but it is written")
    physical: dict[str, Extent] = {}
    for index, extent in enumerate(extents):
        where = f"extent {index} in {extent.cluster}"
        if extent.end is None and index < len(extents) - 1:
            problems.append(f"{where} is open, but it is not the last one: two clusters would be written")
        if extent.end is not None and extent.end <= extent.start:
            problems.append(f"{where} is empty: [{extent.start}, {extent.end})")
        if extent.known_end is not None and (extent.end is None or not extent.start <= extent.known_end <= extent.end):
            problems.append(f"{where} is said to have held offsets up to {extent.known_end}, which lies outside of it")
        if index:
            before = extents[index - 1]
            if extent.start < (before.start + 1 if before.end is None else before.end):
                problems.append(f"{where} starts at {extent.start}, inside the one before")
            if extent.term <= before.term:
                problems.append(f"{where} has term {extent.term}, and the one before it has {before.term}")
        older = physical.get(extent.cluster)
        older_end = None if older is None else physical_end(older)
        if older_end is not None and extent.base < older_end:
            problems.append(f"{where} begins at its offset {extent.base}, and an older one there ends at {older_end}")
        physical[extent.cluster] = extent
    return problems


def _within(extent: Extent, cluster: str, base: int) -> Extent:
    end = physical_end(extent)
    if extent.cluster != cluster or end is None:
        return extent
    held = min(end, max(base, extent.base))
    # A cluster that takes the writer is back: whatever readers had to skip there can be read again.
    return extent.model_copy(update={"end": extent.start + (held - extent.base), "ignored": False, **_CONFIRMED})


_CONFIRMED = {"known_end": None, "found_end": None, "surplus": None}


def _without_empty(extents: Sequence[Extent]) -> tuple[Extent, ...]:
    return tuple(extent for extent in extents if extent.end is None or extent.end > extent.start)
