"""How far behind a group is, in client offsets, over all the clusters that hold the records of a partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ha_core.model import Extent


@dataclass(frozen=True, slots=True)
class Held:
    """A partition's log in one cluster, in that cluster's own offsets: what readers can be given."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Behind:
    """Client offsets."""

    end: int | None
    """Where the records end; None: the cluster that would know does not answer."""
    lag_records: int | None
    """Offsets from the committed one to the end, without what no cluster holds. None: as above."""
    next: str
    """The cluster that holds the record to be read next, or gets it where there is none yet."""


def behind(extents: Sequence[Extent], committed: int, log: Callable[[str], Held | None]) -> Behind:
    """Where a group that has committed `committed` goes on, and how much there is to read.

    :param extents: of one partition; the last one is open.
    :param log: cluster → the partition there; None: it does not answer.
    """
    end: int | None = None
    lag: int | None = 0
    following = ""
    full = True  # Of what lies before: while a cut lies ahead, the records end in the extent before the last.
    for extent in extents:
        if extent.ignored:
            continue
        held = log(extent.cluster)
        wanted = extent.end is None or committed < extent.end
        if held is None:
            end, full = extent.end, True
            if wanted:
                lag, following = None, following or extent.cluster
            continue
        first, last = extent.clip(held.start), extent.clip(held.end)
        left = max(0, last - max(committed, first))
        if full:
            end = last
        full = extent.end is None or last >= extent.end or extent.known_end is not None
        if not following and (left or extent.end is None or (wanted and not full)):
            following = extent.cluster
        if lag is not None:
            lag += left
    return Behind(end, lag if end is not None else None, following)
