"""Figures of a drill, from the times at which a canary's records were acknowledged and delivered. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ha_core.model.drill import Drill, ServiceFigures


@dataclass
class CanaryLog:
    """Times in seconds of one monotonic clock. The index of a record is its number.

    :ivar acknowledged: record → when its acknowledgement came.
    :ivar delivered: record → how often it was delivered.
    :ivar delivered_at: times of deliveries, in order.
    """

    acknowledged: dict[int, float] = field(default_factory=dict)
    delivered: Counter[int] = field(default_factory=Counter)
    delivered_at: list[float] = field(default_factory=list)

    @property
    def undelivered(self) -> set[int]:
        """Acknowledged records that were not delivered yet."""
        return self.acknowledged.keys() - self.delivered.keys()


def longest_gap_ms(times_s: Iterable[float], begin_s: float, end_s: float) -> int:
    """Longest time between two events, or between one and an end of the interval."""
    within = [time for time in sorted(times_s) if begin_s <= time <= end_s]
    marks = [begin_s, *within, end_s]
    return round(1_000 * max(after - before for before, after in pairwise(marks)))


def canary_figures(
    log: CanaryLog, name: str, spans_s: Sequence[tuple[float, float]], targets: tuple[int | None, int | None]
) -> ServiceFigures:
    """
    :param spans_s: begin and end of each switch, with time after it for clients to go on.
    :param targets: RTO in milliseconds, lost records.
    """
    rto_ms = max((longest_gap_ms(log.acknowledged.values(), *span) for span in spans_s), default=None)
    delayed_ms = max((longest_gap_ms(log.delivered_at, *span) for span in spans_s), default=None)
    return ServiceFigures(
        name=name,
        measured_by="canary",
        rto_ms=rto_ms,
        rto_target_ms=targets[0],
        lost=len(log.undelivered),
        lost_target=targets[1],
        acknowledged=len(log.acknowledged),
        repeated=sum(times - 1 for times in log.delivered.values()),
        delayed_ms=delayed_ms,
    )


def fence_figures(
    users: Iterable[str], fenced_ms: Iterable[int | None], lost: int | None, targets: tuple[int | None, int | None]
) -> list[ServiceFigures]:
    """Figures of users whose clients are their own: the longest of the fences, and the records that no copy had.

    :param fenced_ms: of each switch; None: not known, and then the RTO is not, either.
    """
    known = list(fenced_ms)
    rto_ms = None if not known or None in known else max(one for one in known if one is not None)
    return [
        ServiceFigures(
            name=user,
            measured_by="fence",
            rto_ms=rto_ms,
            rto_target_ms=targets[0],
            lost=lost,
            lost_target=targets[1],
        )
        for user in sorted(users)
    ]


def changes_since(before: Drill | None, now: Drill) -> tuple[str, ...]:
    """Differences of the surroundings and of the results from the drill before."""
    if before is None:
        return ("first drill of this scope",)
    found = []
    for what, old, new in (
        ("topics", before.topics, now.topics),
        ("groups", before.groups, now.groups),
        ("gateways", len(before.gateways), len(now.gateways)),
    ):
        if old != new:
            found.append(f"{what}: {old} → {new}")
    if (old_versions := set(before.gateways.values())) != (versions := set(now.gateways.values())):
        found.append(f"gateways' versions: {_listed(old_versions)} → {_listed(versions)}")
    earlier: Mapping[str, ServiceFigures] = {one.name: one for one in before.services}
    for one in now.services:
        rto_ms = earlier[one.name].rto_ms if one.name in earlier else None
        if rto_ms and one.rto_ms and one.rto_ms > 2 * rto_ms:
            found.append(f"{one.name}: RTO {rto_ms} → {one.rto_ms} ms")
    return tuple(found)


def _listed(versions: Iterable[str]) -> str:
    return ", ".join(sorted(version or "unknown" for version in versions)) or "none"
