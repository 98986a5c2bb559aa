"""A run's outcome in one line, computed from the results of its tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ha_core.plan.facts.verdict import Verdict

TOLD = "told"
"""XCom key of a task's result in words, beside its return value."""
DONE, DRY_RUN, NOTHING, REFUSED, FAILED = "DONE", "DRY RUN", "NOTHING TO DO", "REFUSED", "FAILED"
PLANNED = "PLANNED"
"""Result of a task that only plans. It does not decide the outcome, because a task that acts comes after it."""
MAX_SHOWN = 250
"""Characters of Airflow's column beside a task. PostgreSQL refuses longer texts, and with them the task's end."""
MAX_GIST = 90
"""Characters of those for the problem, if there is no room for all of it."""
_SENTENCE = re.compile(r"(?:`[^`]*`|[^`])+?(?:[.?!…](?=\s|$)|$)\s*")
_WAY = re.compile(r"`|(?<![\w-])--[a-z]|\"[A-Z]")
"""A command, an option, or the label of a field: the remedy."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A task, its states (several if it is mapped), and its result. An empty `kind`: it has reported none."""

    task: str
    states: tuple[str, ...]
    kind: str = ""
    text: str = ""
    short: str = ""
    """The text with the remedy before its details; empty if the task has not separated them."""
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    line: str
    """The first line of a run's result."""
    short: str = ""
    """A shorter line; empty: use `line`."""
    failed: bool = False
    by: TaskResult | None = None
    """The task that decides the outcome."""


def outcome(tasks: Sequence[TaskResult], rejected_by: str | None = None) -> RunOutcome:
    """The outcome of a run whose `tasks` are given in their order.

    :param rejected_by: the user who rejected it, empty after a timeout; None: not asked, or approved.
    """
    if failed := next((one for one in tasks if "failed" in one.states), None):
        return RunOutcome(_failure(failed), _failure(in_short(failed)), failed=True, by=failed)
    if any("upstream_failed" in one.states for one in tasks):
        return RunOutcome(f"{FAILED}: an earlier task did not run", failed=True)
    if rejected_by is not None:
        who = f"by {rejected_by}" if rejected_by else "because there was no answer in time"
        return RunOutcome(f"REJECTED {who}: nothing changed")
    results = [one for one in tasks if one.kind in {DONE, DRY_RUN, NOTHING}]
    if not results:
        return RunOutcome(f"{DONE}: but no task has reported its result; see their logs")
    last = results[-1]
    return RunOutcome(f"{last.kind}: {last.text}", f"{last.kind}: {in_short(last).text}", by=last)


def _failure(task: TaskResult) -> str:
    if task.text and len(task.states) > 1:  # the text of one batch is not true of the others
        missed = sum(state != "success" for state in task.states)
        return f"{FAILED} in {task.task}: {missed} of {len(task.states)} did not succeed: {task.text}"
    if task.kind == REFUSED:
        return f"{REFUSED}: nothing changed. {task.text}"
    if task.kind == FAILED:
        return f"{FAILED} in {task.task}: {task.text}"
    return f"{FAILED} in {task.task}: it ended without a message: killed, or marked by hand; see its log"


def in_short(result: TaskResult) -> TaskResult:
    """Move the remedy before the details, so that only details are cut off at the end."""
    if result.short:
        return replace(result, text=result.short)
    first, *others = _SENTENCE.findall(result.text) or [""]
    ways = [one for one in others if _WAY.search(one)]
    if not ways or _WAY.search(first):
        return result
    rest = [one for one in others if one not in ways]
    return replace(result, text=" ".join(one.strip() for one in (cut_off(first.strip(), MAX_GIST), *ways, *rest)))


def refusal_in_short(verdicts: Iterable[Verdict]) -> str:
    """First error as "subject (code): remedy", or "" if there is none."""
    errors = [one for one in verdicts if one.level == "error"]
    if not errors:
        return ""
    first, more = errors[0], f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"{first.about} ({first.code}{more}): {first.remedy} {first.text}"


def shown(found: RunOutcome) -> str:
    """The text beside a task: the whole line, or its short form with the remedy first."""
    return found.line if len(found.line) <= MAX_SHOWN else cut_off(found.short or found.line)


def cut_off(text: str, most: int = MAX_SHOWN) -> str:
    """Cut at the end of a word, and never within a command: half a command may do something else, or more."""
    if len(text) <= most:
        return text
    ends = [at for at in range(most) if text[at].isspace() and text.count("`", 0, at) % 2 == 0]
    return f"{text[: ends[-1] if ends else most - 1].rstrip(' ,;:')}…"
