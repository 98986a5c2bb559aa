"""What became of a run, in one line: pure, from what its tasks have told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ha_core.plan.facts.verdict import Verdict

TOLD = "told"
"""Key of what a task tells, beside what it returns."""
DONE, DRY_RUN, NOTHING, REFUSED, FAILED = "DONE", "DRY RUN", "NOTHING TO DO", "REFUSED", "FAILED"
PLANNED = "PLANNED"
"""Told by what looks first; it decides nothing, for a task that acts comes after it."""
MAX_SHOWN = 250
"""Characters of Airflow's column beside a task. PostgreSQL refuses longer ones, and with them the end of the task."""
MAX_GIST = 90
"""Of them for what is the matter, where there is no room for all of it."""
_SENTENCE = re.compile(r"(?:`[^`]*`|[^`])+?(?:[.?!…](?=\s|$)|$)\s*")
_WAY = re.compile(r"`|(?<![\w-])--[a-z]|\"[A-Z]")
"""A command, an option, or the label of a field: what somebody is to do."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A task, its states (several where it is mapped), and what it has told; an empty `kind`: nothing."""

    task: str
    states: tuple[str, ...]
    kind: str = ""
    text: str = ""
    short: str = ""
    """The text with what to do before its details; empty: nobody has said which is which."""
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    line: str
    """The first of a run's result."""
    short: str = ""
    """The same where there is little room; empty: the line."""
    failed: bool = False
    by: TaskResult | None = None
    """The task whose word decides."""


def outcome(tasks: Sequence[TaskResult], rejected_by: str | None = None) -> RunOutcome:
    """What became of a run whose `tasks` are given in their order.

    :param rejected_by: who said no, empty where nobody answered in time; None: nobody was asked, or it was approved.
    """
    if failed := next((one for one in tasks if "failed" in one.states), None):
        return RunOutcome(_failure(failed), _failure(in_short(failed)), failed=True, by=failed)
    if any("upstream_failed" in one.states for one in tasks):
        return RunOutcome(f"{FAILED}: an earlier task did not run", failed=True)
    if rejected_by is not None:
        who = f"by {rejected_by}" if rejected_by else "because nobody answered in time"
        return RunOutcome(f"REJECTED {who}: nothing changed")
    said = [one for one in tasks if one.kind in {DONE, DRY_RUN, NOTHING}]
    if not said:
        return RunOutcome(f"{DONE}: but no task has told what it did; their logs have it")
    last = said[-1]
    return RunOutcome(f"{last.kind}: {last.text}", f"{last.kind}: {in_short(last).text}", by=last)


def _failure(task: TaskResult) -> str:
    text = task.text.removeprefix("Nothing was changed.").strip() if task.kind == REFUSED else task.text
    if task.text and len(task.states) > 1:  # what one batch says of itself is not true of the others
        missed = sum(state != "success" for state in task.states)
        return f"{FAILED} in {task.task}: {missed} of {len(task.states)} did not succeed: {text}"
    if task.kind == REFUSED:
        return f"{REFUSED}: nothing changed. {text}"
    if task.kind == FAILED:
        return f"{FAILED} in {task.task}: {task.text}"
    return f"{FAILED} in {task.task}: it ended without a message: killed, or marked by hand; see its log"


def in_short(told: TaskResult) -> TaskResult:
    """With what to do before the details, so that whatever is cut off at its end is not that."""
    if told.short:
        return replace(told, text=told.short)
    first, *others = _SENTENCE.findall(told.text.removeprefix("Nothing was changed.").strip()) or [""]
    ways = [one for one in others if _WAY.search(one)]
    if not ways or _WAY.search(first):
        return told
    rest = [one for one in others if one not in ways]
    return replace(told, text=" ".join(one.strip() for one in (cut_off(first.strip(), MAX_GIST), *ways, *rest)))


def refusal_in_short(verdicts: Iterable[Verdict]) -> str:
    """Of the first error, by its code what is the matter, then what to do; empty: none is one."""
    errors = [one for one in verdicts if one.level == "error"]
    if not errors:
        return ""
    first, more = errors[0], f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"{first.about} ({first.code}{more}): {first.remedy} {first.text}"


def shown(found: RunOutcome) -> str:
    """What has room beside a task: the whole line, or as much of it as somebody needs who has to do something."""
    return found.line if len(found.line) <= MAX_SHOWN else cut_off(found.short or found.line)


def cut_off(text: str, most: int = MAX_SHOWN) -> str:
    """At the end of a word, and never within a command: half of one does another thing, or more than it should."""
    if len(text) <= most:
        return text
    ends = [at for at in range(most) if text[at].isspace() and text.count("`", 0, at) % 2 == 0]
    return f"{text[: ends[-1] if ends else most - 1].rstrip(' ,;:')}…"
