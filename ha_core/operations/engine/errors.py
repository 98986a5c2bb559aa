"""Errors that stop an operation, by their consequence for the operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ha_core.plan.facts.verdict import Verdict


class MoveError(Exception):
    """Base. The reason is one paragraph that names the thing, the value and the way out.

    `verdicts` have the same by code and number, where there is a code for it. `changed` is False for a refused
    change: people read that before the reason. None: no change was requested, or the reason names the changes.
    """

    def __init__(self, reason: str, verdicts: Sequence[Verdict] = (), changed: bool | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.verdicts = tuple(verdicts)
        self.changed = changed

    def __str__(self) -> str:
        return f"Nothing was changed. {self.reason}" if self.changed is False else self.reason


class RefusedError(MoveError):
    """The request cannot be carried out as given. This call changed nothing; `changed=False` makes the text say so."""


def refused_direct(group: str, pattern: str) -> RefusedError:
    """A direct group cannot be a gateway client's."""
    return RefusedError(
        f"Group {group} is a direct group ({pattern!r}), which gateways refuse. Give clients of gateways another "
        f"group, or `switchyard direct-groups remove {pattern!r}`."
    )


def unchanged(reason: str, verdicts: Sequence[Verdict] = ()) -> RefusedError:
    """A refused change."""
    return RefusedError(reason, verdicts, changed=False)


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
