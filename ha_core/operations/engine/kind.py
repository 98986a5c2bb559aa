"""What every kind of operation is: a class that says how one goes on, and how it is taken back (`kinds.KINDS`).

Locks, epochs and reports, which hold for all of them, are the engine's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from ha_core.model import MoveRequest
from ha_core.model.operation import UnreadPolicy
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import MoveError, RefusedError, StepFailedError
from ha_core.operations.engine.journal import ASKED_FOR, Journal
from ha_core.plan.engine.revision import FINAL, AnyOperation, MoveDamagedError
from ha_core.store.errors import FencedOffError, StoreUnavailableError

PATIENCE_S = 60.0
T = TypeVar("T")


class Steps(Generic[AnyOperation]):
    """The effects of the planner's steps on one operation. What a step finds, later ones of the same process use."""

    def __init__(self, journal: Journal[AnyOperation], why: str = "") -> None:
        """:param why: it is undone, for the result."""
        self.journal, self.environment, self.why = journal, journal.environment, why

    def perform(self, step: str) -> None:
        getattr(self, step)()

    def has_way_back(self, step: str) -> bool:
        """Whether the operation can be taken back when the step fails."""
        raise NotImplementedError

    def undone(self) -> None:
        self.journal.finish("undone", self.why)

    def release(self) -> None:
        self.journal.release()


class Kind(ABC):
    """It keeps nothing: all that it knows of an operation is in the state."""

    names: ClassVar[tuple[str, ...]]
    """The kinds of operations that it is of."""
    tasks: ClassVar[Mapping[Any, tuple[str, ...]]] = {}
    """The tasks that a run of Airflow makes of one, with their steps."""
    taken_back: ClassVar[str]
    """What an error says when one of several steps has failed, and the operation was undone."""

    @abstractmethod
    def advance(self, journal: Journal[Any], at_once: bool = False) -> None:
        """Go on by what stands in the state, to the end or until it has to wait for others.

        :param at_once: end now, behind a fence, what would end by itself.
        """

    @abstractmethod
    def take_back(self, journal: Journal[Any], why: str) -> bool:
        """Take back what was done, and end the operation as `undone`. False: there is only forward."""

    def take(self, effects: Steps[Any], steps: Iterable[str]) -> None:
        """One step after the other. What fails while there is a way back is taken back at once: clients wait for it.

        :raises StepFailedError: a step failed, and the operation was undone. Any other error: it was not.
        """
        for step in steps:
            try:
                effects.perform(step)
            except FencedOffError:
                raise  # another executor goes on with it: touching anything would be behind its back
            except BaseException as error:
                if not effects.has_way_back(step):
                    raise
                text = f"{error}." if isinstance(error, MoveDamagedError) else str(error)
                task = next((name for name, some in self.tasks.items() if step in some), step)
                back = partial(self.take_back, effects.journal, f"{task}: {text}")
                if not patiently(effects.environment, back) or not isinstance(error, Exception):
                    raise
                verdicts = error.verdicts if isinstance(error, MoveError) else ()
                raise StepFailedError(f"{text} {self.taken_back}", verdicts) from error

    def asked_again(self, operation: Any, request: MoveRequest) -> bool:
        """Whether `request` says once more, whatever its reason, the words with which the operation was begun."""
        return False

    def undo(self, journal: Journal[Any]) -> None:
        """Take it back as an operator asks for it; of one that has ended, only the locks.

        :raises RefusedError: there is no way back.
        """
        operation = journal.operation
        if operation.state in {"cut", "succeeded"}:
            route = operation.route
            back = f" with --from {route[1]} --to {route[0]}" if route is not None else ""
            raise RefusedError(
                f"Operation {operation.id} has cut over in revision {operation.revision}: from there it only goes "
                f"forward. `switchyard resume {operation.id}` ends it; the way back is a new `switchyard switch`{back}."
            )
        if operation.state in FINAL:
            journal.release()
        else:
            self.take_back(journal, ASKED_FOR)

    def release(self, journal: Journal[Any]) -> bool:
        """Leave neither a fence nor a lock, by the way back. False: it has to go on, as `advance` does."""
        return journal.operation.state != "cut" and self.take_back(journal, "released before its cut")

    def run_task(self, journal: Journal[Any], task: str) -> None:
        """One of its `tasks`."""
        raise NotImplementedError

    def end_without_origin(self, journal: Journal[Any], unread: UnreadPolicy, force: bool) -> None:
        """End what crosses over although its origin is dead. :raises RefusedError: nothing does."""
        operation = journal.operation
        raise RefusedError(
            f"Operation {operation.id} is a {operation.kind} and crosses nothing: leave --without-origin out."
        )


def patiently(environment: Environment, action: Callable[[], T]) -> T:
    """Take back what clients wait for, also while ZooKeeper is away for a moment.

    :raises StoreUnavailableError: it was away all the time. A resume takes it back.
    """
    deadline = environment.monotonic() + PATIENCE_S
    while True:
        try:
            return action()
        except StoreUnavailableError as error:
            if environment.monotonic() >= deadline:
                raise
            environment.say(f"the way back waits for ZooKeeper: {error}")
            environment.sleep(1.0)
