"""What became of a run, in one line: pure, from what its tasks have told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

TOLD = "told"
"""Key of what a task tells, beside what it returns."""
DONE, DRY_RUN, NOTHING, REFUSED, FAILED = "DONE", "DRY RUN", "NOTHING TO DO", "REFUSED", "FAILED"
PLANNED = "PLANNED"
"""Told by what looks first; it decides nothing, for a task that acts comes after it."""


@dataclass(frozen=True, slots=True)
class Told:
    """A task, its states (several where it is mapped), and what it has told; an empty `kind`: nothing."""

    task: str
    states: tuple[str, ...]
    kind: str = ""
    text: str = ""
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    line: str
    """The first of a run's result."""
    failed: bool = False
    by: Told | None = None
    """The task whose word decides."""


def outcome(tasks: Sequence[Told], rejected_by: str | None = None) -> Outcome:
    """What became of a run whose `tasks` are given in their order.

    :param rejected_by: who said no, empty where nobody answered in time; None: nobody was asked, or it was approved.
    """
    if failed := next((one for one in tasks if "failed" in one.states), None):
        return Outcome(_failure(failed), failed=True, by=failed)
    if any("upstream_failed" in one.states for one in tasks):
        return Outcome(f"{FAILED}: an earlier task did not run", failed=True)
    if rejected_by is not None:
        who = f"by {rejected_by}" if rejected_by else "because nobody answered in time"
        return Outcome(f"REJECTED {who}: nothing changed")
    said = [one for one in tasks if one.kind in {DONE, DRY_RUN, NOTHING}]
    if not said:
        return Outcome(f"{DONE}: but no task has told what it did; their logs have it")
    return Outcome(f"{said[-1].kind}: {said[-1].text}", by=said[-1])


def _failure(task: Told) -> str:
    text = task.text.removeprefix("Nothing was changed.").strip() if task.kind == REFUSED else task.text
    if task.text and len(task.states) > 1:  # what one batch says of itself is not true of the others
        missed = sum(state != "success" for state in task.states)
        return f"{FAILED} in {task.task}: {missed} of {len(task.states)} did not succeed: {text}"
    if task.kind == REFUSED:
        return f"{REFUSED}: nothing changed. {text}"
    if task.kind == FAILED:
        return f"{FAILED} in {task.task}: {task.text}"
    return f"{FAILED} in {task.task}: it ended without a message: killed, or marked by hand; see its log"
