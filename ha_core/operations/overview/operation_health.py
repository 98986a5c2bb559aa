"""Problems of operations: those without an executor, and migrations that should have crossed over."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta

from ha_core.model import Operation
from ha_core.model.operation import Driver
from ha_core.operations.engine.creating import QUIET_S, interrupted, quiet_s
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.orphan_recovery import OrphanRecovery
from ha_core.operations.migration.crossing.ends import overdue
from ha_core.plan.engine.abandoned import patience_s
from ha_core.plan.facts.problem import Problem
from ha_core.plan.facts.verdict import duration

WAITING_S: Mapping[Driver, float] = {"command": 60.0, "run": 900.0}
"""Time for which an operation that no client waits for may be without an executor. A command holds its operation; a run
of Airflow pauses between two tasks, for a slot or for an approval."""
LEFT_S = 3.0
"""Live processes resume an operation that clients wait for within this time; after it the operation is orphaned."""
PAUSE_S = 0.2


def operation_problems(environment: Environment, running: Collection[Operation]) -> Iterator[Problem]:
    left = _left(environment)
    for operation in running:
        about, resume = f"operation {operation.id}", f"switchyard resume {operation.id}"
        patience = patience_s(operation, {})
        silent_s = WAITING_S[operation.driver] if patience is None else max(patience, QUIET_S)
        if operation.id in left or interrupted(environment, operation, silent_s):
            stands = " Its fence stands: clients wait." if operation.state == "fenced" else ""
            last = f"its last step was {duration(quiet_s(environment, operation))} ago"
            text = f"It was interrupted: no executor works on it, {last}; it is {operation.state}.{stands}"
            remedy = f"`{resume}`, or `switchyard undo {operation.id}`"
            yield Problem(
                "operation-abandoned", about, text, remedy, resume, since=last_step_at(environment, operation)
            )
        elif overdue(environment, operation):
            barrier = f"{resume} --finish-with-barrier"
            yield Problem("crossing-overdue", about, "It should have crossed over by now.", f"`{barrier}`", barrier)


def last_step_at(environment: Environment, operation: Operation) -> str:
    """UTC, ISO 8601."""
    quiet = timedelta(seconds=quiet_s(environment, operation))
    return (datetime.fromisoformat(environment.now()) - quiet).isoformat(timespec="seconds").replace("+00:00", "Z")


def _left(environment: Environment) -> frozenset[str]:
    """Operations that clients wait for, without executor, and that no process resumes."""
    recovery = OrphanRecovery(environment)
    deadline = environment.monotonic() + LEFT_S
    found = recovery.find()
    while recovery.waiting and environment.monotonic() < deadline:
        environment.sleep(PAUSE_S)
        found = recovery.find()
    return frozenset(found)
