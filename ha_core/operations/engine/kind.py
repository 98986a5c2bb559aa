"""Base of every kind of operation: how one continues, and how it is taken back (`running.engine.KINDS`).

Locks, epochs and reports are alike for all kinds; the engine has them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from ha_core.model import MoveRequest
from ha_core.model.move_request import UnreadPolicy
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import MoveError, RefusedError, StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.steps import AnyStep, Steps
from ha_core.plan.engine.revision import FINAL, MoveDamagedError
from ha_core.store.errors import FencedOffError, StoreUnavailableError

PATIENCE_S = 60.0
T = TypeVar("T")


class WaitingProgress(Protocol):
    """The position of an operation that waits."""

    @property
    def at(self) -> object:
        """Equal as long as nothing has changed."""

    @property
    def words(self) -> str:
        """One line for people."""


class OperationLook(NamedTuple):
    """A look at an operation that waits without an executor."""

    progress: WaitingProgress
    due: bool
    """Whether there is something to do for an executor."""


class Kind(ABC):
    """Has no state of its own: all facts about an operation are in the store."""

    names: ClassVar[tuple[str, ...]]
    """The names of its kinds of operations."""
    tasks: ClassVar[Mapping[Any, tuple[str, ...]]] = {}
    """The tasks of an Airflow run, with their steps."""
    taken_back: ClassVar[str]
    """The text of the error when one of several steps has failed and the operation was undone."""

    @abstractmethod
    def advance(self, journal: Journal[Any]) -> None:
        """Continue from the stored state, to the end or until it has to wait for others."""

    def end_now(self, journal: Journal[Any]) -> None:
        """As `advance`, but end a crossing under a fence, instead of waiting for its logs."""
        self.advance(journal)

    @abstractmethod
    def take_back(self, journal: Journal[Any], why: str) -> bool:
        """Take back what was done, and end the operation as `undone`. False: it can only go forward."""

    def perform_steps(self, effects: Steps[Any, AnyStep], steps: Iterable[AnyStep]) -> None:
        """Perform the steps in order. A failure before the point of no return is taken back at once: clients wait.

        :raises StepFailedError: a step failed, and the operation was undone. Any other error: it was not.
        """
        for step in steps:
            try:
                effects.perform(step)
            except FencedOffError:
                raise  # another executor continues it and must not be disturbed
            except BaseException as error:
                if not effects.has_way_back(step):
                    raise
                text = f"{error}." if isinstance(error, MoveDamagedError) else str(error)
                task = next((name for name, some in self.tasks.items() if step in some), step)
                back = partial(self.take_back, effects.journal, f"{task}: {text}")
                if not retry_while_store_is_away(effects.environment, back) or not isinstance(error, Exception):
                    raise
                verdicts = error.verdicts if isinstance(error, MoveError) else ()
                raise StepFailedError(f"{text} {self.taken_back}", verdicts) from error

    def look(self, environment: Environment, operation: Any) -> OperationLook | None:
        """Look at an operation that has not ended. Changes nothing. None: it waits for nothing, and is to be resumed.

        :raises MoveError, KafkaAdminError, MoveDamagedError: it cannot be looked at now.
        """
        return None

    def repeats(self, operation: Any, request: MoveRequest) -> bool:
        """Whether `request` equals the operation's own, apart from the reason."""
        return False

    def undo(self, journal: Journal[Any]) -> None:
        """Take it back on an operator's request; of an operation that has ended, only release the locks.

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
            self.take_back(journal, journal.asked_for)

    def release(self, journal: Journal[Any]) -> bool:
        """Remove fences and locks by undoing it. False: it has to continue, as by `advance`."""
        return journal.operation.state != "cut" and self.take_back(journal, "released before its cut")

    def run_task(self, journal: Journal[Any], task: str) -> None:
        """Run one of its `tasks`."""
        raise NotImplementedError

    def end_without_origin(self, journal: Journal[Any], unread: UnreadPolicy, force: bool) -> None:
        """End a crossing although its origin is dead. :raises RefusedError: the operation has no crossing."""
        operation = journal.operation
        raise RefusedError(
            f"Operation {operation.id} is a {operation.kind} and crosses nothing: leave --without-origin out."
        )


def retry_while_store_is_away(environment: Environment, action: Callable[[], T]) -> T:
    """Retry `action`, which clients wait for, while ZooKeeper is away for up to `PATIENCE_S`.

    :raises StoreUnavailableError: it was away all that time. A resume takes the operation back.
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
