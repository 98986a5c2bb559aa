"""Copies of mirrored topics that a move uses: the move holds them, then readers use them in place of the origin; and
the records that they lack.

From the hold on only the operation takes the copies over: the job drops them. A stalled copier that still fences one,
from a stale assignment, checks its assignment again before it appends. So the result of a takeover after the hold is
true until the cut, which ends the mirror in the same revision.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from ha_core.model import Extent, LostTail, Mirror, MoveOperation, Run, Tail, View
from ha_core.model.extent import Extents, open_extent
from ha_core.model.mirror import begins_at, copied_between
from ha_core.plan.engine.revision import Documents, MoveDamagedError, entering, require_sound, require_state
from ha_core.plan.facts.clusters import CopyFacts, Partition, PartitionEnds, ProducerFacts, Producers
from ha_core.plan.mirror.standby import switched

MAX_EXTENTS_BELOW = 2_000
"""Extents of the lost cluster kept with the tails of a topic, over all its partitions."""
MAX_EXTENTS_AT_ONCE = 30_000
"""Extents over all copies of a move that fit in a revision with its other documents."""


def to_hold(operation: MoveOperation, mirrors: Iterable[Mirror]) -> tuple[str, ...]:
    """Topics that move to their copies."""
    request, moving = operation.request, set(operation.moves.topics)
    route = request.origin, request.target
    return tuple(
        sorted(mirror.topic for mirror in mirrors if mirror.topic in moving and (mirror.source, mirror.target) == route)
    )


def also_mirrored(
    operation: MoveOperation, topics: Collection[str], mirrors: Iterable[Mirror]
) -> dict[str, tuple[Mirror, ...]]:
    """Topic → its further mirrors from the origin, whose records end at the cut. Those from other clusters stay as they
    are."""
    request, others = operation.request, dict[str, tuple[Mirror, ...]]()
    for mirror in sorted(mirrors, key=lambda mirror: mirror.key):
        if mirror.topic in topics and mirror.source == request.origin and mirror.target != request.target:
            others[mirror.topic] = (*others.get(mirror.topic, ()), mirror)
    return others


def hold_change(operation: MoveOperation, view: View) -> Documents:
    """Hold the copies of the operation's mirrored topics.

    :raises MoveDamagedError: a mirror is gone, or another operation holds its copy.
    """
    require_state(operation, "planned", "running", "fenced")
    held = [_mirror(operation, view, name).changed(held=operation.id) for name in operation.evidence.mirrored]
    return Documents((*held, entering(operation, "fenced" if operation.state == "fenced" else "running")))


def let_go(operation: MoveOperation, view: View) -> Iterable[Mirror]:
    """The mirrors that the operation holds, without the hold: the job copies them again."""
    return (mirror.changed(held=None) for mirror in view.mirrors.values() if mirror.held == operation.id)


def held(operation: MoveOperation, view: View, topic: str) -> Mirror:
    """:raises MoveDamagedError: the operation does not hold it."""
    mirror = _mirror(operation, view, topic)
    if mirror.held is None:
        raise MoveDamagedError(f"the copy of topic {topic} is not held any more by operation {operation.id}")
    return mirror


def _mirror(operation: MoveOperation, view: View, topic: str) -> Mirror:
    target = operation.request.target
    mirror = view.mirrors.get(f"{topic}@{target}")
    if mirror is None:
        raise MoveDamagedError(f"the mirror of topic {topic} in {target} is gone: start the move again")
    if mirror.held not in {None, operation.id}:
        raise MoveDamagedError(f"the copy of topic {topic} is held by operation {mirror.held}: end that one first")
    return mirror


def to_copy(
    operation: MoveOperation,
    where: str,
    before: Extents,
    at: int,
    ends: PartitionEnds,
    copy: CopyFacts | None,
    max_extents: int,
) -> Extents:
    """The map of a partition that goes to its copy, whose cluster becomes the writer. Readers use the origin only for
    extents beyond `max_extents`; if it is dead, for none.

    :param at: client offset of the cut.
    :param max_extents: maximum number of the copy's extents in the map.
    :raises MoveDamagedError: the copy's records are not known, or the map would be wrong.
    """
    if copy is None:
        raise MoveDamagedError(f"{where}: the records of its copy in {operation.request.target} are not known")
    try:
        after = switched(
            before,
            *operation.route,
            copy.runs,
            at,
            ends.target,
            max_extents,
            whole=copy.whole,
            source_start=ends.origin_start,
            copy_start=ends.target_start,
            deleted_below=ends.deleted_below,
        )
    except ValueError as error:
        raise MoveDamagedError(f"{where}: {error}") from error
    return require_sound(where, after)


def unturned(operation: MoveOperation, view: View) -> dict[str, Mirror]:
    """Topic → the mirror that ended at its cut, for topics without a reversal yet."""
    origin = operation.request.origin
    ended = sorted(operation.evidence.ended.items())
    return {name: mirror for name, mirror in ended if f"{name}@{origin}" not in view.mirrors}


def to_repoint(operation: MoveOperation, view: View) -> list[Mirror]:
    """Further mirrors that the cut has ended, and that neither go on from the target nor are kept out."""
    evidence = operation.evidence
    return [one for one in evidence.further if one.key not in view.mirrors and one.key not in evidence.kept_out]


def copied_producers(topic: str, copies: Mapping[int, CopyFacts]) -> Producers:
    """Producers of the copies, in place of those that the origin's leaders would report."""
    return {
        (topic, partition): tuple(
            ProducerFacts(producer, epoch, last, written) for written, (producer, (epoch, last)) in enumerate(known)
        )
        for partition, known in ((partition, copy.producers.items()) for partition, copy in copies.items())
    }


def lost_tail(
    operation: MoveOperation, mirror: Mirror, before: Mapping[int, Extents], copies: Mapping[int, CopyFacts]
) -> LostTail:
    """The records that the origin may have beyond its copy: never read, and counted when the origin is back.

    :param before: the partitions' maps below the cut.
    """
    origin = operation.request.origin
    max_extents = max(1, MAX_EXTENTS_BELOW // max(len(copies), 1))
    tails = {
        partition: _tail(before[partition], origin, copy.mirrored, max_extents)
        for partition, copy in sorted(copies.items())
    }
    return tail_of(operation, mirror, operation.started, tails)


def tail_of(operation: MoveOperation, mirror: Mirror, since: str, partitions: Mapping[int, Tail]) -> LostTail:
    """The lost tail in the source of a mirror that the operation has ended."""
    return LostTail(
        key=LostTail.key_of(mirror.topic, mirror.source, operation.id),
        topic=mirror.topic,
        cluster=mirror.source,
        target=mirror.target,
        operation=operation.id,
        since=since,
        link=mirror.link,
        log=mirror.log,
        log_partitions=mirror.log_partitions,
        **mirror.policy,
        partitions=dict(partitions),
    )


def _tail(before: Extents, origin: str, mirrored: int, max_extents: int) -> Tail:
    client = client_offset(before, origin, mirrored)
    own = [extent for extent in before if extent.cluster == origin and extent.start < client]
    below = [
        extent if extent.end is not None and extent.end <= client else extent.changed(end=client)
        for extent in own[-max_extents:]
    ]
    return Tail(mirrored=mirrored, client=client, below=tuple(below))


def client_offset(extents: Sequence[Extent], cluster: str, physical: int) -> int:
    """The client offset of `physical`, or of the next one that an extent of `cluster` holds.

    :raises ValueError: the map is damaged.
    """
    own = [extent for extent in extents if extent.cluster == cluster]
    after = next(
        (extent for extent in own if extent.physical_end is None or physical < extent.physical_end),
        open_extent(extents),
    )
    return after.clip(physical)


class LeftToOrigin(NamedTuple):
    """Copied records that readers still get from the origin.

    :ivar no_room: the copy has them, but the map has no room for their runs.
    :ivar gone: the copy has deleted them, the origin has not.
    """

    no_room: int
    gone: int


def left_to_origin(
    after: Extents, origin: str, runs: Sequence[Run], origin_start: int = 0, copy_start: int = 0
) -> LeftToOrigin:
    """
    :param after: the map after the cut.
    :param runs: ascending. There may be millions, and clients may wait for this.
    :param origin_start: log start of the origin; `copy_start`: of the copy.
    """
    parts = [
        (extent.base, extent.physical_end or 0)
        for extent in after
        if extent.cluster == origin and extent.end is not None
    ]
    begins = max(begins_at(runs, copy_start), origin_start)
    return LeftToOrigin(
        sum(copied_between(runs, max(low, begins), high) for low, high in parts),
        sum(copied_between(runs, max(low, origin_start), min(high, begins)) for low, high in parts),
    )


def fitting(copies: Mapping[Partition, CopyFacts], max_extents: int) -> int:
    """Number of extents to keep of each copy, so that they add up to `max_extents`; one at least."""
    sizes = sorted(len(copy.runs) for copy in copies.values())
    left = max_extents
    for index, size in enumerate(sizes):
        if size * (len(sizes) - index) > left:
            return max(left // (len(sizes) - index), 1)
        left -= size
    return max(max_extents, 1)
