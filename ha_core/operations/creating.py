"""The beginning of an operation: its document with its locks; and whether one that stands in its way is still alive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ha_core.model import Operation
from ha_core.operations.environment import Environment
from ha_core.operations.errors import RefusedError
from ha_core.operations.journal import Journal
from ha_core.store.errors import ConflictError, LockedError


def create(
    environment: Environment, operation: Operation, lock_keys: Sequence[str], detail: dict[str, Any]
) -> Operation:
    """Create `operation`; nothing else is changed. One of the same id that is there already is found again.

    :param detail: for the history, besides who and why.
    :raises RefusedError: somebody else works on something that it takes along.
    """
    operation = operation.model_copy(update={"driver": environment.driver})
    try:
        epoch = environment.store.create_operation(operation, lock_keys)
    except LockedError as error:
        raise RefusedError(
            f"Nothing was changed. {error.key} is locked by operation {error.operation_id} of {error.by} since "
            f"{error.since}. {way_out(error.operation_id, error.by)}"
        ) from error
    except ConflictError:
        found = environment.operation(operation.id)
        if found is None:
            raise
        return found
    evidence = {"by": operation.by, "reason": operation.reason, **detail}
    Journal(environment, operation, epoch).append("start", "done", None, evidence)
    return operation


QUIET_S = 15.0
"""An executor that lives writes to the history more often than this, or holds the operation."""


def held(environment: Environment, operation: Operation) -> bool:
    """Whether an executor that lives works on it at this moment."""
    holding = environment.store.holding(operation.id)
    return holding is not None and holding.held


def quiet_s(environment: Environment, operation: Operation) -> float:
    """Seconds since the last entry of the operation's history."""
    history = environment.store.history(operation.id, newest=1)
    last = history[-1].at if history else operation.started
    return environment.age_s(last)


def way_out(operation_id: str, by: str = "") -> str:
    """What to do about an operation that stands in the way."""
    whose = "its run is over" if by.startswith("airflow:") else "its executor is dead"
    return (
        f"Wait for its end (`switchyard history {operation_id}`). If {whose}: "
        f"`switchyard resume {operation_id}` to continue it, `switchyard undo {operation_id}` to undo it."
    )
