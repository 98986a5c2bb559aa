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
UNKNOWN_RESERVE = 1 << 40
"""The reserve where no end is known at all: years of records."""


def forced_cut(current: Extent, found: PartitionEnds, reserve: int = RESERVE) -> tuple[int, int]:
    """The cut and the extent's known end, both client offsets.

    :param current: the writer's extent, in the origin.
    """
    ends = [current.start + max(0, end - current.base) for end in (found.origin, found.seen) if end is not None]
    if ends:
        # An origin that still answered has told its end just now.
        grown = 0 if found.origin is not None else int(found.seen_age_s * FASTEST_PER_S)
        room = reserve + grown
    else:
        room = max(reserve, UNKNOWN_RESERVE)
    known = max([current.start, *ends])
    # Anybody can commit anything: a commit beyond what the log can hold says nothing.
    if found.known is not None and known < found.known <= known + room:
        known = found.known
    return known + room, known
