"""Planning, replay and execution share their steps: each step has an effect on clusters, and one in the replay."""

from typing import Any, get_args

import pytest

from ha_core.model.operation import AnyKind
from ha_core.operations.engine.steps import Effects
from ha_core.operations.migration.crossing.fence import BehindFence, EndWithoutOrigin
from ha_core.operations.migration.crossing.migrate import StepsWithoutOrigin
from ha_core.operations.migration.crossing.steps import CrossingSteps
from ha_core.operations.mirror.linking import LinkSteps
from ha_core.operations.move.common_steps import MoveSteps
from ha_core.operations.move.switch_steps import SwitchSteps
from ha_core.operations.running.engine import KINDS
from ha_core.plan.migration import crossing_stages
from ha_core.plan.mirror import linking
from ha_core.plan.move import planner
from tests.plan import replay, replay_crossing

PLANS: list[tuple[tuple[str, ...], type[Effects[Any]], type | None]] = [
    (get_args(planner.Step), SwitchSteps, replay.World),
    (get_args(crossing_stages.Step), StepsWithoutOrigin, replay_crossing.World),
    (get_args(crossing_stages.FencePart), BehindFence, replay_crossing.World),
    (get_args(crossing_stages.PartWithoutOrigin), EndWithoutOrigin, replay_crossing.World),
    (get_args(linking.Step), LinkSteps, None),
]
"""Steps of a plan, the class that carries them out, and the replay of their interruptions."""


def bound(effects: type[Effects[Any]]) -> dict[str, str]:
    """Step → the method that is its effect. The table needs no operation."""
    return {step: effect.__name__ for step, effect in object.__new__(effects).effects.items()}


@pytest.mark.parametrize(("steps", "effects", "world"), PLANS)
def test_every_step_of_the_plan_is_carried_out_and_replayed(
    steps: tuple[str, ...], effects: type[Effects[Any]], world: type | None
) -> None:
    replayed = {step for step in steps if world is None or hasattr(world, f"_{step}")}

    assert bound(effects) == {step: step for step in steps}
    assert set(steps) - replayed <= {"retreat"}  # which the replay begins from outside


def test_a_crossing_lacks_only_the_step_that_its_forced_end_adds() -> None:
    assert bound(StepsWithoutOrigin).items() - bound(CrossingSteps).items() == {
        ("end_without_origin", "end_without_origin")
    }


def test_every_step_that_all_moves_take_is_in_both_plans() -> None:
    both = set(get_args(planner.Step)) | set(get_args(crossing_stages.Step))
    shared = {name for name in both if hasattr(MoveSteps, name)}

    assert shared <= set(get_args(planner.Step))
    assert shared <= set(get_args(crossing_stages.Step))


def test_every_kind_of_operation_is_in_the_table() -> None:
    kinds = [get_args(kind.model_fields["kind"].annotation) for kind in get_args(AnyKind)]

    assert KINDS.keys() == {name for names in kinds for name in names}
