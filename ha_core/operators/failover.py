"""A dead cluster is left in one task: the seconds between tasks are seconds without service."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ha_core.hooks.airflow_names import AirflowFailException, AirflowSkipException
from ha_core.operators.base import SwitchyardOperator
from ha_core.operators.dag_run import current_id, known_ids
from ha_core.operators.forms import FormField, RefusedRequestError, Text
from ha_core.operators.migration import batch_base
from ha_core.operators.moved_topics import OUTLETS, MovesTopics
from ha_core.operators.switch import ReportClusterSwitchOperator

if TYPE_CHECKING:
    from ha_core.model import MoveOperation
    from ha_core.operations.engine.creating import Startable
    from ha_core.operators.outcome import RunOutcome

MAX_PARTS = 10_000


class FailOverOperator(MovesTopics, SwitchyardOperator):
    """Switch everything that a dead cluster serves to another one, by force, part after part.

    Refused while the cluster answers. A part that fails stops the run; a repetition finishes it and moves the rest.

    :param cluster: the one that died.
    :param target: the one that goes on; "": the one that has most of its copies.
    :param unread: for readers that have not read everything: `wait` or `skip`.
    :param damaged_copies: `leave`, `refuse` or `good-part`.
    """

    cluster: Any = Text()
    target: Any = Text("", name="to")
    reason: Any = Text()
    unread: Any = FormField("wait")
    damaged_copies: Any = FormField("leave")
    drain_timeout_s: Any = FormField(10)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**OUTLETS, **kwargs})

    def work(self) -> dict[str, Any]:
        from ha_core.operations.running.whole_cluster import plan_cluster
        from ha_core.present.moves import cluster_page, moved_in_parts

        target = self._target()
        moved = self._finished()
        proposal = plan_cluster(
            self.environment,
            self.cluster,
            target,
            mode="forced",
            reason=self.reason,
            unread=self.unread,
            damaged_copies=self.damaged_copies,
            drain_timeout_s=self.drain_timeout_s,
            verify="none",
        )
        self.propose(cluster_page(proposal))
        if proposal.nothing_to_do and not moved:
            raise AirflowSkipException(f"{self.cluster} serves nothing: nothing was changed.")
        if not proposal.nothing_to_do:
            proposal.require_sound()
        for batch in proposal.batches:
            moved.append(self._moved(batch, len(moved) + 1))
        histories = [self.environment.store.history(operation.id) for operation in moved]
        self.done(moved_in_parts(moved, histories))
        self.note_moved(moved)
        return {"operations": [operation.id for operation in moved], "to": target}

    def _target(self) -> str:
        """:raises RefusedRequestError: it is not given, and cannot be told from the copies."""
        if self.target:
            return str(self.target)
        view = self.environment.store.load()
        copies = Counter(mirror.target for mirror in view.mirrors.values() if mirror.source == self.cluster)
        others = sorted(view.clusters.keys() - {self.cluster})
        if not copies and len(others) == 1:
            return others[0]
        first = copies.most_common(2)
        if not first or (len(first) == 2 and first[0][1] == first[1][1]):
            raise RefusedRequestError(
                f"Which cluster goes on for {self.cluster}? Its copies do not tell: "
                f"{', '.join(f'{name} has {count}' for name, count in sorted(copies.items())) or 'there are none'}. "
                f"Fill in To, with one of {', '.join(others) or 'no other cluster'}."
            )
        return first[0][0]

    def _finished(self) -> list[MoveOperation]:
        """The parts of earlier attempts of this run, each at its end.

        :raises AirflowFailException: one of them cannot be ended.
        """
        from ha_core.model import MoveOperation

        found: list[MoveOperation] = []
        for number in range(1, MAX_PARTS):
            known = known_ids(batch_base(self.context, number), self.environment.operation)
            operation = self.environment.operation_of(MoveOperation, known[-1]) if known else None
            if operation is None or operation.state == "undone":
                return found
            found.append(self._ended(operation.id, number))
        return found

    def _moved(self, batch: Startable, number: int) -> MoveOperation:
        from ha_core.operations.running import engine

        operation_id = current_id(batch_base(self.context, number), self.environment.operation)
        return self._ended(engine.start(self.environment, batch, operation_id, recheck=False).id, number)

    def _ended(self, operation_id: str, number: int) -> MoveOperation:
        from ha_core.model import MoveOperation
        from ha_core.operations.running import engine

        with self.watching(operation_id):
            report = engine.resume(self.environment, operation_id)
        self.say_reports([report])
        operation = self.environment.operation_of(MoveOperation, operation_id)
        if operation is None or report.result != "succeeded":
            raise AirflowFailException(
                f"Part {number}, operation {operation_id}, is {report.words}. Mend the cause, then clear this task."
            )
        return operation


class ReportFailOverOperator(ReportClusterSwitchOperator):
    """The run's result: what moved, and what is to be done when the cluster is back."""

    def details(self, outcome: RunOutcome) -> dict[str, Any]:
        ids = [operation.id for operation in self.ended()]
        return {"operations": ids} if ids else {"result": "nothing was changed"}
