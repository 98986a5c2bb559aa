"""Each client's blackout in a move."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from stack.history.events import Acked, Delivered
from stack.history.history import History


@dataclass(frozen=True, slots=True)
class Move:
    """Start and end of an operation, in seconds since the epoch."""

    t: float
    until: float


def blackouts(history: History, moves: Sequence[Move], settle_s: float = 5.0) -> dict[str, tuple[float | None, ...]]:
    """Per client one number of milliseconds per move; None if it never came back, or had not started.

    It is the longest time between two successive acknowledgements (of a producer) or deliveries (to a consumer) that
    overlaps the move, or the `settle_s` after it up to the next move: from the last one before to the first one
    after.
    """
    result: dict[str, tuple[float | None, ...]] = {}
    for name, started in history.started().items():
        kind = Acked if started.role == "producer" else Delivered
        times = sorted(event.t for event in history.clients[name] if isinstance(event, kind))
        nexts = [*(move.t for move in moves[1:]), float("inf")]
        result[name] = tuple(
            _longest_ms(times, move, settle_s, following) for move, following in zip(moves, nexts, strict=True)
        )
    return result


def _longest_ms(times: Sequence[float], move: Move, settle_s: float, following: float) -> float | None:
    if not times or times[0] > move.t or times[-1] < move.until:
        return None
    touching = [
        (last, first)
        for last, first in pairwise(times)
        if first >= move.t and (last <= move.until or (last <= move.until + settle_s and first < following))
    ]
    return round(max(((first - last) * 1000 for last, first in touching), default=0.0), 1)
