"""Giving up a cluster that never comes back: the records lost with it, and the maps without it.

Only an operator can decide that a cluster is gone for good. There is no undo: the maps no longer know where its records
were. So the loss is counted before, as exactly as it is known.

Invariant: giving up removes closed extents of the named cluster from the maps, names it in them (`Topic.given_up`, so
that gateways abort transactions that were open there), and changes nothing else. The writer stays, no cut moves, no
record of another cluster changes its place, and used writer epochs stay used. So no client offset ever gets a second
record, even if the cluster returns and is written again. Interrupted after any topic and repeated, it ends with the
same maps.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from ha_core.model import Extent, Topic
from ha_core.model.extent import Hole, locate, open_extent
from ha_core.plan.migration.aging import CommittedOffset


class Loss(NamedTuple):
    """An extent that is given up. Offsets are client offsets, ends are exclusive."""

    topic: str
    partition: int
    cluster: str
    writer_epoch: int
    start: int
    end: int
    """Exact, or above every offset that the cluster can have held: see `known_end`."""
    known_end: int | None
    """The cluster was dead at the cut, and is known to have assigned offsets up to here. None: `end` is exact."""
    skipped: bool
    """Readers skip it already."""
    next: int
    """Offset at which its readers continue."""

    @property
    def known(self) -> int:
        """Offsets known to be lost. Retention or compaction may have deleted some of their records before."""
        return (self.end if self.known_end is None else self.known_end) - self.start

    @property
    def most_lost(self) -> int:
        """Upper bound of lost offsets, including those from `known_end` to the cut, which may never have existed."""
        return self.end - self.start

    def to_json(self) -> dict[str, Any]:
        """Its fields; the writer epoch is `term`, as in an extent."""
        return {"term" if name == "writer_epoch" else name: value for name, value in self._asdict().items()}


class UnreadGroup(NamedTuple):
    """A group that has not read all that is given up. Offsets are client offsets."""

    topic: str
    partition: int
    group: str
    cluster: str
    """Cluster of the coordinator that holds the commit."""
    offset: int
    """The committed offset."""
    live: bool
    """The group has members."""
    next: int
    """Offset at which it continues: `offset` itself, if another cluster holds that."""
    known: int
    """Offsets from its commit on that are known to be lost."""
    most_lost: int
    """See `Loss.most_lost`."""

    def to_json(self) -> dict[str, Any]:
        """Its fields; the upper bound is `most`, a field name that programs know."""
        return {"most" if name == "most_lost" else name: value for name, value in self._asdict().items()}


def losses(topic: Topic, cluster: str, only: Collection[int] = ()) -> Iterator[Loss]:
    """Every extent of `cluster` in the map.

    :param only: these partitions; empty: all.
    :raises ValueError: the cluster is the writer of one of them.
    """
    left = without(topic, cluster, only).partitions
    for partition, extent in topic.all_extents():
        if extent.cluster == cluster and (not only or partition in only):
            assert extent.end is not None
            what = (extent.writer_epoch, extent.start, extent.end, extent.known_end, extent.ignored)
            yield Loss(topic.name, partition, cluster, *what, _next(left[partition], extent.start))


def without(topic: Topic, cluster: str, only: Collection[int] = ()) -> Topic:
    """The topic without the extents of `cluster`.

    :param only: these partitions; empty: all.
    :raises ValueError: the cluster is the writer of one of them; without `only`, also of partitions added later.
    """
    if still_written(topic, cluster, only):
        raise ValueError(f"{cluster} is the writer of {topic.name}: it has to move away first")
    partitions = {
        partition: tuple(extent for extent in extents if extent.cluster != cluster)
        if not only or partition in only
        else extents
        for partition, extents in topic.partitions.items()
    }
    if partitions == topic.partitions:
        return topic
    return topic.changed(partitions=partitions, given_up=tuple(sorted({*(topic.given_up or ()), cluster})))


def still_written(topic: Topic, cluster: str, only: Collection[int] = ()) -> bool:
    """Whether the cluster is the writer of a partition of `only`; without `only`, of any, also if it is added later."""
    if only:
        return any(open_extent(topic.extents(partition)).cluster == cluster for partition in only)
    return topic.writer == cluster or any(
        open_extent(extents).cluster == cluster for extents in topic.partitions.values()
    )


def unread(
    topic: Topic, cluster: str, commits: Mapping[int, Iterable[CommittedOffset]], only: Collection[int] = ()
) -> Iterator[UnreadGroup]:
    """Groups that would have read a part of what is given up, by partition and name.

    :param commits: partition → committed offsets, of all clusters.
    :raises ValueError: as of `losses`.
    """
    left = without(topic, cluster, only).partitions
    waited_for = (loss for loss in losses(topic, cluster, only) if not loss.skipped)
    for partition, some in groupby(waited_for, attrgetter("partition")):
        here = list(some)
        for commit in sorted(commits.get(partition, ())):
            most_lost = sum(max(0, loss.end - max(loss.start, commit.offset)) for loss in here)
            if most_lost:
                known = sum(max(0, loss.start + loss.known - max(loss.start, commit.offset)) for loss in here)
                # The fields of a commit come in this order.
                continues_at = _next(left[partition], commit.offset)
                yield UnreadGroup(topic.name, partition, *commit, continues_at, known, most_lost)


def _next(extents: Iterable[Extent], offset: int) -> int:
    found = locate(tuple(extents), offset)
    return found.extent.start if isinstance(found, Hole) else offset
