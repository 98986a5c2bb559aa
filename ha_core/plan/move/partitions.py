"""The partitions of a topic that a move takes: the named ones, else all whose writer is the origin."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ha_core.model import Extent, LostTail, MoveRequest, Topic
from ha_core.model.evidence import Cut
from ha_core.model.extent import Extents, identity, open_extent
from ha_core.plan.facts.clusters import Partition


def moving(request: MoveRequest, topic: Topic, partitions: Collection[int]) -> tuple[int, ...]:
    """The part of `partitions`, all of the topic, that the request moves; named ones even if they have left the origin.

    A topic requested as a whole may be in several clusters, because single partitions were moved before.
    """
    named = request.scope.partitions.get(topic.name)
    if named is not None:
        return tuple(sorted(named))
    if not topic.mapped:
        return tuple(sorted(partitions))
    return tuple(p for p in sorted(partitions) if topic.written(p).cluster == request.origin)


def of_all(request: MoveRequest, topics: Mapping[str, Topic], keys: Collection[Partition]) -> tuple[Partition, ...]:
    """`moving` for several topics with all their partitions, `keys`. Topics without a document have no map."""
    partitions: dict[str, set[int]] = {}
    for name, partition in keys:
        partitions.setdefault(name, set()).add(partition)
    return tuple(
        (name, partition)
        for name, found in partitions.items()
        for partition in moving(request, topics.get(name) or Topic(name=name), found)
        if partition in found
    )


def extents_of(request: MoveRequest, topic: Topic, partition: int) -> Extents:
    """The extents of a partition, even if the topic has no map yet."""
    return topic.extents(partition) if topic.mapped else identity(request.origin)


def places(request: MoveRequest, topic: Topic) -> frozenset[str]:
    """The clusters that are or will be writers of the moving part of a mapped topic."""
    return _clusters(request, topic, lambda partition: open_extent(topic.extents(partition)))


def written_in(request: MoveRequest, topic: Topic) -> frozenset[str]:
    """The clusters to which producers of the moving part of a mapped topic are routed now."""
    return _clusters(request, topic, topic.written)


def _clusters(request: MoveRequest, topic: Topic, extent: Callable[[int], Extent]) -> frozenset[str]:
    """Clusters of the named partitions; else of all, including those added later."""
    named = request.scope.partitions.get(topic.name)
    clusters = {extent(partition).cluster for partition in named or topic.partitions}
    if named is None and topic.writer is not None:
        clusters.add(topic.writer)
    return frozenset(clusters)


def left_in(request: MoveRequest, topic: str, tails: Iterable[LostTail]) -> LostTail | None:
    """The topic's newest lost tail in the target of a forced move, from when it went from there to a copy in the
    origin: the target's log is this topic's own. Only a whole topic returns to it."""
    if request.mode != "forced" or topic in request.scope.partitions:
        return None
    lost_tails = [
        lost_tail
        for lost_tail in tails
        if (lost_tail.topic, lost_tail.cluster, lost_tail.target) == (topic, request.target, request.origin)
    ]
    return max(lost_tails, key=lambda tail: tail.since, default=None)


def cuts_of(partitions: Mapping[int, Sequence[Extent]], crossed: Iterable[int]) -> tuple[Cut, ...]:
    """The cuts of `crossed`, from the topic's map `partitions` after them."""
    opened = ((partition, open_extent(partitions[partition])) for partition in crossed)
    return tuple(Cut(partition, after.start, after.base, after.writer_epoch) for partition, after in opened)


def holes_of(partitions: Mapping[int, Sequence[Extent]], cut: Iterable[int]) -> dict[int, int]:
    """Partition → offsets between the last known end and the forced cut; partitions without such offsets are left
    out."""
    found = dict[int, int]()
    for partition in cut:
        *below, opened = partitions[partition]
        ends = (one.end if one.known_end is None else one.known_end for one in below)
        if hole := opened.start - max((end or 0 for end in ends), default=0):
            found[partition] = hole
    return found


def writer_after(request: MoveRequest, topic: Topic, partitions: Mapping[int, Sequence[Extent]]) -> str:
    """The topic's `writer` with the map `partitions`: it changes when the last partition has left it."""
    before = topic.writer or request.origin
    stays = any(open_extent(extents).cluster == before for extents in partitions.values())
    return before if stays else request.target
