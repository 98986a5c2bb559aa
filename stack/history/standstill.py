"""Standstills of readers per partition, although there was a record to read.

A standstill begins when a record is available and the one before it was delivered, and ends with its delivery. A
silent partition is no standstill, nor is a rebalance, which has its own pauses. Standstills are counted per partition,
because a client's other partitions may go on meanwhile.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stack.history.blackout import Move
from stack.history.events import Acked, Assigned, Delivered, Positioned, Revoked
from stack.history.history import History, Spot
from stack.history.violation import Violation

BOUND_MS = 2000.0
"""A standstill at a crossing above this fails, on an idle machine too: clients should notice nothing, and fetch again
within some hundreds of milliseconds."""
TOLERANCE = 2.0
"""On a loaded machine readers stand still without a move, too: the factor by which a move may exceed the longest.
"""


@dataclass(frozen=True, slots=True)
class ReaderStandstill:
    """From `t` to `until` (seconds since the epoch) a reader waited for a record that was available."""

    reader: str
    spot: Spot
    t: float
    until: float
    offset: int
    value: str

    @property
    def ms(self) -> float:
        return (self.until - self.t) * 1000

    def touches(self, move: Move) -> bool:
        return self.t <= move.until and self.until >= move.t


@dataclass(frozen=True, slots=True)
class LongestStandstills:
    """Longest standstills of one reader in one partition, in milliseconds: without a move, and during one."""

    reader: str
    topic: str
    partition: int
    usual_ms: float
    moving_ms: float


def standstills(history: History) -> Iterator[ReaderStandstill]:
    """One for each delivered record after another one of its partition."""
    there: dict[tuple[Spot, str], float] = {}
    for events in history.clients.values():
        for event in events:
            if isinstance(event, Acked):
                there[(event.topic, event.partition), event.value] = event.t
    for name, events in history.clients.items():
        last: dict[Spot, float] = {}
        for event in events:
            if isinstance(event, Assigned | Revoked):
                for spot in event.partitions:
                    last.pop(spot, None)
            elif isinstance(event, Positioned):
                last.pop((event.topic, event.partition), None)
            elif isinstance(event, Delivered):
                spot = (event.topic, event.partition)
                before, acked_at = last.get(spot), there.get((spot, event.value))
                last[spot] = event.t
                if before is not None and acked_at is not None:
                    since = min(max(before, acked_at), event.t)
                    yield ReaderStandstill(name, spot, since, event.t, event.offset, event.value)


def bound_ms(history: History, moves: Sequence[Move]) -> float:
    """The limit of standstills during these moves, from those without a move."""
    usual = (standstill.ms for standstill in standstills(history) if not any(map(standstill.touches, moves)))
    return max(BOUND_MS, TOLERANCE * max(usual, default=0.0))


def longest(history: History, moves: Sequence[Move]) -> tuple[LongestStandstills, ...]:
    """For every reader and partition."""
    found: dict[tuple[str, Spot], tuple[float, float]] = {}
    for standstill in standstills(history):
        usual, moving = found.get((standstill.reader, standstill.spot), (0.0, 0.0))
        if any(map(standstill.touches, moves)):
            moving = max(moving, standstill.ms)
        else:
            usual = max(usual, standstill.ms)
        found[standstill.reader, standstill.spot] = usual, moving
    return tuple(
        LongestStandstills(reader, *spot, round(usual, 1), round(moving, 1))
        for (reader, spot), (usual, moving) in sorted(found.items())
    )


def stood_still(history: History, moves: Sequence[Move]) -> Iterator[Violation]:
    """Readers that stood still for too long during one of these moves."""
    if not moves:
        return
    limit_ms = bound_ms(history, moves)
    for standstill in standstills(history):
        if standstill.ms > limit_ms and any(map(standstill.touches, moves)):
            text = (
                f"it was available for {standstill.ms:.0f} ms before it was delivered, the limit is {limit_ms:.0f} ms"
            )
            yield Violation(
                "stood still", standstill.reader, *standstill.spot, standstill.value, (standstill.offset,), text
            )
