"""The beginning of an operation: its document with its locks; and what stands in its way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from ha_core.model import MoveRequest, MoveSet, Operation, SwitchOperation
from ha_core.model.operation import UnreadPolicy
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import unchanged
from ha_core.operations.engine.journal import Journal, new_operation_id
from ha_core.plan.engine.revision import FINAL
from ha_core.plan.move.closure import lock_keys
from ha_core.store.errors import ConflictError, LockedError


class Startable(BaseModel):
    """A move that was judged, and begins as an operation: as a switch, where its class says nothing else."""

    model_config = ConfigDict(frozen=True)

    request: MoveRequest
    moves: MoveSet

    @property
    def kind(self) -> str:
        return "switch"

    def begun(self, **common: Any) -> Operation:
        """:param common: the fields that moves of every kind have."""
        return SwitchOperation(**common)

    @property
    def lock_keys(self) -> Sequence[str]:
        return lock_keys(self.request, self.moves)

    @abstractmethod
    def judged_again(self, environment: Environment) -> Startable:
        """Judge the state once more: somebody may have thought about it for hours.

        :raises RefusedError: a verdict is an error, or it would do something else now.
        """

    def require_sound(self) -> None:
        """:raises RefusedError: something speaks against it, by what was found when it was judged."""

    @property
    def waits_for(self) -> Collection[str]:
        """Lock keys that are free in a moment: others of its run have them."""
        return ()

    @property
    def ends_first(self) -> tuple[Collection[str], UnreadPolicy, bool]:
        """Crossings that are ended without their origin, which it takes for dead; what readers do, and whether it may
        answer."""
        return (), "wait", False

    @property
    def told(self) -> dict[str, Any]:
        """For the history, besides who and why."""
        return {}


def begin(environment: Environment, chosen: Startable, operation_id: str | None = None) -> Operation:
    """Create the operation; nothing else is changed. One of the same id that is there already is found again.

    :raises RefusedError: somebody else works on something that it takes along.
    """
    now = environment.now()
    operation_id = operation_id or new_operation_id(chosen.kind, now)
    request = chosen.request
    run = {"id": operation_id, "by": environment.by, "driver": environment.driver, "started": now}
    operation = chosen.begun(**run, reason=request.reason, request=request, moves=chosen.moves)
    try:
        epoch = environment.store.create_operation(operation, chosen.lock_keys)
    except LockedError as error:
        raise unchanged(
            f"{error.key} is locked by operation {error.operation_id} of {error.by} since "
            f"{error.since}. {way_out(error.operation_id, error.by)}"
        ) from error
    except ConflictError:
        if (found := environment.operation(operation.id)) is None:
            raise
        return found
    evidence = {"by": operation.by, "reason": operation.reason, **chosen.told}
    Journal(environment, operation, epoch).append("start", "done", detail=evidence)
    return operation


LOCK_PATIENCE_S, LOCK_PAUSE_S = 30.0, 0.2
"""Two batches may have groups of one user, and each locks the user for the second that it takes."""


def await_free(environment: Environment, keys: Collection[str]) -> None:
    """Until all of the locks are free, or the patience is over."""
    deadline = environment.monotonic() + LOCK_PATIENCE_S
    said = False
    while environment.monotonic() < deadline:
        held = [lock for lock in environment.store.locks() if lock.key in keys]
        if not held:
            break
        if not said:
            environment.say(f"{held[0].key} is locked by operation {held[0].operation}: waiting for it")
            said = True
        environment.sleep(LOCK_PAUSE_S)


QUIET_S = 15.0
"""An executor that lives writes to the history more often than this, or holds the operation."""


def interrupted(environment: Environment, operation: Operation, silent_s: float) -> bool:
    """Whether nobody goes on with it: it has not ended nor waits for its logs, no executor that lives holds it, and it
    has been silent for so long. One that is held may be silent as long as it likes: its holder goes with its session.
    """
    if operation.state in FINAL | {"crossing"}:
        return False
    holding = environment.store.holding(operation.id)
    return not (holding and holding.held) and quiet_s(environment, operation) >= silent_s


def quiet_s(environment: Environment, operation: Operation) -> float:
    """Seconds since the last entry of the operation's history."""
    history = environment.store.history(operation.id, newest=1)
    return environment.age_s(history[-1].at if history else operation.started)


def way_out(operation_id: str, by: str = "") -> str:
    """What to do about an operation that stands in the way."""
    whose = "its run is over" if by.startswith("airflow:") else "its executor is dead"
    return (
        f"Wait for its end (`switchyard history {operation_id}`). If {whose}: "
        f"`switchyard resume {operation_id}` to continue it, `switchyard undo {operation_id}` to undo it."
    )
