"""What can stop an operation, by what it means for the operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ha_core.plan.facts.verdict import Verdict


NOTHING_CHANGED = "Nothing was changed. "


class MoveError(Exception):
    """Base. The text is one paragraph that names the thing, the value and the way out.

    `verdicts` say the same by code and number, where what is the matter has some.
    """

    def __init__(self, text: str, verdicts: Sequence[Verdict] = ()) -> None:
        super().__init__(text)
        self.verdicts = tuple(verdicts)


class RefusedError(MoveError):
    """The request cannot be carried out as given. Nothing was changed."""


def unchanged(text: str, verdicts: Sequence[Verdict] = ()) -> RefusedError:
    """Refused, and the text says that nothing was changed."""
    return RefusedError(f"{NOTHING_CHANGED}{text}", verdicts)


class StepFailedError(MoveError):
    """A step failed. The text says how the operation stands: undone, going on, or ended."""


class NotDrainedError(StepFailedError):
    """Gateways did not report the fence drained in time."""


class BypassError(MoveError):
    """Somebody appends to what moves without passing through the gateways, behind the fence or beyond the cut.

    What that means is for the state to say: before the cut the operation is undone, after it the cut stays in force.
    """


class NotServedError(MoveError):
    """A published revision is not served by every gateway yet. It stays in force."""
