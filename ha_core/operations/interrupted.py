"""Operations whose executor is gone: found, and settled before a new one of the same shape starts."""

from __future__ import annotations

from datetime import datetime

from ha_core.model import MoveRequest, Operation
from ha_core.operations.context import Environment
from ha_core.operations.registry import running_operations

QUIET_S = 15.0
"""An executor that lives writes to the history more often than this, or holds the operation."""
BEGUN_S = 2.0
"""Longer than between the beginning of an operation and the moment when its command holds it."""


def interrupted_twin(environment: Environment, request: MoveRequest) -> Operation | None:
    """A switch that was asked for with the same words, by a command that has died.

    One of a run of Airflow is never taken for that: between two tasks nobody holds it, for as long as a slot or an
    approval takes. Whether it is continued or undone its own run says, or an operator who names it.
    """
    for operation in running_operations(environment):
        asked = operation.request
        if (
            operation.kind == "switch"
            and operation.driver == "command"
            and asked is not None
            and _same(asked, request)
            and not held(environment, operation)
            and quiet_s(environment, operation) >= BEGUN_S
        ):
            return operation
    return None


def _same(one: MoveRequest, other: MoveRequest) -> bool:
    """Whatever the reasons, and however long gateways are waited for."""
    words = {"reason": other.reason, "drain_timeout_s": other.drain_timeout_s}
    return one.model_copy(update=words) == other


def held(environment: Environment, operation: Operation) -> bool:
    """Whether an executor that lives works on it at this moment."""
    holding = environment.store.holding(operation.id)
    return holding is not None and holding.held


def quiet_s(environment: Environment, operation: Operation) -> float:
    """Seconds since the last entry of the operation's history."""
    history = environment.store.history(operation.id, newest=1)
    last = history[-1].at if history else operation.started
    return (datetime.fromisoformat(environment.now()) - datetime.fromisoformat(last)).total_seconds()


def way_out(operation_id: str, by: str = "") -> str:
    """What to do about an operation that stands in the way."""
    whose = "its run is over" if by.startswith("airflow:") else "its executor is dead"
    return (
        f"Wait for its end (`switchyard history {operation_id}`). If {whose}: "
        f"`switchyard resume {operation_id}` to continue it, `switchyard undo {operation_id}` to undo it."
    )
