"""Maps of topics that cross over: with a cut that lies ahead, and without it again."""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.model import Extent, MoveRequest, Topic
from ha_core.model.extent import identity, live
from ha_core.plan.crossing_stages import Stage, crossings, end_of
from ha_core.plan.facts import Partition, PartitionEnds
from ha_core.plan.moving import listed, writer_after
from ha_core.plan.revision import MoveDamagedError, cut_at


def uncut(request: MoveRequest, topic: Topic, partition: int) -> tuple[Extent, ...]:
    """The extents without the cut that lies ahead. Older extents of the target keep the end that was found with it."""
    if partition not in topic.partitions:
        return identity(request.origin)
    origin = topic.written(partition)
    return (*topic.extents(partition)[:-2], origin.model_copy(update={"end": None}))


def proposed_map(
    request: MoveRequest,
    topic: Topic,
    found: Stage,
    partition: int,
    ends: Mapping[Partition, PartitionEnds],
    cuts: Mapping[Partition, int],
) -> tuple[Extent, ...]:
    """The extents of a partition with its cut.

    :param cuts: client offsets; one that is missing stays what was proposed before.
    :raises MoveDamagedError: the cut is not above the log's end, or below the one before; or the map would be wrong.
    """
    name, where = topic.name, f"topic {topic.name} partition {partition}"
    before = topic.partitions.get(partition) if found == "proposed" else None
    at = cuts.get((name, partition), before[-1].start if before else None)
    if at is None:
        raise MoveDamagedError(f"{where}: there is no cut to propose")
    if before and at < before[-1].start:
        raise MoveDamagedError(f"{where}: the cut {at} lies below {before[-1].start}, below which is acknowledged")
    origin = uncut(request, topic, partition) if found == "proposed" else listed(request, topic, partition)
    base = before[-1].base if before else ends[name, partition].target
    try:
        end = live(origin).to_client(end_of(name, partition, ends))
    except ValueError as error:
        raise MoveDamagedError(f"{where}: {error}") from error
    if (name, partition) in cuts and at <= end:
        raise MoveDamagedError(f"{where}: the cut {at} does not lie above the log's end {end}")
    return cut_at(request, where, origin, at, base)


def require_partitions(topic: Topic, ends: Mapping[Partition, PartitionEnds]) -> None:
    """:raises MoveDamagedError: ends of partitions that cross over are missing."""
    missing = {partition for partition, _, _ in crossings(topic) if (topic.name, partition) not in ends}
    if missing:
        raise MoveDamagedError(f"topic {topic.name}: the ends of partitions {sorted(missing)} were not read")


def require_not_added(request: MoveRequest, topic: Topic, counts: Mapping[str, int]) -> None:
    """Before every gateway served the cuts, clients were led to whatever the topic has got: it has to come along.

    :raises MoveDamagedError: partitions were added since the cuts were proposed.
    """
    if new := added(request, topic, counts):
        raise MoveDamagedError(
            f"topic {topic.name} has got partitions {list(new)} since its cuts were proposed, which have none. "
            "Go back, and migrate it again"
        )


def added(request: MoveRequest, topic: Topic, counts: Mapping[str, int]) -> tuple[int, ...]:
    """Partitions that the origin has and the map does not list, where its writer is to change.

    While the crossing stands gateways lead nobody to them (`Topic.withheld`). They stay where they are: in a map of
    their own, or they would be the next writer's.
    """
    if topic.writer != request.origin or writer_after(request, topic, topic.partitions) == request.origin:
        return ()  # whose they are does not change
    return tuple(partition for partition in range(counts[topic.name]) if partition not in topic.partitions)


def with_added(request: MoveRequest, topic: Topic, counts: Mapping[str, int]) -> dict[int, tuple[Extent, ...]]:
    """The map, with the partitions that were added meanwhile as the origin's own."""
    return {**topic.partitions, **dict.fromkeys(added(request, topic, counts), identity(request.origin))}


def require_base(topic: Topic, ends: Mapping[Partition, PartitionEnds]) -> None:
    """:raises MoveDamagedError: somebody has written to the target."""
    for partition, _, target in crossings(topic):
        found = ends[topic.name, partition].target
        if found != target.base:
            raise MoveDamagedError(
                f"topic {topic.name} partition {partition}: cluster {target.cluster} ends at {found}, and its extent "
                f"begins at {target.base}: records were written there"
            )
