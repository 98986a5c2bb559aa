"""How long readers stood still, partition by partition, although there was something to read.

A reader stands still in a partition from the moment when a record is there and the one before was given to it until it
is given that record. A silent partition is no standstill, nor is a rebalance, which has pauses of its own. A client's
other partitions may flow meanwhile, so all partitions of a client together would hide it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stack.history.blackout import Move
from stack.history.events import Acked, Assigned, Delivered, Positioned, Revoked
from stack.history.history import History, Spot
from stack.history.violation import Violation

BOUND_MS = 2000.0
"""A standstill at a crossing that fails, on an idle machine as well: clients are to notice nothing, and ask again
within some hundreds of milliseconds."""
TOLERANCE = 2.0
"""On a loaded machine readers stand still without a move, too: so many times their longest standstill may be reached.
"""


@dataclass(frozen=True, slots=True)
class ReaderStandstill:
    """The time from `t` to `until` (seconds since the epoch), in which a reader waited for a record that was there."""

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
    """Of one reader in one partition, in milliseconds: without a move, and while one was under way."""

    reader: str
    topic: str
    partition: int
    usual_ms: float
    moving_ms: float


def standstills(history: History) -> Iterator[ReaderStandstill]:
    """One for each record that a reader was given after another one of its partition."""
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
    """How long readers may stand still during these moves: judged by how long they do without any."""
    usual = (one.ms for one in standstills(history) if not any(map(one.touches, moves)))
    return max(BOUND_MS, TOLERANCE * max(usual, default=0.0))


def longest(history: History, moves: Sequence[Move]) -> tuple[LongestStandstills, ...]:
    """Of every reader in each of its partitions."""
    found: dict[tuple[str, Spot], tuple[float, float]] = {}
    for one in standstills(history):
        usual, moving = found.get((one.reader, one.spot), (0.0, 0.0))
        if any(map(one.touches, moves)):
            moving = max(moving, one.ms)
        else:
            usual = max(usual, one.ms)
        found[one.reader, one.spot] = usual, moving
    return tuple(
        LongestStandstills(reader, *spot, round(usual, 1), round(moving, 1))
        for (reader, spot), (usual, moving) in sorted(found.items())
    )


def stood_still(history: History, moves: Sequence[Move]) -> Iterator[Violation]:
    """Readers that stood still during one of these moves for longer than they may."""
    if not moves:
        return
    most = bound_ms(history, moves)
    for one in standstills(history):
        if one.ms > most and any(map(one.touches, moves)):
            text = f"it was there for {one.ms:.0f} ms before it was given, of which {most:.0f} ms may be"
            yield Violation("stood still", one.reader, *one.spot, one.value, (one.offset,), text)
