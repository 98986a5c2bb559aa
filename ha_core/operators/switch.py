"""A switch of live clients as tasks: proposal, steps, result. Each step finds out what of it is still to be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk.exceptions import AirflowSkipException

from ha_core.operators.base import Context, DryRunEnds, SwitchyardOperator, truth
from ha_core.operators.dag_run import base_id, current_id, known_ids
from ha_core.operators.ending import OutcomeOperator
from ha_core.operators.outcome import Outcome

if TYPE_CHECKING:
    from ha_core.model import MoveRequest
    from ha_core.operations.environment import Environment


class PlanSwitchOperator(SwitchyardOperator):
    """Gather, judge, and say what would move. Returns the proposal as JSON; `table` has it for people.

    Fails where a verdict is an error; skips where nothing is to be done. An interrupted switch of the same scope is
    settled first, unless this is a dry run. Cleared while the run's own operation is under way, it says only that.

    The request is the form of the DAG run, its params: rendered by a template they would lose their types.
    """

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations import engine
        from ha_core.operations.switch.proposal import Proposal, plan
        from ha_core.present.moves import move_preview, proposal_page, would_move
        from ha_core.present.page import markdown

        dag_run = context["dag_run"]
        base = base_id(dag_run.dag_id, dag_run.run_id, dag_run.run_after)
        with self.environment(context) as environment:
            own = environment.operation(current_id(base, environment.operation))
            if own is not None and own.request is not None and own.moves is not None:
                self.log.info("operation %s of this run is %s; it goes on", own.id, own.state)
                return Proposal(request=own.request, revision=own.revision, moves=own.moves).to_json()
            form = context["params"]
            request = self.request(environment, form)
            settled = None if form["dry_run"] else engine.settle_interrupted(environment, request)
            proposal = plan(environment, request, read=True)
        self.say(proposal_page(proposal))
        document = proposal.to_json()
        instance = context["ti"]
        instance.xcom_push(key="table", value=markdown(proposal_page(proposal)))
        if proposal.nothing_to_do:
            done = f" Operation {settled.operation}, which had been interrupted, has done it." if settled else ""
            instance.xcom_push(key="return_value", value=document)
            raise AirflowSkipException(f"Everything is where it should be; nothing was changed.{done}")
        if proposal.refused:
            instance.xcom_push(key="return_value", value=document)
            proposal.require_sound()
        self.would(context, would_move(proposal), **move_preview(proposal))
        return document

    def request(self, environment: Environment, form: Mapping[str, Any]) -> MoveRequest:
        """What the form asks for."""

        return request_of(form)


class PlanFaultMigrationOperator(PlanSwitchOperator):
    """The same for topics of a dead cluster: names and patterns, groups that are known to have read them."""

    def request(self, environment: Environment, form: Mapping[str, Any]) -> MoveRequest:
        from ha_core.operations.requests import fault_request

        return fault_request(
            environment,
            [str(one) for one in form["topics"] or ()],
            str(form["from"]).strip(),
            str(form["to"]).strip(),
            unread=form["unread"],
            reason=str(form["reason"]).strip(),
            force=form["force"],
            with_groups=form["groups"],
            drain_timeout_s=form["drain_timeout_s"],
        )


def request_of(form: Mapping[str, Any]) -> MoveRequest:
    """The request that `form` (the params of the DAG run) describes.

    :raises RefusedError: names the field, the value and what it should be.
    """
    from ha_core.operations.requests import make_request

    return make_request(
        [entry for entry in (str(one).strip() for one in form["scope"]) if entry],
        str(form["from"]).strip(),
        str(form["to"]).strip(),
        mode=form["mode"],
        reason=str(form["reason"]).strip(),
        drain_timeout_s=form["drain_timeout_s"],
        include_followers=form["include_followers"],
        unread=form["unread"],
    )


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
        from ha_core.operations import engine
        from ha_core.operations.switch.proposal import Proposal

        dag_run = context["dag_run"]
        base = base_id(dag_run.dag_id, dag_run.run_id, dag_run.run_after)
        with self.environment(context) as environment:
            operation_id = current_id(base, environment.operation)
            proposal = Proposal.from_json(self.proposal)
            try:
                operation = engine.start(environment, proposal, by=environment.by, operation_id=operation_id)
            except BaseException:
                # Teardown does not run after a setup that failed, so what it got hold of is given back here.
                engine.release(environment, operation_id)
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
        from ha_core.operations import engine

        with self.environment(context) as environment:
            operation = engine.run_step(environment, self.operation_id, self.step)
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
        from ha_core.present.moves import moved

        recorded = super().work(context)
        with self.environment(context) as environment:
            operation = environment.operation(self.operation_id)
            history = environment.store.history(self.operation_id)
        if operation is not None:
            self.done(context, moved(operation, history))
        return recorded


class ReportOperator(OutcomeOperator):
    """The result of a switch: the operation's report, or the proposal where nothing was started.

    :param proposal_of: the task that has returned the proposal.
    """

    def __init__(self, *, proposal_of: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.proposal_of = proposal_of

    def details(self, context: Context, found: Outcome) -> dict[str, Any]:
        from ha_core.present.moves import report_page

        dag_run = context["dag_run"]
        with self.environment(context) as environment:
            known = known_ids(base_id(dag_run.dag_id, dag_run.run_id, dag_run.run_after), environment.operation)
            report = _report(environment, known[-1]) if known else None
        if report is None:
            proposal = context["ti"].xcom_pull(task_ids=self.proposal_of)
            return {"result": "nothing was changed", "proposal": proposal}
        self.say(report_page(report))
        document: dict[str, Any] = report.to_json()
        return document


def _report(environment: Environment, operation_id: str) -> Any:
    from ha_core.operations.report import Report, partition_cuts, step_times

    operation = environment.operation(operation_id)
    if operation is None:
        return None
    topics = environment.store.load().topics
    moved = operation.moves.topics if operation.moves else ()
    succeeded = operation.state == "succeeded"
    return Report(
        operation.id,
        "succeeded" if succeeded else "failed",
        operation.revision,
        step_times(environment.store.history(operation.id)),
        partition_cuts(operation, [topics[name] for name in moved if name in topics]),
        "" if succeeded else operation.result,
    )
