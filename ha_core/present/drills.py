"""Pages about drills."""

from collections.abc import Mapping, Sequence

from ha_core.model import Drill, DrillSchedule
from ha_core.model.drill import ServiceFigures
from ha_core.plan.facts.verdict import amount, duration
from ha_core.present.page import MAX_ROWS, Marked, Page, Table

DAY_S = 86_400


def drill_page(drill: Drill) -> Page:
    """Everything that a drill measured, for people."""
    yield f"drill {drill.id}: {' '.join(drill.scope)}, {drill.origin} → {drill.target} and home, {drill.kind}"
    approved = f", approved by {drill.approved_by}" if drill.approved_by else ""
    yield f"by {drill.by}{approved}, {drill.started} to {drill.ended or 'now'}; reason: {drill.reason}"
    yield Table(
        ("step", "ms", "operation", ""),
        [(step.name, step.ms, step.operation, step.text) for step in drill.steps],
    )
    if drill.services:
        yield Table(
            ("service", "measured by", "RTO ms", "target", "lost", "target", "repeated", "longest wait of readers, ms"),
            [_row(one) for one in drill.services],
            max_rows=MAX_ROWS,
        )
    yield from (f"since the drill before: {change}" for change in drill.changes)
    words = f"{drill.result}{f': {drill.text}' if drill.text else ''}"
    yield Marked(words, "good" if drill.result == "passed" else "warning" if drill.result == "running" else "bad")
    if drill.away:
        yield Marked(f"its scope is still in {drill.target}: `switchyard drill home {drill.id} --reason …`", "bad")


def _row(one: ServiceFigures) -> tuple[object, ...]:
    return (
        one.name,
        one.measured_by,
        _known(one.rto_ms),
        _known(one.rto_target_ms, "none"),
        _known(one.lost),
        _known(one.lost_target, "none"),
        _known(one.repeated),
        _known(one.delayed_ms),
    )


def _known(value: int | None, otherwise: str = "?") -> object:
    return otherwise if value is None else value


def drills_page(drills: Sequence[Drill], schedules: Sequence[DrillSchedule], late_days: Mapping[str, float]) -> Page:
    """:param late_days: schedule → days since its drill was due."""
    if not drills:
        yield "no drill was run yet: `switchyard drill run --help`"
    else:
        rows = [
            (one.id, one.kind, " ".join(one.scope), f"{one.origin} → {one.target}", _worst(one), one.result)
            for one in drills
        ]
        yield Table(("drill", "kind", "scope", "way", "worst RTO ms", "result"), rows, max_rows=MAX_ROWS)
    for one in drills:
        if one.result == "running":
            home = f"`switchyard drill home {one.id} --reason …`"
            yield Marked(f"{one.id} has not ended: if its process has died, {home}", "warning")
    if schedules:
        due = [(one.name, one.kind, " ".join(one.scope), often(one), one.due_at(drills).date()) for one in schedules]
        yield Table(("schedule", "kind", "scope", "how often", "due"), due, max_rows=MAX_ROWS)
    for name, days in sorted(late_days.items()):
        yield Marked(f"schedule {name}: its drill is overdue by {duration(days * DAY_S)}", "bad")


def often(schedule: DrillSchedule) -> str:
    return "each day" if schedule.every_days == 1 else f"every {amount(schedule.every_days, 'day')}"


def _worst(drill: Drill) -> object:
    values = [one.rto_ms for one in drill.services]
    return "?" if not values or None in values else max(value for value in values if value is not None)
