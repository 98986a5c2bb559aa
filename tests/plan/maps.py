"""Maps of single partitions, as moves and retention make them."""

from collections.abc import Mapping, Sequence

from ha_core.model import Extent
from ha_core.model.extent import append, open_extent
from ha_core.plan.migration.aging import drop


def rows(extents: Sequence[Extent]) -> list[tuple[str, int, int | None, int, int]]:
    """Cluster, start, end, base and writer epoch of each."""
    return [(e.cluster, e.start, e.end, e.base, e.writer_epoch) for e in extents]


def cut(extents: Sequence[Extent], origin_end: int, target: str, base: int) -> tuple[Extent, ...]:
    """`append` at the writer's log end `origin_end`, as its own cluster counts."""
    return append(extents, target, open_extent(extents).to_client(origin_end), base)


def pruned(extents: Sequence[Extent], log_starts: Mapping[str, int]) -> tuple[Extent, ...]:
    """`drop` extents that retention has deleted: the cluster's log start has passed their ends."""
    gone = [e.start for e in extents if e.clip(log_starts.get(e.cluster, e.base)) == e.end]
    return drop(extents, gone)
