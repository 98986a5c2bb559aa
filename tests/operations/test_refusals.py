"""A refused change says first that nothing was changed; code reads its fields, never its text."""

import pytest

from ha_core.operations.engine.errors import MoveError, RefusedError, StepFailedError, unchanged
from ha_core.operations.engine.report import require_no_errors
from ha_core.plan.facts.verdict import error


def test_a_refused_change_says_that_nothing_was_changed_and_why() -> None:
    refused_error = unchanged("Topic orders is locked.")

    assert str(refused_error) == "Nothing was changed. Topic orders is locked."
    assert (refused_error.changed, refused_error.reason) == (False, "Topic orders is locked.")


@pytest.mark.parametrize("move_error", [RefusedError("No such topic."), StepFailedError("The copy differs.")])
def test_an_error_of_another_request_says_its_reason_alone(move_error: MoveError) -> None:
    assert move_error.changed is None
    assert str(move_error) == move_error.reason


def test_a_refusal_by_verdicts_has_their_remedies_in_its_reason() -> None:
    verdict = error("locked", "topic orders", "It is locked.", "Wait.")

    with pytest.raises(RefusedError) as raised:
        require_no_errors([verdict])

    assert (raised.value.reason, raised.value.changed) == (verdict.words, False)
    assert raised.value.verdicts == (verdict,)
