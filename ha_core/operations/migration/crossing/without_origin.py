"""The forced end of a crossing: its origin has died, and its topics continue in the target.

The origin is not asked. It may be killed anywhere: until its one revision the fence is lifted and the crossing stays
as before; after it the topics have crossed over.
"""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.model import MigrateOperation
from ha_core.model.operation import UnreadPolicy
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.kind import Effect
from ha_core.operations.engine.looking import presence
from ha_core.operations.engine.revisions import write_all
from ha_core.operations.migration.crossing.at_cuts import EndWithoutOrigin
from ha_core.operations.migration.crossing.steps import CrossingSteps
from ha_core.plan.migration.crossing_stages import Step


class StepsWithoutOrigin(CrossingSteps):
    """The effects of steps to which a dead origin contributes nothing."""

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
        operation, topics = self.look()
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
