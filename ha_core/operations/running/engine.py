"""Running operations: start, continue, undo, release. Any process can be killed anywhere, and another one continues.

The state of an interrupted run is in its documents, never in memory. After `cut` there is only forward; before it the
plan of the kind decides whether there is a way back, and which (`plan/move/planner`, `plan/migration/crossing_stages`).

An operation's kind (`KINDS`) performs it, by the planner's steps. The engine holds it meanwhile, completes others when
a step needs that, and reports.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import MoveRequest, Operation
from ha_core.model.move_request import UnreadPolicy
from ha_core.operations.clusters.registered import running_operations
from ha_core.operations.engine.creating import Startable, await_free, create_operation, interrupted
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import MoveError, RefusedError, StepFailedError
from ha_core.operations.engine.journal import ASKED_FOR, Journal, holding
from ha_core.operations.engine.kind import Kind
from ha_core.operations.engine.orphan_recovery import OrphanRecovery
from ha_core.operations.engine.report import Report, report_of
from ha_core.operations.engine.single import Single
from ha_core.operations.flows.interrupted_group_moves import MoveGroup
from ha_core.operations.migration.aging import Age
from ha_core.operations.migration.crossing.migrate import Migrate
from ha_core.operations.migration.topic_deletion import Delete
from ha_core.operations.mirror.linking import Link
from ha_core.operations.mirror.unlinking import Unlink
from ha_core.operations.move.switch import Switch
from ha_core.plan.engine.abandoned import AT_ONCE_S
from ha_core.plan.engine.revision import FINAL, MoveDamagedError
from ha_core.plan.facts.verdict import Verdict
from ha_core.store.errors import StoreError

FAILURES = (MoveError, StoreError, KafkaAdminError, MoveDamagedError)
"""Errors that keep an operation from continuing. Anything else is a defect."""
BEGUN_S = 2.0
"""Longer than the time from an operation's beginning until its command holds it."""
_KINDS: tuple[type[Kind], ...] = (Single, Age, Unlink, Delete, MoveGroup, Switch, Migrate, Link)
"""A later kind overrides names of an earlier one."""
KINDS: Mapping[str, Kind] = {name: kind() for kind in _KINDS for name in kind.names}
"""The only place that maps an operation to its effects."""


def start(
    environment: Environment, chosen: Startable, operation_id: str | None = None, recheck: bool = True
) -> Operation:
    """Create an operation with all its locks; nothing else is changed. One of a killed run is found by `operation_id`.

    :param recheck: judge the current state again.
    :raises RefusedError: a verdict is an error, it would do something else now, or another operation has a lock.
    :raises StepFailedError: as RefusedError, after a crossing was ended; the text names that.
    """
    if operation_id is not None and (created := environment.operation(operation_id)) is not None:
        return created
    recover_one(environment)
    chosen.require_sound()
    shown = chosen.judged
    await_free(environment, chosen.waits_for)
    if recheck:
        chosen = chosen.judged_again(environment)
    ended: list[str] = []
    try:
        crossings, unread, force = chosen.ends_first
        for crossing in crossings:
            environment.say(f"operation {crossing} crosses over from a dead cluster: ending it without that cluster")
            report = resume(environment, crossing, without_origin=unread, force=force)
            ended.append(crossing)
            if report.result != "succeeded":
                raise StepFailedError(f"The crossing of operation {crossing} is {report.result}: {report.error}")
        return create_operation(environment, chosen, operation_id, shown)
    except RefusedError as error:
        if not ended:
            raise
        raise _after(error, "Ended without their origin", ended) from error


def run_task(environment: Environment, operation_id: str, task: str) -> Operation:
    """Run one of the tasks of its kind unless it is done. Before the cut, a failure undoes the operation at once.

    :raises StepFailedError: the task failed; the text says that the operation was undone.
    :raises RefusedError: no such operation, or a live executor works on it.
    """
    recover_one(environment)
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
    """Run an operation to its end, or until its cuts are ahead of their logs. Failures are in the report, not raised.

    :param at_once: end a crossing now, under a fence.
    :param without_origin: end it now although its origin is dead; the policy for readers below the cuts.
    :param force: with it, take the origin for dead although it answers.
    :raises RefusedError: no such operation, a live executor works on it, or it has no crossing to end.
    """
    with holding(environment, operation_id, resume) as journal:
        if without_origin is not None:
            try:
                KINDS[journal.operation.kind].end_without_origin(journal, without_origin, force)
            except MoveDamagedError as error:
                raise StepFailedError(f"{error}.") from error
        return _to_the_end(journal, at_once)


def undo(environment: Environment, operation_id: str, reason: str = "") -> Report:
    """Undo the operation. Safe to repeat.

    :param reason: the operator's, for the history; "" if none was given.
    :raises RefusedError: the cut is published; the way back is a switch the other way.
    """
    with holding(environment, operation_id, resume) as journal:
        if reason.strip():
            journal.asked_for = f"{ASKED_FOR}: {reason.strip()}"
        KINDS[journal.operation.kind].undo(journal)
        return report_of(journal.environment, journal.operation)


def release(environment: Environment, operation_id: str) -> Report | None:
    """Teardown: remove fences and locks, unless a crossing continues. None if it was never created."""
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
    """Interrupted operations of a move that were continued, and have succeeded or cross over now."""

    left: dict[str, None]
    """Entries of the scope that are still to be moved."""
    reports: list[Report] = field(default_factory=list)

    @property
    def whole(self) -> Report | None:
        """The report of the move if nothing of it is left: that of the first failure, if there is one."""
        if not self.reports or self.left:
            return None
        return next((report for report in self.reports if report.error), self.reports[-1])

    @contextmanager
    def before(self) -> Iterator[None]:
        """Makes a later refusal say that something was changed, and by which operations.

        :raises StepFailedError: in place of a RefusedError.
        """
        try:
            yield
        except RefusedError as error:
            if not self.reports:
                raise
            raise _after(error, "Continued", [report.operation for report in self.reports]) from error


def _after(error: RefusedError, what: str, operations: Iterable[str]) -> StepFailedError:
    return StepFailedError(f"{error.reason} {what} before: operations {', '.join(operations)}.")


def continue_twins(environment: Environment, request: MoveRequest) -> Continued:
    """Before a new move, continue interrupted operations of the same request. Open crossings count as moved.

    :raises RefusedError: another process continues one of them by now; nothing was continued.
    :raises StepFailedError: as RefusedError, after others were continued.
    """
    recover_one(environment)
    continued = Continued(dict.fromkeys(request.scope.entries))
    for twin in interrupted_twins(environment, request):
        environment.say(f"operation {twin.id} of {twin.by} was interrupted; continuing it")
        with continued.before():
            report = resume(environment, twin.id)
        environment.say(f"operation {twin.id}: {report.words}")
        if report.result in {"succeeded", "crossing"}:
            continued.reports.append(report)
            _take_out(continued.left, twin)
    if continued.reports:
        for operation in running_operations(environment):
            if operation.state == "crossing" and KINDS[operation.kind].repeats(operation, request):
                _take_out(continued.left, operation)
    return continued


def _take_out(left: dict[str, None], operation: Operation) -> None:
    for entry in operation.about:
        left.pop(entry, None)


def interrupted_twins(environment: Environment, request: MoveRequest) -> list[Operation]:
    """Operations of an equal request, apart from the reason, whose command has died; the oldest first.

    Operations of Airflow runs are left out: between two tasks no executor holds them, while a slot or an approval is
    awaited. Their own run continues or undoes them, or an operator by their id.
    """
    return [
        operation
        for operation in reversed(running_operations(environment))
        if operation.driver == "command"
        and KINDS[operation.kind].repeats(operation, request)
        and interrupted(environment, operation, BEGUN_S)
    ]


def recover_one(environment: Environment) -> None:
    """Before an operation begins: resume one orphan that clients wait for."""
    recovery = OrphanRecovery(environment)
    recovery.find()
    while recovery.waiting:
        environment.sleep(AT_ONCE_S / 2)
        for operation_id in recovery.find():
            environment.say(f"operation {operation_id} was left by its executor: continuing it")
            environment.say(f"operation {operation_id}: {resume_orphan(recovery, operation_id)}")
            return


def end_interrupted(environment: Environment, *lock_keys: str) -> None:
    """Before an operation of one revision begins: end those of dead processes that have one of its locks. Where no
    gateway runs, no other process does."""
    for name in sorted({lock.operation for lock in environment.store.locks() if lock.key in lock_keys}):
        operation = environment.operation(name)
        if operation is not None and operation.ATOMIC and interrupted(environment, operation, BEGUN_S):
            environment.say(f"operation {name} of {operation.by} was interrupted; ending it")
            environment.say(f"operation {name}: {resume(environment, name).words}")


def resume_orphan(recovery: OrphanRecovery, operation_id: str) -> str:
    """Bring an orphan to its end as far as possible; returns the result in words."""
    recovery.attempted(operation_id)
    try:
        report = resume(recovery.environment, operation_id)
    except FAILURES as error:
        return f"cannot be ended: {error}"
    return report.words


def _to_the_end(journal: Journal[Any], at_once: bool = False) -> Report:
    failure, verdicts = "", tuple[Verdict, ...]()
    kind = KINDS[journal.operation.kind]
    try:
        (kind.end_now if at_once else kind.advance)(journal)
    except FAILURES as error:
        failure, verdicts = str(error), error.verdicts if isinstance(error, MoveError) else ()
    return report_of(journal.environment, journal.operation, failure, verdicts)
