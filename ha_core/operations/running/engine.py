"""Running operations: start, go on, undo, release. Any process can be killed anywhere, and another one goes on.

What an interrupted run has left is said by the documents, never by memory. From `cut` on there is only forward; whether
there is a way back before it, and which, the plan of its kind says (`plan/move/planner`,
`plan/migration/crossing_stages`).

What an operation does is its kind's (`kinds`), by the planner's steps. The engine holds it meanwhile, completes others
where a step needs that, and reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import MoveRequest, Operation
from ha_core.model.operation import UnreadPolicy
from ha_core.operations.clusters.registered import running_operations
from ha_core.operations.engine.creating import Startable, await_free, begin, interrupted
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import NOTHING_CHANGED, MoveError, RefusedError, StepFailedError
from ha_core.operations.engine.journal import Journal, holding
from ha_core.operations.engine.orphan_recovery import OrphanRecovery
from ha_core.operations.engine.report import Report, report_of
from ha_core.operations.running.kinds import KINDS
from ha_core.plan.engine.abandoned import AT_ONCE_S
from ha_core.plan.engine.revision import FINAL, MoveDamagedError
from ha_core.plan.facts.verdict import Verdict
from ha_core.store.errors import StoreError

FAILURES = (MoveError, StoreError, KafkaAdminError, MoveDamagedError)
"""What keeps an operation from going on. Anything else is a defect."""
BEGUN_S = 2.0
"""Longer than between the beginning of an operation and the moment when its command holds it."""


def start(
    environment: Environment, chosen: Startable, operation_id: str | None = None, recheck: bool = True
) -> Operation:
    """Create an operation with all its locks; nothing else is changed. One of a killed run is found by `operation_id`.

    :param recheck: judge the state once more.
    :raises RefusedError: a verdict is an error, it would do something else now, or another operation has a lock.
    :raises StepFailedError: the same, after a crossing was ended; the text says which.
    """
    if operation_id is not None and (created := environment.operation(operation_id)) is not None:
        return created
    take_care(environment)
    chosen.require_sound()
    await_free(environment, chosen.waits_for)
    if recheck:
        chosen = chosen.judged_again(environment)
    ended: list[str] = []
    try:
        crossings, unread, force = chosen.ends_first
        for crossing in crossings:
            environment.say(f"operation {crossing} crosses over from a dead cluster: ending it without that")
            report = resume(environment, crossing, without_origin=unread, force=force)
            ended.append(crossing)
            if report.result != "succeeded":
                raise StepFailedError(f"The crossing of operation {crossing} is {report.result}: {report.error}")
        return begin(environment, chosen, operation_id)
    except RefusedError as error:
        if not ended:
            raise
        raise _after(error, "Ended without their origin", ended) from error


def run_task(environment: Environment, operation_id: str, task: str) -> Operation:
    """Run one of the tasks of its kind if it is still to be done. Before the cut, a failure undoes it at once.

    :raises StepFailedError: the task failed; the text says that the operation was undone.
    :raises RefusedError: no such operation, or somebody alive works on it.
    """
    take_care(environment)
    with holding(environment, operation_id, resume) as journal:
        kind, state = KINDS[journal.operation.kind], journal.operation.state
        if task not in kind.tasks:
            known = ", ".join(kind.tasks) or "none"
            raise RefusedError(f"A {journal.operation.kind} has no task {task!r}. Its tasks: {known}.")
        if state not in FINAL:
            kind.run_task(journal, task)
        elif state != "succeeded":
            why = journal.operation.result or "no reason was written"
            raise StepFailedError(f"Operation {operation_id} has ended as {state}: {why}")
        return journal.operation


def resume(
    environment: Environment,
    operation_id: str,
    at_once: bool = False,
    *,
    without_origin: UnreadPolicy | None = None,
    force: bool = False,
) -> Report:
    """Run what is left of an operation to its end, or until its cuts are ahead of their logs. Failures are in the
    report, not raised.

    :param at_once: end a crossing now, behind a fence.
    :param without_origin: end it now although its origin is dead, and what readers below the cuts do then.
    :param force: with it, take the origin for dead although it answers.
    :raises RefusedError: no such operation, somebody alive works on it, or it has no crossing to end.
    """
    with holding(environment, operation_id, resume) as journal:
        if without_origin is not None:
            try:
                KINDS[journal.operation.kind].end_without_origin(journal, without_origin, force)
            except MoveDamagedError as error:
                raise StepFailedError(f"{error}.") from error
        return _to_the_end(journal, at_once)


def undo(environment: Environment, operation_id: str) -> Report:
    """Undo what the operation did. Already undone: nothing is done.

    :raises RefusedError: the cut is published; the way back is a switch the other way.
    """
    with holding(environment, operation_id, resume) as journal:
        KINDS[journal.operation.kind].undo(journal)
        return report_of(journal.environment, journal.operation)


def release(environment: Environment, operation_id: str) -> Report | None:
    """Teardown: leave neither a fence nor a lock, unless a crossing goes on. None if it was never created."""
    if environment.operation(operation_id) is None:
        return None
    with holding(environment, operation_id, resume) as journal:
        if journal.operation.state in FINAL:
            journal.release()
        elif not KINDS[journal.operation.kind].release(journal):
            return _to_the_end(journal)
        return report_of(journal.environment, journal.operation)


@dataclass
class Continued:
    """What was interrupted of a move, and has succeeded or crosses over now."""

    left: dict[str, None]
    """Entries of the scope that are still to be moved."""
    reports: list[Report] = field(default_factory=list)

    @property
    def whole(self) -> Report | None:
        """The report of the move where nothing of it is left: that of what did not go well, if there is one."""
        if not self.reports or self.left:
            return None
        return next((report for report in self.reports if report.error), self.reports[-1])

    @contextmanager
    def before(self) -> Iterator[None]:
        """A refusal of what comes after says that something was changed, and what.

        :raises StepFailedError: in place of a RefusedError.
        """
        try:
            yield
        except RefusedError as error:
            if not self.reports:
                raise
            raise _after(error, "Continued", [report.operation for report in self.reports]) from error


def _after(error: RefusedError, what: str, operations: Iterable[str]) -> StepFailedError:
    text = str(error).replace(NOTHING_CHANGED, "").replace(" Nothing was changed by this run.", "")
    return StepFailedError(f"{text} {what} before: operations {', '.join(operations)}.")


def continue_twins(environment: Environment, request: MoveRequest) -> Continued:
    """Continue, before a new move, what was interrupted of the same. What crosses over by itself is not left either.

    :raises RefusedError: somebody else goes on with one of them by now; nothing was continued.
    :raises StepFailedError: the same, after others were continued.
    """
    take_care(environment)
    found = Continued(dict.fromkeys(request.scope.entries))
    for twin in interrupted_twins(environment, request):
        environment.say(f"operation {twin.id} of {twin.by} was interrupted; continuing it")
        with found.before():
            report = resume(environment, twin.id)
        environment.say(f"operation {twin.id}: {report.words}")
        if report.result in {"succeeded", "crossing"}:
            found.reports.append(report)
            _take_out(found.left, twin)
    if found.reports:
        for one in running_operations(environment):
            if one.state == "crossing" and KINDS[one.kind].asked_again(one, request):
                _take_out(found.left, one)
    return found


def _take_out(left: dict[str, None], operation: Operation) -> None:
    for entry in operation.about:
        left.pop(entry, None)


def interrupted_twins(environment: Environment, request: MoveRequest) -> list[Operation]:
    """Operations that were asked for with the same words, whatever their reason, by a command that has died; the oldest
    first.

    One of a run of Airflow is never taken for that: between two tasks nobody holds it, for as long as a slot or an
    approval takes. Whether it is continued or undone its own run says, or an operator who names it.
    """
    return [
        operation
        for operation in reversed(running_operations(environment))
        if operation.driver == "command"
        and KINDS[operation.kind].asked_again(operation, request)
        and interrupted(environment, operation, BEGUN_S)
    ]


def take_care(environment: Environment) -> None:
    """Before anything begins: resume one operation that its executor left while clients wait for it."""
    caretaking = OrphanRecovery(environment)
    caretaking.look()
    while caretaking.waiting:
        environment.sleep(AT_ONCE_S / 2)
        for operation_id in caretaking.look():
            environment.say(f"operation {operation_id} was left by its executor: going on with it")
            environment.say(f"operation {operation_id}: {attend(caretaking, operation_id)}")
            return


def attend(caretaking: OrphanRecovery, operation_id: str) -> str:
    """Bring an operation that was left to its end, as far as it goes; what came of it, in words."""
    caretaking.attempted(operation_id)
    try:
        report = resume(caretaking.environment, operation_id)
    except FAILURES as error:
        return f"cannot be brought to its end: {error}"
    return report.words


def _to_the_end(journal: Journal[Any], at_once: bool = False) -> Report:
    failure, verdicts = "", tuple[Verdict, ...]()
    try:
        KINDS[journal.operation.kind].advance(journal, at_once)
    except FAILURES as error:
        failure, verdicts = str(error), error.verdicts if isinstance(error, MoveError) else ()
    return report_of(journal.environment, journal.operation, failure, verdicts)
