"""Advances open crossings: for commands that wait for them, sensors and scheduled runs.

A look changes nothing and takes nothing over, so many processes may look at one crossing. Only when there is something
to do, one of them resumes it.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import MoveOperation
from ha_core.operations.clusters.registered import known_operation, running_operations
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import MoveError
from ha_core.operations.engine.kind import WaitingProgress
from ha_core.operations.move.dependents import failure
from ha_core.operations.running import engine
from ha_core.operations.running.engine import KINDS
from ha_core.plan.engine.revision import FINAL, MoveDamagedError
from ha_core.store.errors import StoreError

FIRST_POLL_S, LONGEST_POLL_S = 0.2, 5.0
SAY_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class CrossingStatus:
    """The result of one look at an operation."""

    operation: MoveOperation
    progress: WaitingProgress | None = None
    error: str = ""

    @property
    def words(self) -> str:
        """Its progress. `progress` was read before it was resumed, so for an ended operation it means nothing."""
        if self.error or self.ended:
            return self.error or self.operation.result or "nothing is left to do"
        return self.progress.words if self.progress else ""

    @property
    def ended(self) -> bool:
        return self.operation.state in FINAL

    def to_json(self) -> dict[str, str]:
        progress = self.progress.words if self.progress else ""
        state, error = self.operation.state, self.error
        return {"operation": self.operation.id, "state": state, "progress": progress, "error": error}


def crossing_operations(environment: Environment) -> tuple[str, ...]:
    """Ids of the migrations that cross over, or were interrupted during it."""
    running = (operation for operation in running_operations(environment) if operation.CROSSES)
    return tuple(operation.id for operation in running if operation.state in {"crossing", "fenced", "undoing", "cut"})


def advance_once(environment: Environment, operation_id: str) -> CrossingStatus:
    """Look at the operation, and resume it if there is something to do. Errors are in the result."""
    operation = known_operation(environment, operation_id, MoveOperation)
    if operation.state in FINAL:
        return CrossingStatus(operation, error=failure(operation, environment.store.load()))
    progress = None
    try:
        if look := KINDS[operation.kind].look(environment, operation):
            progress = look.progress
            if not look.due:
                return CrossingStatus(operation, progress)
        report = engine.resume(environment, operation_id)
    except (MoveError, KafkaAdminError, MoveDamagedError, StoreError) as error:
        return CrossingStatus(operation, progress, error=str(error))
    now = environment.operation_of(MoveOperation, operation_id) or operation
    return CrossingStatus(now, progress, report.error or failure(now))


def anything_due(environment: Environment, operation_ids: Collection[str]) -> bool:
    """Whether `advance_once` would resume one of them, one has failed, or all have ended. Changes nothing.

    An operation that cannot be looked at now counts as not due.
    """
    operations = [environment.operation(operation_id) for operation_id in operation_ids]
    left = [operation for operation in operations if operation is not None and operation.state not in FINAL]
    if not left or any(operation is None or operation.state in {"failed", "undone"} for operation in operations):
        return True
    for operation in left:
        with suppress(MoveError, KafkaAdminError, MoveDamagedError):
            look = KINDS[operation.kind].look(environment, operation)
            if look is None or look.due:
                return True
    return False


def wait_for(
    environment: Environment, operation_ids: Collection[str], timeout_s: float | None = None
) -> list[CrossingStatus]:
    """Look until all operations have ended, or `timeout_s` is over; reports their progress."""
    deadline = None if timeout_s is None else environment.monotonic() + timeout_s
    reported: dict[str, object] = {}
    pause_s, say_at = FIRST_POLL_S, environment.monotonic()
    while True:
        looks = [advance_once(environment, operation_id) for operation_id in operation_ids]
        moved = False
        for status in looks:
            words = status.words
            # Compares positions, not words: an estimate of time changes while nothing else does.
            at = words if status.error or status.ended else (status.progress.at if status.progress else "")
            if words and reported.get(status.operation.id) != at:
                moved = True
                if status.ended or status.error or environment.monotonic() >= say_at:
                    environment.say(f"{status.operation.id}: {words}")
                    reported[status.operation.id] = at
        if environment.monotonic() >= say_at:
            say_at = environment.monotonic() + SAY_EVERY_S
        if all(crossing_status.ended for crossing_status in looks) or (
            deadline is not None and environment.monotonic() >= deadline
        ):
            return looks
        pause_s = FIRST_POLL_S if moved else min(pause_s * 1.5, LONGEST_POLL_S)
        environment.sleep(pause_s)
