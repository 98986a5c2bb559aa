"""Planning, replay and execution share their steps: each step has an effect on clusters, and one in the replay."""

from __future__ import annotations

from typing import get_args

import pytest

from ha_core.model.operation import AnyKind
from ha_core.operations.migration.crossing.at_cuts import EndWithoutOrigin
from ha_core.operations.migration.crossing.fence import BehindFence
from ha_core.operations.migration.crossing.without_origin import StepsWithoutOrigin
from ha_core.operations.move.common_steps import MoveSteps
from ha_core.operations.move.switch_steps import SwitchSteps
from ha_core.operations.running.kinds import KINDS
from ha_core.plan.migration import crossing_stages
from ha_core.plan.move import planner
from tests.plan import replay, replay_crossing


def effects_of(some: type, base: type = object) -> set[str]:
    return {name for name in dir(some) if callable(getattr(some, name)) and not hasattr(base, name)}


@pytest.mark.parametrize(
    ("steps", "effects", "world"),
    [
        (get_args(planner.Step), SwitchSteps, replay.World),
        (get_args(crossing_stages.Step), StepsWithoutOrigin, replay_crossing.World),
        (get_args(crossing_stages.BehindFence), BehindFence, replay_crossing.World),
        (get_args(crossing_stages.WithoutOrigin), EndWithoutOrigin, replay_crossing.World),
    ],
)
def test_every_step_of_the_plan_is_carried_out_and_replayed(steps: tuple[str, ...], effects: type, world: type) -> None:
    replayed = {step for step in steps if hasattr(world, f"_{step}")}

    assert set(steps) <= effects_of(effects)
    assert set(steps) - replayed <= {"retreat"}  # which the replay begins from outside


def test_every_step_that_all_moves_take_is_in_both_plans() -> None:
    shared = effects_of(MoveSteps) & (set(get_args(planner.Step)) | set(get_args(crossing_stages.Step)))

    assert shared <= set(get_args(planner.Step))
    assert shared <= set(get_args(crossing_stages.Step))


def test_every_kind_of_operation_is_in_the_table() -> None:
    kinds = [get_args(kind.model_fields["kind"].annotation) for kind in get_args(AnyKind)]

    assert KINDS.keys() == {name for names in kinds for name in names}
