"""What is lost with a cluster that never comes back, and the maps without it.

Only an operator can say that a cluster is gone for good. It cannot be taken back: the maps then no longer know where
its records were. So what it costs is counted before, as exactly as it is known.

Invariant: giving up takes closed extents of the named cluster out of the maps, names it in them (`Topic.given_up`, so
that gateways abort transactions that were open there), and changes nothing else. The writer
stays, no cut moves, no record of another cluster changes its place, a term that was used up stays used up, and so no
client offset ever comes to mean a second record, not even when the cluster returns and is written again. Broken off
after any topic and begun again, it comes to the same maps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from ha_core.model import Extent, Topic
from ha_core.model.extent import Hole, live, locate
from ha_core.plan.migration.aging import CommittedOffset


class Loss(NamedTuple):
    """An extent that is given up. Offsets are client offsets, ends are exclusive."""

    topic: str
    partition: int
    cluster: str
    term: int
    start: int
    end: int
    """True, or above anything that the cluster can have held: see `known_end`."""
    known_end: int | None
    """The cluster was dead at the cut: up to here it was known to have given offsets out. None: `end` is true."""
    skipped: bool
    """Readers skip it already."""
    next: int
    """Where a reader of it goes on."""

    @property
    def known(self) -> int:
        """Offsets that are known to be lost. Retention or compaction may have taken some of their records before."""
        return (self.end if self.known_end is None else self.known_end) - self.start

    @property
    def most(self) -> int:
        """Offsets that can be lost at most: what lies between `known_end` and the cut nobody has ever seen."""
        return self.end - self.start


class UnreadGroup(NamedTuple):
    """A group that has not read all of what is given up. Offsets are client offsets."""

    topic: str
    partition: int
    group: str
    cluster: str
    """Whose coordinator holds the commit."""
    offset: int
    """Committed."""
    live: bool
    """The group has members."""
    next: int
    """Where it goes on: `offset` itself, where that lies in another cluster."""
    known: int
    """Offsets after its commit that are known to be lost."""
    most: int
    """See `Loss.most`."""


def losses(topic: Topic, cluster: str, only: Collection[int] = ()) -> Iterator[Loss]:
    """Every extent of `cluster` in the map.

    :param only: these partitions; empty: all.
    :raises ValueError: the cluster is the writer of one of them.
    """
    left = without(topic, cluster, only).partitions
    for partition, extent in topic.stays():
        if extent.cluster == cluster and (not only or partition in only):
            assert extent.end is not None
            what = (extent.term, extent.start, extent.end, extent.known_end, extent.ignored)
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
        return any(live(topic.extents(partition)).cluster == cluster for partition in only)
    return topic.writer == cluster or any(live(extents).cluster == cluster for extents in topic.partitions.values())


def unread(
    topic: Topic, cluster: str, commits: Mapping[int, Iterable[CommittedOffset]], only: Collection[int] = ()
) -> Iterator[UnreadGroup]:
    """Groups that would have got something of what is given up, by partition and name.

    :param commits: partition → committed offsets, of all clusters.
    :raises ValueError: as of `losses`.
    """
    left = without(topic, cluster, only).partitions
    waited_for = (loss for loss in losses(topic, cluster, only) if not loss.skipped)
    for partition, some in groupby(waited_for, attrgetter("partition")):
        here = list(some)
        for commit in sorted(commits.get(partition, ())):
            most = sum(max(0, loss.end - max(loss.start, commit.offset)) for loss in here)
            if most:
                known = sum(max(0, loss.start + loss.known - max(loss.start, commit.offset)) for loss in here)
                # A commit's fields are in the order of these.
                yield UnreadGroup(topic.name, partition, *commit, _next(left[partition], commit.offset), known, most)


def _next(extents: Iterable[Extent], offset: int) -> int:
    found = locate(tuple(extents), offset)
    return found.extent.start if isinstance(found, Hole) else offset
