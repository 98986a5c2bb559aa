"""A refused change says first that nothing was changed; code reads its fields, never its text."""

from __future__ import annotations

import pytest

from ha_core.operations.engine.errors import MoveError, RefusedError, StepFailedError, unchanged
from ha_core.operations.engine.report import require_no_errors
from ha_core.plan.facts.verdict import error


def test_a_refused_change_says_that_nothing_was_changed_and_why() -> None:
    found = unchanged("Topic orders is locked.")

    assert str(found) == "Nothing was changed. Topic orders is locked."
    assert (found.changed, found.reason) == (False, "Topic orders is locked.")


@pytest.mark.parametrize("found", [RefusedError("No such topic."), StepFailedError("The copy differs.")])
def test_an_error_of_another_request_says_its_reason_alone(found: MoveError) -> None:
    assert found.changed is None
    assert str(found) == found.reason


def test_a_refusal_by_verdicts_has_their_remedies_in_its_reason() -> None:
    verdict = error("locked", "topic orders", "It is locked.", "Wait.")

    with pytest.raises(RefusedError) as raised:
        require_no_errors([verdict])

    assert (raised.value.reason, raised.value.changed) == (verdict.words, False)
    assert raised.value.verdicts == (verdict,)
