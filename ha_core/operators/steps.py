"""The steps of a switch as tasks. Each finds out by itself what of it is still to be done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ha_core.operators.base import Context, DryRunEnds, SwitchyardOperator
from ha_core.operators.naming import base_id, current_id
from ha_core.operators.planning import truth


class AcquireOperator(SwitchyardOperator):
    """Judge the proposal once more, take every lock and create the operation, all or nothing. Returns its id.

    A run that was killed here finds its operation again; one that was undone gets a new one. In a dry run it skips.

    :param proposal: what `PlanSwitchOperator` returned.
    """

    template_fields: Sequence[str] = (*SwitchyardOperator.template_fields, "proposal", "dry_run")

    def __init__(self, *, proposal: Any, dry_run: Any = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.proposal = proposal
        self.dry_run = dry_run

    def work(self, context: Context) -> str:
        if truth(self.dry_run):
            raise DryRunEnds("This is a dry run: the proposal is in the log of the task before.")
        from ha_core.operations import run
        from ha_core.operations.switch.prepare import Proposal

        dag_run = context["dag_run"]
        base = base_id(dag_run.dag_id, dag_run.run_id, dag_run.run_after)
        with self.environment(context) as environment:
            operation_id = current_id(base, environment.operation)
            proposal = Proposal.from_json(self.proposal)
            try:
                operation = run.start(environment, proposal, by=environment.by, operation_id=operation_id)
            except BaseException:
                # Teardown does not run after a setup that failed, so what it got hold of is given back here.
                run.release(environment, operation_id)
                raise
            self.log.info("operation %s is %s and holds its locks", operation.id, operation.state)
        return str(operation.id)


class StepOperator(SwitchyardOperator):
    """One of the executor's steps. Before the cut, a failure has undone the operation when it is reported.

    :param operation_id: what `AcquireOperator` returned.
    """

    step: ClassVar[str] = ""
    template_fields: Sequence[str] = (*SwitchyardOperator.template_fields, "operation_id")

    def __init__(self, *, operation_id: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.operation_id = operation_id

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations import run

        with self.environment(context) as environment:
            operation = run.run_step(environment, self.operation_id, self.step)
            self.log.info("operation %s is %s, revision %s", operation.id, operation.state, operation.revision)
        return {"operation": operation.id, "state": operation.state, "revision": operation.revision}


class PrepareTargetsOperator(StepOperator):
    """Create missing topics in the target like those of the origin; check those that exist."""

    step = "prepare"


class AdoptGroupsOperator(StepOperator):
    """Join the moving groups in the target on behalf of their live members, with the same assignment."""

    step = "adopt"


class CutOverOperator(StepOperator):
    """Fence, drain, ends and last sequences, group offsets, cut: one task, for clients wait from first to last."""

    step = "cut_over"
    ui_color = "#f7e3c8"


class VerifyOperator(StepOperator):
    """Every gateway serves the cut, and the origin's logs have not grown since."""

    step = "verify"


class RecordOperator(StepOperator):
    """Write the result and give the locks back."""

    step = "record"

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operators.words import fenced_ms_of, moved_words

        recorded = super().work(context)
        with self.environment(context) as environment:
            operation = environment.operation(self.operation_id)
            waited_ms = fenced_ms_of(environment.store.history(self.operation_id))
        if operation is not None:
            self.done(context, moved_words(operation, waited_ms))
        return recorded
