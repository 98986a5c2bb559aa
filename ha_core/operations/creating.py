"""The beginning of an operation: its document with its locks; and what stands in its way."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from ha_core.model import Operation
from ha_core.model.operation import Unread
from ha_core.operations.environment import Environment
from ha_core.operations.errors import RefusedError
from ha_core.operations.journal import Journal, new_operation_id
from ha_core.store.errors import ConflictError, LockedError


class Ending(NamedTuple):
    """A crossing that is ended without its origin, before an operation begins that takes this for dead."""

    operation: str
    unread: Unread
    force: bool


class Startable(BaseModel):
    """What was judged, and begins as an operation of its kind."""

    model_config = ConfigDict(frozen=True)

    @property
    @abstractmethod
    def kind(self) -> str: ...

    @abstractmethod
    def begun(self, **common: Any) -> Operation:
        """:param common: the fields that operations of every kind have."""

    @property
    @abstractmethod
    def lock_keys(self) -> Sequence[str]: ...

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
    def ends_first(self) -> Sequence[Ending]:
        return ()

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
    operation = chosen.begun(id=operation_id, by=environment.by, driver=environment.driver, started=now)
    try:
        epoch = environment.store.create_operation(operation, chosen.lock_keys)
    except LockedError as error:
        raise RefusedError(
            f"Nothing was changed. {error.key} is locked by operation {error.operation_id} of {error.by} since "
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


def held(environment: Environment, operation: Operation) -> bool:
    """Whether an executor that lives works on it at this moment."""
    holding = environment.store.holding(operation.id)
    return holding is not None and holding.held


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
