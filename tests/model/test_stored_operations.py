"""Operations stored by earlier versions keep their meaning."""

import json
from typing import Any

import pytest

from ha_core.model import MigrateOperation, Operation, SwitchOperation
from ha_core.model.operation import OperationState
from ha_core.plan.migration import crossing_stages
from ha_core.plan.move import planner

REQUEST = {"scope": {"topics": ["t"]}, "origin": "east", "target": "west", "reason": "r"}
MOVE = {"id": "op-1", "by": "t", "reason": "r", "started": "s", "request": REQUEST, "moves": {"topics": ["t"]}}


def stored(kind: str, state: str, **evidence: Any) -> Operation:
    document = {**MOVE, "kind": kind, "state": state, "evidence": evidence}
    return Operation.from_bytes(json.dumps(document).encode(), "/operations/op-1")


@pytest.mark.parametrize(
    ("kind", "state", "read"),
    [
        ("switch", "running", "undoing"),
        ("migrate", "planned", "undoing"),
        ("migrate", "crossing", "undoing"),
        ("migrate", "undone", "undone"),
        ("switch", "failed", "failed"),
    ],
)
def test_a_way_back_that_was_stored_as_a_flag_is_read_as_a_state(kind: str, state: str, read: OperationState) -> None:
    operation = stored(kind, state, undoing=True)

    assert operation.state == read


def test_a_way_back_that_was_stored_as_a_flag_can_be_given_up() -> None:
    operation = stored("migrate", "crossing", undoing=True, retreated=["t"])

    again = operation.model_copy(update={"state": "crossing"})

    assert Operation.from_bytes(again.to_bytes(), "/operations/op-1").state == "crossing"


def test_a_way_back_that_was_stored_as_a_flag_is_gone_to_its_end() -> None:
    switch = stored("switch", "running", undoing=True)
    assert isinstance(switch, SwitchOperation)
    assert planner.remaining_steps(switch, {}, {}) == planner.UNDO
    migration = stored("migrate", "crossing", undoing=True, retreated=["t"])
    assert isinstance(migration, MigrateOperation)
    assert crossing_stages.remaining_steps(migration, {}) == crossing_stages.BACK[1:]


def test_a_stored_switch_that_took_others_along_says_so_by_the_word_of_today() -> None:
    document = {**MOVE, "kind": "switch", "state": "succeeded", "request": {**REQUEST, "include_followers": True}}

    operation = Operation.from_bytes(json.dumps(document).encode(), "/operations/op-1")

    assert isinstance(operation, SwitchOperation)
    assert operation.request.include_other_users
    assert "include_followers" not in operation.to_bytes().decode()
