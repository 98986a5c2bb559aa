"""Drills: rehearsed switches there and back, what they measured, and when the next one is due."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from pydantic import Field

from ha_core.model.document import Document, Part

DrillKind = Literal["planned", "forced"]
DrillResult = Literal["running", "passed", "missed", "aborted", "failed"]
"""`missed`: it went as planned, and a service missed a target. `aborted`: a service was away for longer than the budget
allows, and went home at once. `failed`: a step failed. `running`: also of a drill whose process has died."""
MAX_DRILLS = 200
"""Kept in ZooKeeper; the oldest are removed. Export them before, if you need them for longer."""
MAX_SERVICES = 1_000


class DrillStep(Part):
    """:ivar operation: the operation that did it; "": none did."""

    name: str
    ms: int
    operation: str = ""
    text: str = ""


class ServiceFigures(Part):
    """The figures of one service. None: not measured, and never 0 in its place.

    :ivar rto_ms: longest time without an acknowledged write. A canary measures it; for other services it is the time
        for which their topics were fenced.
    :ivar lost: acknowledged records that were not delivered (of a canary), or that no copy had.
    """

    name: str
    measured_by: Literal["canary", "fence"]
    rto_ms: int | None = None
    rto_target_ms: int | None = None
    lost: int | None = None
    lost_target: int | None = None
    acknowledged: int | None = None
    repeated: int | None = None
    delayed_ms: int | None = None
    """Longest time without a delivered record."""

    @property
    def misses(self) -> tuple[str, ...]:
        """Targets that were missed, or that could not be judged."""
        pairs = (
            ("RTO", self.rto_ms, self.rto_target_ms, "ms"),
            ("RPO", self.lost, self.lost_target, "records"),
        )
        return tuple(
            f"{self.name}: {what} not measured, target {target} {unit}"
            if value is None
            else f"{self.name}: {what} {value} {unit}, target {target} {unit}"
            for what, value, target, unit in pairs
            if target is not None and (value is None or value > target)
        )


class Drill(Document):
    """`/drills/{id}`: written when it begins, after each step, and at its end."""

    FOLDER = "/drills"
    KEY = "id"
    PLAIN_BYTES = 4_096

    id: str
    kind: DrillKind
    scope: tuple[str, ...]
    origin: str
    target: str
    by: str
    reason: str
    approved_by: str = ""
    schedule: str = ""
    """The schedule that it belongs to; "": none."""
    started: str
    ended: str = ""
    result: DrillResult = "running"
    text: str = ""
    """Why it has this result."""
    away: bool = False
    """Whether the scope is in the target now, so that it has to go home."""
    steps: tuple[DrillStep, ...] = ()
    services: tuple[ServiceFigures, ...] = Field(default=(), max_length=MAX_SERVICES)
    topics: int = 0
    groups: int = 0
    gateways: dict[str, str] = {}
    """Gateway → version."""
    changes: tuple[str, ...] = ()
    """Differences from the drill before it."""

    def step_ms(self, name: str) -> int | None:
        return next((step.ms for step in reversed(self.steps) if step.name == name), None)


class DrillSchedule(Document):
    """`/drill_schedules/{name}`: a drill that is repeated."""

    FOLDER = "/drill_schedules"

    name: str
    kind: DrillKind
    scope: tuple[str, ...]
    origin: str
    target: str
    every_days: int = Field(ge=1, le=1_000)
    by: str
    since: str
    rto_target_ms: int | None = None
    lost_target: int | None = None

    def overdue_days(self, drills: Iterable[Drill], now: str) -> float | None:
        """Days since its drill was due; None: it is not due yet.

        :param now: UTC, ISO 8601.
        """
        late = datetime.fromisoformat(now) - self.due_at(drills)
        return late / timedelta(days=1) if late > timedelta() else None

    def due_at(self, drills: Iterable[Drill]) -> datetime:
        """When the next one has to have ended. A drill that aborted or failed does not count."""
        ended = [one.ended for one in drills if one.schedule == self.name and one.result in {"passed", "missed"}]
        return datetime.fromisoformat(max(ended, default=self.since)) + timedelta(days=self.every_days)
