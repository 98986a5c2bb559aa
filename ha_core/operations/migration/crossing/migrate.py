"""Migrations without a fence. No executor waits for clients: an operation runs until it would have to, and stays open.

Later looks (a waiting command, a sensor, a scheduled run) resume it, and settle topics that have reached their cuts.
Until a crossing is open it can be undone without a question to any cluster, so an earlier failure is undone at once: a
proposed cut that the log reaches makes producers wait until an executor continues.
"""

from collections.abc import Callable, Mapping, Sequence

from ha_core.kafka.errors import ClusterUnreachableError
from ha_core.model import MigrateOperation, Topic
from ha_core.model.move_request import UnreadPolicy
from ha_core.operations.engine.cluster_admins import presence
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, StepFailedError, unchanged
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.kind import OperationLook
from ha_core.operations.engine.revisions import Touched, write_all
from ha_core.operations.engine.steps import Effect
from ha_core.operations.migration.crossing.below import unread_below
from ha_core.operations.migration.crossing.ends import overdue, read_ends, read_progress, way_on
from ha_core.operations.migration.crossing.fence import EndWithoutOrigin, lift
from ha_core.operations.migration.crossing.steps import CrossingSteps
from ha_core.operations.move.common_steps import MoveKind
from ha_core.plan.engine.revision import FINAL, fenced
from ha_core.plan.facts.verdict import amount, listed
from ha_core.plan.migration.crossing_stages import (
    BACK,
    Step,
    crossing_partitions,
    crossings,
    plan,
    plan_without_origin,
    stages,
)


class StepsWithoutOrigin(CrossingSteps):
    """The forced end of a crossing whose origin has died and is not asked.

    It may be killed anywhere: until its one revision the fence is lifted and the crossing stays as before; after it the
    topics have crossed over.
    """

    def __init__(self, journal: Journal[MigrateOperation], unread: UnreadPolicy) -> None:
        super().__init__(journal, "interrupted on the way back")
        self.unread = unread

    @property
    def effects(self) -> Mapping[Step, Effect]:
        return {**super().effects, "end_without_origin": self.end_without_origin}

    def reopen(self) -> None:
        self.why = f"{self.journal.request.origin} is taken for dead"
        super().reopen()

    def end_without_origin(self) -> None:
        operation, topics = self.read_state()
        if self.at("before", topics):
            raise RefusedError(
                f"Operation {operation.id} has not proposed its cuts yet: `switchyard undo {operation.id}`. "
                f"{afterwards(self.journal.request.origin)}"
            )
        names = [*self.at("proposed", topics), *self.at("open", topics)]
        write_all(self.journal, names, topics, lambda some: EndWithoutOrigin(self.journal, some, self.unread).end())


def afterwards(origin: str) -> str:
    return f"Its topics are those of {origin} again: `switchyard migrate-from-fault` moves them to another cluster."


def require_lost(journal: Journal[MigrateOperation], force: bool) -> None:
    """:raises RefusedError: the origin answers, and `force` does not declare it dead."""
    environment, origin = journal.environment, journal.request.origin
    if force:
        return
    if not presence(environment, environment.store.load(), origin).permits("without-origin"):
        raise unchanged(
            f"Origin {origin} answers: `switchyard resume {journal.operation.id}` continues "
            "with its answers, and loses nothing. To take it for dead all the same, give --force."
        )


class Migrate(MoveKind):
    """Moves topics without a fence, by cuts ahead of their logs."""

    names = ("migrate",)
    taken_back = "The migration was undone: nothing has moved, no lock is left."

    def advance(self, journal: Journal[MigrateOperation]) -> None:
        """
        :raises MoveError, KafkaAdminError, MoveDamagedError: before the crossing was open it is undone; later it
            continues at the next attempt.
        """
        self._advance(journal, lambda: overdue(journal.environment, journal.operation))

    def end_now(self, journal: Journal[MigrateOperation]) -> None:
        self._advance(journal, lambda: True)

    def _advance(self, journal: Journal[MigrateOperation], at_once: Callable[[], bool]) -> None:
        effects = CrossingSteps(journal, "interrupted on the way back")
        self.perform_steps(effects, plan(effects.read_state, at_once))

    def look(self, environment: Environment, operation: MigrateOperation) -> OperationLook:
        """There is something to do after an interruption, at a cut that was reached, or at a deadline."""
        progress = read_progress(environment, operation)
        waits = operation.state == "crossing" and {*progress.stages.values()} <= {"open", "settled"}
        found = unread_below(operation, progress) or progress.ready or progress.went_back
        due = not (waits and progress.partitions) or bool(found) or overdue(environment, operation)
        return OperationLook(progress, due)

    def take_back(self, journal: Journal[MigrateOperation], why: str) -> bool:
        """Take it back from any stage of the crossing.

        :raises StepFailedError: the target was written, or gateways do not follow: the crossing continues as it was.
        """
        effects = CrossingSteps(journal, why)
        back: tuple[Step, ...] = ("release",) if journal.operation.state in FINAL else BACK
        for step in back:
            effects.perform(step)
        return True

    def undo(self, journal: Journal[MigrateOperation]) -> None:
        """:raises RefusedError: a topic has crossed over, or has records in the target; the crossing continues."""
        if journal.operation.state in FINAL - {"succeeded"}:
            return
        topics = Touched.read(journal).view.topics
        if fenced(journal.operation, topics, {}):
            lift(journal)
        require_way_back(journal.environment, journal.operation, topics)
        self.take_back(journal, journal.asked_for)

    def release(self, journal: Journal[MigrateOperation]) -> bool:
        """A crossing with proposed cuts continues: no client waits for it, and it keeps its locks until it ends."""
        proposed = journal.operation.state not in {"planned", "running"}
        return not proposed and self.take_back(journal, "released before its cuts were proposed")

    def end_without_origin(self, journal: Journal[MigrateOperation], unread: UnreadPolicy, force: bool) -> None:
        """End the crossing of every topic of the operation that is still in it; topics that have crossed over stay.

        :param unread: the policy for readers below the cuts.
        :param force: take the origin for dead although it answers.
        :raises RefusedError: the origin answers, or no cut of the operation was ever proposed.
        :raises StepFailedError: it was on its way back, and is undone.
        :raises NotDrainedError, KafkaAdminError: the crossing is as before.
        """
        if journal.operation.state in FINAL | {"cut"}:
            return
        require_lost(journal, force)
        effects = StepsWithoutOrigin(journal, unread)
        for step in plan_without_origin(effects.read_state):
            effects.perform(step)
        if journal.operation.state in FINAL:
            gone = f"Operation {journal.operation.id} was on its way back, and is undone now."
            raise StepFailedError(f"{gone} {afterwards(journal.request.origin)}")


def require_way_back(environment: Environment, operation: MigrateOperation, topics: Mapping[str, Topic]) -> None:
    """Changes nothing.

    :raises RefusedError: a topic has crossed over, or has records in the target.
    """
    if operation.state in {"cut", "succeeded"}:
        raise _no_way_back(operation, operation.moves.topics)
    at = stages(operation, topics)
    over = [name for name, stage in at.items() if stage == "settled"]
    if not over and operation.state != "undoing":
        opened = [name for name, stage in at.items() if stage == "open"]
        try:
            target = read_ends(environment, operation, crossing_partitions(topics, opened)).target if opened else {}
        except ClusterUnreachableError as error:
            raise StepFailedError(f"{error} {way_on(operation)}", changed=False) from error
        over = [
            name
            for name in opened
            if any(target[name, p].log_end != extent.base for p, _, extent in crossings(topics[name]))
        ]
    if over:
        raise _no_way_back(operation, over)


def would_roll_back(environment: Environment, operation_id: str) -> str:
    """The effect of a roll-back now, in words. Changes nothing.

    :raises RefusedError: no such operation, or there is no way back; the text names the equivalent move.
    """
    operation = environment.operation_of(MigrateOperation, operation_id)
    if operation is None:
        raise unchanged(f"There is no migration {operation_id!r}. `switchyard migrations` lists them.")
    if operation.state in FINAL - {"succeeded"}:
        return f"{operation_id} has ended as {operation.state}: there is nothing to take back"
    require_way_back(environment, operation, environment.store.load().topics)
    request, moves = operation.request, operation.moves
    return (
        f"would take back {amount(len(moves.topics), 'topic')} of {operation_id} from {request.target} "
        f"to {request.origin}"
    )


def _no_way_back(operation: MigrateOperation, names: Sequence[str]) -> RefusedError:
    origin, target = operation.route
    return unchanged(
        f"{listed(names)} of operation {operation.id} has records in {target} already, which were acknowledged to "
        f"clients: there is no way back without losing them. Let it end (`switchyard resume {operation.id}`), then "
        f"migrate it back: "
        f"`switchyard migrate {' '.join(names[:5])} --from {target} --to {origin}`."
    )
