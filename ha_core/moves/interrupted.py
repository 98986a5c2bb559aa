"""Operations whose executor is gone: found, and settled before a new one of the same shape starts."""

from __future__ import annotations

from datetime import datetime

from ha_core.model import MoveRequest, Operation
from ha_core.moves.context import Environment
from ha_core.moves.registry import running_operations

QUIET_S = 15.0
"""An executor that lives writes to the history more often than this, or holds the operation."""


def interrupted_twin(environment: Environment, request: MoveRequest) -> Operation | None:
    """A switch of the same scope between the same clusters that nobody has worked on for a while."""
    for operation in running_operations(environment):
        asked = operation.request
        if (
            operation.kind == "switch"
            and asked is not None
            and (asked.scope, asked.origin, asked.target) == (request.scope, request.origin, request.target)
            and quiet_s(environment, operation) >= QUIET_S
        ):
            return operation
    return None


def quiet_s(environment: Environment, operation: Operation) -> float:
    """Seconds since the last entry of the operation's history."""
    history = environment.store.history(operation.id, newest=1)
    last = history[-1].at if history else operation.started
    return (datetime.fromisoformat(environment.now()) - datetime.fromisoformat(last)).total_seconds()


def way_out(operation_id: str) -> str:
    """What to do about an operation that stands in the way."""
    return (
        f"Wait for its end (`switchyard history {operation_id}`). If its executor is dead: "
        f"`switchyard resume {operation_id}` to continue it, `switchyard undo {operation_id}` to undo it."
    )
