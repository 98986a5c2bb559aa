"""The end of a run: nothing is left standing, and the run's result says what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ha_core.operators.base import Context, SwitchyardOperator, run_owner
from ha_core.operators.naming import base_id, known_ids


class ReleaseOperator(SwitchyardOperator):
    """Teardown: whatever happened before, no fence and no lock of this run is left.

    Before the cut the operation is undone; after it, it is brought to its end. Operations are found by the run's own
    name, so this needs nothing from the tasks that may have died.
    """

    def execute(self, context: Context) -> list[str]:
        from ha_core.moves import run
        from ha_core.operators.settling import settle_own
        from ha_core.operators.words import report_lines

        dag_run, owner = context["dag_run"], run_owner(context)
        base = base_id(dag_run.dag_id, dag_run.run_id, dag_run.run_after)
        with self.environment(context) as environment:
            switches = known_ids(base, environment.operation)
            released = [run.release(environment, operation_id) for operation_id in switches]
            settled = [report for report in (*released, *settle_own(environment)) if report is not None]
            held = [lock.key for lock in environment.store.locks() if lock.by == owner]
        for report in settled:
            for line in report_lines(report):
                self.log.info("%s", line)
        if held:
            raise RuntimeError(f"Locks of this run still stand: {', '.join(held)}. Clear this task to try again.")
        self.log.info("no fence and no lock of this run is left")
        return [report.operation for report in settled]


class ReportOperator(SwitchyardOperator):
    """The run's result: the operation's report, or the proposal where nothing was started.

    :param proposal: what `PlanSwitchOperator` returned.
    """

    template_fields: Sequence[str] = (*SwitchyardOperator.template_fields, "proposal")

    def __init__(self, *, proposal: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.proposal = proposal

    def execute(self, context: Context) -> dict[str, Any]:
        from ha_core.moves.report import Report, partition_cuts, step_times
        from ha_core.moves.switch.prepare import Proposal
        from ha_core.operators.words import proposal_lines, report_lines

        dag_run = context["dag_run"]
        with self.environment(context) as environment:
            known = known_ids(base_id(dag_run.dag_id, dag_run.run_id, dag_run.run_after), environment.operation)
            operation = environment.operation(known[-1]) if known else None
            if operation is None:
                for line in proposal_lines(Proposal.from_json(self.proposal)):
                    self.log.info("%s", line)
                return {"result": "nothing was changed", "proposal": self.proposal}
            topics = environment.store.load().topics
            moved = operation.moves.topics if operation.moves else ()
            succeeded = operation.state == "succeeded"
            report = Report(
                operation.id,
                "succeeded" if succeeded else "failed",
                operation.revision,
                step_times(environment.store.history(operation.id)),
                partition_cuts(operation, [topics[name] for name in moved if name in topics]),
                "" if succeeded else operation.result,
            )
        for line in report_lines(report):
            self.log.info("%s", line)
        return report.to_json()
