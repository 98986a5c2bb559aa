"""The beginning of an operation: its document with its locks, and the first line of its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ha_core.model import Operation
from ha_core.operations.context import Environment
from ha_core.operations.errors import RefusedError
from ha_core.operations.interrupted import way_out
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
