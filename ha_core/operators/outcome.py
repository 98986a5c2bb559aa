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
REJECTED = "REJECTED"
PLANNED = "PLANNED"
"""Result of a task that only plans. It does not decide the outcome, because a task that acts comes after it."""
MAX_SHOWN = 250
"""Characters of Airflow's column beside a task. PostgreSQL refuses longer texts, and with them the task's end."""
MAX_GIST = 90
"""Characters of those for the problem, if there is no room for all of it."""
NEXT_ELSEWHERE = "Next: see the tab Outcome of this run"
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
    kind: str
    text: str
    short: str = ""
    """The text with the remedy first; empty: use `text`."""
    where: str = ""
    """The place of a failure, or the reason of a rejection; shown after the kind."""
    failed: bool = False
    by: TaskResult | None = None
    """The task that decides the outcome."""

    @property
    def line(self) -> str:
        """The first line of a run's result."""
        return self._line(self.text)

    @property
    def short_line(self) -> str:
        return self._line(self.short or self.text)

    def _line(self, text: str) -> str:
        return f"{self.kind} {self.where}: {text}" if self.where else f"{self.kind}: {text}"

    def after(self, done: str) -> RunOutcome:
        """The failure of a run that had reached something before: `done` names it."""
        how = self.where or ("" if self.kind == FAILED else self.kind)
        before = f"{done}; {how}: " if how else f"{done}; "
        return replace(self, kind=FAILED, text=before + self.text, short=before + (self.short or self.text), where="")


def outcome(tasks: Sequence[TaskResult], rejected_by: str | None = None) -> RunOutcome:
    """The outcome of a run whose `tasks` are given in their order.

    :param rejected_by: the user who rejected it, empty after a timeout; None: not asked, or approved.
    """
    if failed := next((task for task in tasks if "failed" in task.states), None):
        return replace(_failure(failed), short=_failure(in_short(failed)).text)
    if any("upstream_failed" in task.states for task in tasks):
        return RunOutcome(FAILED, "an earlier task did not run", failed=True)
    if rejected_by is not None:
        who = f"by {rejected_by}" if rejected_by else "because there was no answer in time"
        return RunOutcome(REJECTED, "nothing changed", where=who)
    results = [task for task in tasks if task.kind in {DONE, DRY_RUN, NOTHING}]
    if not results:
        return RunOutcome(DONE, "but no task has reported its result; see their logs")
    last = results[-1]
    return RunOutcome(last.kind, last.text, in_short(last).text, by=last)


def _failure(task: TaskResult) -> RunOutcome:
    failed = RunOutcome(FAILED, task.text, where=f"in {task.task}", failed=True, by=task)
    if task.text and len(task.states) > 1:  # the text of one batch is not true of the others
        missed = sum(state != "success" for state in task.states)
        return replace(failed, text=f"{missed} of {len(task.states)} did not succeed: {task.text}")
    if task.kind == REFUSED:
        return replace(failed, kind=REFUSED, text=f"nothing changed. {task.text}", where="")
    if task.kind == FAILED:
        return failed
    return replace(failed, text="it ended without a message: killed, or marked by hand; see its log")


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
    errors = [verdict for verdict in verdicts if verdict.level == "error"]
    if not errors:
        return ""
    first, more = errors[0], f", and {len(errors) - 1} more" if len(errors) > 1 else ""
    return f"{first.about} ({first.code}{more}): {first.remedy} {first.text}"


def shown(run_outcome: RunOutcome, ending: str = "") -> str:
    """The text beside a task: the whole line, or its short form with the remedy first.

    :param ending: the next step, which is never cut; the page of the run has it where there is no room.
    """
    line = with_ending(run_outcome.line, ending)
    if len(line) <= MAX_SHOWN:
        return line
    short = run_outcome.line if len(run_outcome.line) <= MAX_SHOWN else cut_off(run_outcome.short_line)
    if not ending:
        return short
    for last in (ending, NEXT_ELSEWHERE):
        room = MAX_SHOWN - len(last) - 1
        if room >= MAX_GIST:
            return f"{cut_off(run_outcome.short_line, room)} {last}"
    return short


def with_ending(line: str, ending: str) -> str:
    if not ending:
        return line
    return f"{line} {ending}" if line.endswith((".", "!", "?", "…")) else f"{line}. {ending}"


def cut_off(text: str, max_length: int = MAX_SHOWN) -> str:
    """Cut at the end of a word, and never within a command: half a command may do something else, or more."""
    if len(text) <= max_length:
        return text
    ends = [at for at in range(max_length) if text[at].isspace() and text.count("`", 0, at) % 2 == 0]
    return f"{text[: ends[-1] if ends else max_length - 1].rstrip(' ,;:')}…"
