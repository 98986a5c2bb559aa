"""Figures of drills."""

from collections import Counter

import pytest

from ha_core.model import Drill, DrillSchedule
from ha_core.model.drill import DrillResult, ServiceFigures
from ha_core.operations.drill.figures import (
    CanaryLog,
    canary_figures,
    changes_since,
    fence_figures,
    longest_gap_ms,
)


def drill(result: DrillResult = "passed", **fields: object) -> Drill:
    known = {
        "id": "drill-1",
        "kind": "planned",
        "scope": ("user:canary",),
        "origin": "east",
        "target": "west",
        "by": "test",
        "reason": "a test",
        "started": "2026-01-01T00:00:00.000Z",
        "ended": "2026-01-01T00:05:00.000Z",
        "result": result,
        "schedule": "quarterly",
    }
    return Drill.model_validate(known | fields)


def test_the_longest_gap_reaches_to_both_ends_of_the_interval() -> None:
    assert longest_gap_ms([1.0, 1.2, 2.0], 0.9, 2.1) == 800
    assert longest_gap_ms([5.0], 1.0, 6.0) == 4_000
    assert longest_gap_ms([0.5, 9.0], 1.0, 3.0) == 2_000


def test_records_that_are_not_delivered_are_lost_and_further_deliveries_are_repeated() -> None:
    log = CanaryLog({0: 1.0, 1: 1.1, 2: 3.1}, Counter({0: 1, 1: 3}), [1.0, 1.2, 3.0])
    figures = canary_figures(log, "canary", [(1.0, 3.2)], (1_000, 0))
    assert (figures.acknowledged, figures.lost, figures.repeated) == (3, 1, 2)
    assert (figures.rto_ms, figures.delayed_ms) == (2_000, 1_800)
    assert figures.misses == (
        "canary: RTO 2000 ms, target 1000 ms",
        "canary: RPO 1 records, target 0 records",
    )


def test_a_fence_that_is_not_known_leaves_the_rto_unknown_and_its_target_missed() -> None:
    (known,) = fence_figures(["user:shop"], [80, 120], 0, (200, 0))
    assert (known.rto_ms, known.misses) == (120, ())
    (unknown,) = fence_figures(["user:shop"], [80, None], None, (200, 0))
    assert unknown.misses == (
        "user:shop: RTO not measured, target 200 ms",
        "user:shop: RPO not measured, target 0 records",
    )


def test_changes_since_the_drill_before_are_named() -> None:
    canary = ServiceFigures(name="canary", measured_by="canary", rto_ms=100)
    before = drill(topics=1, gateways={"gw-1": "1.0"}, services=(canary,))
    now = drill(topics=2, gateways={"gw-1": "1.1"}, services=(canary.model_copy(update={"rto_ms": 300}),))
    assert changes_since(before, now) == (
        "topics: 1 → 2",
        "gateways' versions: 1.0 → 1.1",
        "canary: RTO 100 → 300 ms",
    )
    assert changes_since(None, now) == ("first drill of this scope",)


@pytest.mark.parametrize(
    ("drills", "days"),
    [
        ([], 100.0),
        ([drill()], 90.0),
        ([drill("missed")], 90.0),
        ([drill("aborted")], 100.0),
        ([drill(schedule="another")], 100.0),
        ([drill(ended="2026-06-01T00:00:00.000Z")], None),
    ],
    ids=["none yet", "passed", "missed a target", "aborted", "another schedule's", "in time"],
)
def test_a_drill_is_due_some_days_after_the_last_one_that_went_to_its_end(
    drills: list[Drill], days: float | None
) -> None:
    schedule = DrillSchedule(
        name="quarterly",
        kind="planned",
        scope=("user:canary",),
        origin="east",
        target="west",
        every_days=10,
        by="test",
        since="2025-12-22T00:05:00.000Z",
    )
    assert schedule.overdue_days(drills, "2026-04-11T00:05:00.000Z") == days
