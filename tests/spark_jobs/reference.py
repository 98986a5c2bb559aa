"""The windows between reads of one log, read by read: the reference for Spark's window functions."""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from spark_jobs.cuts import Demand, Windows
from spark_jobs.offsets import SHORTEST_WINDOW_MS


def spread(rates: Sequence[float], chance: float = Demand().chance) -> Windows:
    """Windows with these rates."""
    rank = max(1, math.ceil((len(rates) + 1) * (1 - chance) - 1e-9))
    return Windows(
        windows=len(rates),
        mean=math.fsum(rates) / len(rates) if rates else 0.0,
        highest=max(rates, default=0.0),
        average=math.fsum(rates) / len(rates) if rates else 0.0,
        deviation=statistics.stdev(rates) if len(rates) > 1 else 0.0,
        ranked=sorted(rates)[rank - 1] if rank <= len(rates) else None,
    )


def windows(times_ms: Sequence[int | None], ends: Sequence[int | None], chance: float = Demand().chance) -> Windows:
    """The windows between reads in any order; reads without time or end, or below 0, are left out."""
    reads = sorted((t, e) for t, e in zip(times_ms, ends, strict=True) if t is not None and e is not None and e >= 0)
    kept: list[tuple[int, int]] = []
    for at_ms, end in reads:
        if kept and end < kept[-1][1]:
            kept = []
        if not kept or at_ms - kept[-1][0] >= SHORTEST_WINDOW_MS:
            kept.append((at_ms, end))
    if len(kept) < 2:
        return Windows()
    found = spread([(e1 - e0) * 1000 / (t1 - t0) for (t0, e0), (t1, e1) in pairwise(kept)], chance)
    (first_ms, first), (last_ms, last) = kept[0], kept[-1]
    return found._replace(
        mean=(last - first) * 1000 / (last_ms - first_ms),
        span_s=(last_ms - first_ms) / 1000,
        moved_at_ms=next(at_ms for at_ms, end in kept if end == last) if last > first else None,
    )
