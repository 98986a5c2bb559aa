"""A switch as a kind of operation: how it goes on from its stored state, by tasks or to the end, and is taken back."""

from collections.abc import Iterable
from contextlib import closing

from ha_core.model import SwitchOperation
from ha_core.operations.engine.errors import MoveError, StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.kind import retry_while_store_is_away
from ha_core.operations.move.common_steps import MoveKind
from ha_core.operations.move.switch_steps import SwitchSteps
from ha_core.plan.engine.revision import MoveDamagedError
from ha_core.plan.move.planner import TASKS, UNDO, Step, remaining_steps, steps
from ha_core.store.errors import StoreUnavailableError


class Switch(MoveKind):
    """Moves clients, topics and groups, under a fence of some milliseconds."""

    names = ("switch",)
    tasks = TASKS
    taken_back = "The operation was undone: no fence and no lock is left."

    def advance(self, journal: Journal[SwitchOperation]) -> None:
        if (left := _left(journal)) == UNDO:
            self.take_back(journal, "interrupted before its cut")
        else:
            self._take(SwitchSteps(journal), left)

    def run_task(self, journal: Journal[SwitchOperation], task: str) -> None:
        """If an earlier run has left a fence, the planner decides how to continue."""
        operation = journal.operation
        left = steps(journal.request)
        if operation.state in {"fenced", "undoing"}:
            left = _left(journal)
            if left == UNDO and self.take_back(journal, f"interrupted in {task}"):
                raise StepFailedError(
                    f"Operation {operation.id} was interrupted under its fence, and is undone now. "
                    "Start the move again."
                )
            if operation.state == "fenced" and task != "cut_over":
                raise StepFailedError(f"Operation {operation.id} is fenced: the task to run is cut_over, not {task}.")
        after_cut = task in {"verify", "record"}
        if after_cut and journal.operation.state != "cut":
            raise StepFailedError(
                f"Operation {operation.id} has not cut over yet (its state is {journal.operation.state}): "
                "run the steps in order."
            )
        if after_cut or journal.operation.state != "cut":
            self._take(SwitchSteps(journal), [step for step in left if step in TASKS[task]])

    def _take(self, effects: SwitchSteps, left: Iterable[Step]) -> None:
        with closing(effects):
            self.perform_steps(effects, left)

    def take_back(self, journal: Journal[SwitchOperation], why: str) -> bool:
        effects = SwitchSteps(journal, why)

        def back() -> None:
            for step in UNDO:
                effects.perform(step)

        try:
            retry_while_store_is_away(journal.environment, back)
        except MoveDamagedError:
            if journal.operation.state != "cut":
                raise
            return False
        except StoreUnavailableError as error:
            operation_id = journal.operation.id
            raise MoveError(
                f"Operation {operation_id} could not be undone ({error}); it failed because of: {why} Its fence and "
                f"locks may still stand. `switchyard undo {operation_id}` when ZooKeeper answers again."
            ) from error
        return True


def _left(journal: Journal[SwitchOperation]) -> tuple[Step, ...]:
    """The steps that are left, from the stored state."""
    view = journal.environment.store.load()
    return remaining_steps(journal.operation, view.topics, view.groups)
