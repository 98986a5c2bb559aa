"""Running operations: start, go on, undo, release. Any process can be killed anywhere, and another one goes on.

What an interrupted run has left is said by the documents, never by memory. From `cut` on there is only forward; whether
there is a way back before it, and which, the plan of its kind says (`plan/move`, `plan/crossing_stages`).

What an operation does is its kind's (`kinds`), by the planner's steps. The engine holds it meanwhile, brings others to
their end that it asks for, and reports.
"""

from __future__ import annotations

from typing import Any

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import MoveRequest, Operation, SwitchOperation
from ha_core.model.operation import Unread
from ha_core.operations.caretaking import Caretaking
from ha_core.operations.creating import Startable, await_free, begin, quiet_s
from ha_core.operations.creating import held as is_held
from ha_core.operations.environment import Environment
from ha_core.operations.errors import MoveError, RefusedError, StepFailedError
from ha_core.operations.journal import Journal, held
from ha_core.operations.kind import Work
from ha_core.operations.kinds import KINDS
from ha_core.operations.registry import running_operations
from ha_core.operations.report import Report, report_of
from ha_core.plan.abandoned import AT_ONCE_S
from ha_core.plan.revision import FINAL, MoveDamagedError
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
    """
    if operation_id is not None and (created := environment.operation(operation_id)) is not None:
        return created
    take_care(environment)
    chosen.require_sound()
    await_free(environment, chosen.waits_for)
    if recheck:
        chosen = chosen.judged_again(environment)
    for ending in chosen.ends_first:
        environment.say(f"operation {ending.operation} crosses over from a dead cluster: ending it without that")
        report = resume(environment, ending.operation, without_origin=ending.unread, force=ending.force)
        if report.result != "succeeded":
            raise RefusedError(f"The crossing of operation {ending.operation} could not be ended: {report.error}")
    return begin(environment, chosen, operation_id)


def run_task(environment: Environment, operation_id: str, task: str) -> Operation:
    """Run one of the tasks of its kind if it is still to be done. Before the cut, a failure undoes it at once.

    :raises StepFailedError: the task failed; the text says that the operation was undone.
    :raises RefusedError: no such operation, or somebody alive works on it.
    """
    take_care(environment)
    with held(environment, operation_id) as journal:
        kind, state = KINDS[journal.operation.kind], journal.operation.state
        if task not in kind.tasks:
            known = ", ".join(kind.tasks) or "none"
            raise RefusedError(f"A {journal.operation.kind} has no task {task!r}. Its tasks: {known}.")
        if state not in FINAL:
            _drive(environment, kind.run_task(journal, task))
        elif state != "succeeded":
            why = journal.operation.result or "no reason was written"
            raise StepFailedError(f"Operation {operation_id} has ended as {state}: {why}")
        return journal.operation


def resume(
    environment: Environment,
    operation_id: str,
    at_once: bool = False,
    *,
    without_origin: Unread | None = None,
    force: bool = False,
) -> Report:
    """Run what is left of an operation to its end, or until its cuts are ahead of their logs. Failures are in the
    report, not raised.

    :param at_once: end a crossing now, behind a fence.
    :param without_origin: end it now although its origin is dead, and what readers below the cuts do then.
    :param force: with it, take the origin for dead although it answers.
    :raises RefusedError: no such operation, somebody alive works on it, or it has no crossing to end.
    """
    with held(environment, operation_id) as journal:
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
    with held(environment, operation_id) as journal:
        KINDS[journal.operation.kind].undo(journal)
        return report_of(journal.environment, journal.operation)


def release(environment: Environment, operation_id: str) -> Report | None:
    """Teardown: leave neither a fence nor a lock, unless a crossing goes on. None if it was never created."""
    if environment.operation(operation_id) is None:
        return None
    with held(environment, operation_id) as journal:
        if journal.operation.state in FINAL:
            journal.release()
        elif not KINDS[journal.operation.kind].release(journal):
            return _to_the_end(journal)
        return report_of(journal.environment, journal.operation)


def settle_interrupted(environment: Environment, request: MoveRequest) -> Report | None:
    """Continue, before a new switch, its interrupted twin; its report if it has succeeded: nothing is left to do."""
    take_care(environment)
    if (twin := interrupted_twin(environment, request)) is None:
        return None
    environment.say(f"operation {twin.id} of {twin.by} was interrupted; continuing it")
    report = resume(environment, twin.id)
    environment.say(f"operation {twin.id}: {report.result}")
    return report if report.result == "succeeded" else None


def interrupted_twin(environment: Environment, request: MoveRequest) -> Operation | None:
    """An operation that was asked for with the same words, whatever its reason, by a command that has died.

    One of a run of Airflow is never taken for that: between two tasks nobody holds it, for as long as a slot or an
    approval takes. Whether it is continued or undone its own run says, or an operator who names it.
    """
    words = {"reason": request.reason, "drain_timeout_s": request.drain_timeout_s}
    for operation in running_operations(environment):
        if (
            isinstance(operation, SwitchOperation)
            and operation.driver == "command"
            and operation.request.model_copy(update=words) == request
            and not is_held(environment, operation)
            and quiet_s(environment, operation) >= BEGUN_S
        ):
            return operation
    return None


def take_care(environment: Environment) -> None:
    """Before anything begins: resume one operation that its executor left while clients wait for it."""
    caretaking = Caretaking(environment)
    caretaking.look()
    while caretaking.waiting:
        environment.sleep(AT_ONCE_S / 2)
        for operation_id in caretaking.look():
            environment.say(f"operation {operation_id} was left by its executor: going on with it")
            environment.say(f"operation {operation_id}: {attend(caretaking, operation_id)}")
            return


def attend(caretaking: Caretaking, operation_id: str) -> str:
    """Bring an operation that was left to its end, as far as it goes; what came of it, in words."""
    caretaking.attempted(operation_id)
    try:
        report = resume(caretaking.environment, operation_id)
    except FAILURES as error:
        return f"cannot be brought to its end: {error}"
    return f"{report.result} {report.error}".rstrip()


def _to_the_end(journal: Journal[Any], at_once: bool = False) -> Report:
    failure = ""
    try:
        _drive(journal.environment, KINDS[journal.operation.kind].advance(journal, at_once))
    except FAILURES as error:
        failure = str(error)
    return report_of(journal.environment, journal.operation, failure)


def _drive(environment: Environment, work: Work) -> None:
    """Do the work, and run the operations to their end that it asks for."""
    try:
        operation_id = next(work)
        while True:
            try:
                report = resume(environment, operation_id)
            except Exception as error:
                operation_id = work.throw(error)
            else:
                operation_id = work.send(report)
    except StopIteration:
        return
