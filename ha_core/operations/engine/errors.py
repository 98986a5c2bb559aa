"""Errors that stop an operation, by their consequence for the operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ha_core.plan.facts.verdict import Verdict


NOTHING_CHANGED = "Nothing was changed. "


class MoveError(Exception):
    """Base. The text is one paragraph that names the thing, the value and the way out.

    `verdicts` have the same by code and number, where there is a code for it.
    """

    def __init__(self, text: str, verdicts: Sequence[Verdict] = ()) -> None:
        super().__init__(text)
        self.verdicts = tuple(verdicts)


class RefusedError(MoveError):
    """The request cannot be carried out as given. Nothing was changed."""


def unchanged(text: str, verdicts: Sequence[Verdict] = ()) -> RefusedError:
    """A refusal with `NOTHING_CHANGED` before its text."""
    return RefusedError(f"{NOTHING_CHANGED}{text}", verdicts)


class StepFailedError(MoveError):
    """A step failed. The text says whether the operation was undone, continues, or has ended."""


class NotDrainedError(StepFailedError):
    """Gateways did not report the fence drained in time."""


class BypassError(MoveError):
    """A producer appends past the gateways to a topic that moves, after its fence or above its cut.

    The state decides what follows: before the cut the operation is undone, after it the cut stays in force.
    """


class NotServedError(MoveError):
    """A published revision is not served by every gateway yet. It stays in force."""
