"""The checker for lost, duplicated, reordered and renumbered records."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

from stack.history import delivery, placement
from stack.history.blackout import Move
from stack.history.events import Delivered, Event
from stack.history.history import History, Truth, Values
from stack.history.standstill import stood_still
from stack.history.violation import Violation


@dataclass(frozen=True)
class Result:
    """Result of the checks. Counts are of distinct values."""

    violations: tuple[Violation, ...]
    acknowledged: int
    delivered: int
    """Delivered to at least one reader."""
    lost: int
    doubled: int
    """Doubled or redelivered."""
    repeated: int
    """Legal redeliveries: the group had not committed them."""
    excused: int
    """Values that a producer without idempotence appended again after a fault, and late appends through a stopped
    gateway that were never acknowledged or read."""

    @property
    def sound(self) -> bool:
        return not self.violations

    def __str__(self) -> str:
        head = (
            f"{self.acknowledged} acknowledged, {self.delivered} delivered, {self.lost} lost, {self.doubled} doubled,"
            f" {self.repeated} repeated, {self.excused} excused"
        )
        shown = [f"  {violation}" for violation in self.violations[:50]]
        return "\n".join([head, *shown, *([f"  … {len(self.violations)} in all"] if len(self.violations) > 50 else [])])


def check(
    history: History,
    *,
    complete_readers: Collection[str] = (),
    redelivery: delivery.Redelivery = "uncommitted",
    crossings: Sequence[Move] = (),
) -> Result:
    """Run all checks.

    `complete_readers`: groups (or consumers without a group, by name) that read all of their topics to the end;
    raises ValueError for one that the history does not have. `redelivery`: records that a group may get again at their
    offset in a new assignment. `crossings`: moves during which no reader may stand still, in any partition.
    """
    readers = delivery.readers_of(history)
    unknown = set(complete_readers) - readers.keys()
    if unknown:
        raise ValueError(f"no consumer of this history reads as {sorted(unknown)[0]!r}; there is {sorted(readers)}")
    values, truth = Values(history), Truth.of(history)
    sightings = placement.ValuePlacements(history, truth)
    promised = delivery.acknowledged(history, values)
    violations: list[Violation] = [
        *delivery.lost(history, promised, complete_readers, values, truth),
        *delivery.phantoms(history, values),
        *placement.renumbered(sightings, truth),
        *placement.overwritten(sightings),
        *placement.disordered(sightings, truth, values),
        *stood_still(history, crossings),
    ]
    excused = 0
    for violation, is_excused in chain(
        placement.doubled_in_logs(history, truth, values), placement.late_appends(history, sightings, truth)
    ):
        excused += is_excused
        if not is_excused:
            violations.append(violation)
    repeated = 0
    for reader, members in readers.items():
        events: list[Event] = [event for client_started in members for event in history.clients[client_started.client]]
        walk = delivery.GroupWalk(reader, redelivery, truth)
        violations.extend(walk.walk(sorted(events, key=lambda event: event.t)))
        repeated += walk.repeated
        for started in members:
            violations.extend(delivery.walk_consumer(history, started.client, values, truth))
    delivered = {e.value for events in history.clients.values() for e in events if isinstance(e, Delivered)}
    return Result(
        violations=tuple(violations),
        acknowledged=len(promised),
        delivered=len(delivered),
        lost=len({violation.value for violation in violations if violation.kind == "lost"}),
        doubled=len({violation.value for violation in violations if violation.kind in ("doubled", "redelivered")}),
        repeated=repeated,
        excused=excused,
    )
