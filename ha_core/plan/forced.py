"""The cut of a move whose origin is dead: fixed once, above all that the origin can have given out, and never changed.

Nobody can ask the origin where its log ends, so the cut lies above the last known end by more than the log can have
grown since. The hole that this leaves is legal, as in a compacted log, and it is what makes the cut final: when the
origin returns, whatever it holds has its place below, and no client offset ever comes to mean a second record.
"""

from __future__ import annotations

from ha_core.model import Extent
from ha_core.plan.facts import PartitionEnds

RESERVE = 1_000_000
"""Offsets between the last known end of a dead origin and the forced cut, at least."""
FASTEST_PER_S = 10_000_000
"""Records per second that no partition's leader can append: what is known ages by as many offsets."""
MIN_AGE_S = 300.0
"""However fresh it is said to be, what is known counts as so old. No clock takes that away: an age is the difference of
two readings, and this is how far they may be wrong together. A leader that still answers may be one that its cluster
has replaced. Five minutes are five looks of the gateways' recorder; ten times as much would only make the hole longer,
over which jobs that divide offsets into portions go portion by portion."""
UNKNOWN_RESERVE = 1 << 40
"""The reserve where no end is known at all, or nobody can say how long ago it was: years of records."""


def forced_cut(current: Extent, found: PartitionEnds, reserve: int = RESERVE) -> tuple[int, int]:
    """The cut and the extent's known end, both client offsets.

    :param current: the writer's extent, in the origin.
    """
    ends = [current.clip(end) for end in (found.origin, found.seen) if end is not None]
    age_s = found.seen_age_s if found.seen is not None else 0.0
    if ends and age_s is not None:
        room = reserve + int(max(age_s, MIN_AGE_S) * FASTEST_PER_S)
    else:
        room = max(reserve, UNKNOWN_RESERVE)
    known = max([current.start, *ends])
    # Anybody can commit anything: a commit beyond what the log can hold says nothing.
    if found.known is not None and known < found.known <= known + room:
        known = found.known
    return known + room, known
