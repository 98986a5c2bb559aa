"""A switch of live clients as tasks: proposal, steps, result. Each step finds out what of it is still to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import chain
from airflow.sdk.exceptions import AirflowSkipException

from ha_core.operators.base import Context, SwitchyardOperator
from ha_core.operators.dag_run import current_operation, newest_operation
from ha_core.operators.dags import LONG, STEP, ask, end_run
from ha_core.operators.ending import OutcomeOperator
from ha_core.operators.forms import Flag, FormField, Lines, Text
from ha_core.operators.outcome import Outcome

if TYPE_CHECKING:
    from ha_core.model import MoveRequest
    from ha_core.operations.environment import Environment
    from ha_core.operations.switch.proposal import Proposal

MOVE = "move"
"""Key of what is handed from the proposal to the locks: the request, and the names of what moves."""


class _PlanOperator(SwitchyardOperator):
    """:param origin: the cluster that serves them now.
    :param target: the cluster that is to serve them.
    :param unread: what readers of a dead origin do, `wait` or `skip`; None where it lives.
    """

    origin: Any = Text("from")
    target: Any = Text("to")
    reason: Any = Text("reason")
    unread: Any = FormField("unread", None)
    drain_timeout_s: Any = FormField("drain_timeout_s", 10)

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.model import MoveOperation
        from ha_core.operations import engine
        from ha_core.operations.switch.proposal import Proposal, plan
        from ha_core.present.moves import move_preview, proposal_page, would_move

        with self.environment(context) as environment:
            own = environment.operation_of(MoveOperation, current_operation(context, environment))
            if own is not None:
                self.log.info("operation %s of this run is %s; it goes on", own.id, own.state)
                return self._hand_on(context, Proposal(request=own.request, revision=own.revision, moves=own.moves))
            request = self.request(environment)
            finished = None if self.dry_run else engine.settle_interrupted(environment, request)
            proposal = plan(environment, request, read=True)
        self.propose(context, proposal_page(proposal))
        document = self._hand_on(context, proposal)
        if proposal.nothing_to_do:
            done = f" Operation {finished.operation}, which had been interrupted, has done it." if finished else ""
            raise AirflowSkipException(f"Everything is where it should be; nothing was changed.{done}")
        proposal.require_sound()
        self.would(context, would_move(proposal), **move_preview(proposal))
        return document

    def request(self, environment: Environment) -> MoveRequest:
        """:raises RefusedError: names the argument, the value and what it should be."""
        raise NotImplementedError

    def _hand_on(self, context: Context, proposal: Proposal) -> dict[str, Any]:
        move = {"request": proposal.request.model_dump(mode="json"), "moves": sorted(proposal.moves.reasons)}
        context["ti"].xcom_push(key=MOVE, value=move)
        document = proposal.to_json()
        self.push_result(context, document)
        return document


class PlanSwitchOperator(_PlanOperator):
    """Gather, judge, and say what would move. Returns the proposal as JSON; `table` has it for people.

    Fails where a verdict is an error; skips where nothing is to be done. An interrupted switch of the same scope is
    brought to its end first, unless this is a dry run. Cleared while the run's own operation is under way, it says only
    that.

    :param scope: entries as on the command line, `user:NAME` and so on.
    """

    scope: Any = Lines("scope")
    mode: Any = FormField("mode", "planned")
    include_followers: Any = Flag("include_followers")

    def request(self, environment: Environment) -> MoveRequest:
        from ha_core.operations.requests import make_request

        return make_request(
            self.scope,
            self.origin,
            self.target,
            mode=self.mode,
            reason=self.reason,
            drain_timeout_s=self.drain_timeout_s,
            include_followers=self.include_followers,
            unread=self.unread,
        )


class PlanFaultMigrationOperator(_PlanOperator):
    """Propose a new home for topics of a dead cluster, with the groups that are known to have read them.

    :param topics: names and patterns.
    :param groups: whether groups come along.
    :param force: although the cluster answers.
    """

    topics: Any = Lines("topics")
    groups: Any = Flag("groups", True)
    force: Any = Flag("force")

    def request(self, environment: Environment) -> MoveRequest:
        from ha_core.operations.requests import fault_request

        return fault_request(
            environment,
            self.topics,
            self.origin,
            self.target,
            unread=self.unread,
            reason=self.reason,
            force=self.force,
            with_groups=self.groups,
            drain_timeout_s=self.drain_timeout_s,
        )


class AcquireOperator(SwitchyardOperator):
    """Judge what was proposed once more, take every lock and create the operation, all or nothing. Returns its id.

    A run that was killed here finds its operation again; one that was undone gets a new one. In a dry run it skips.
    """

    told_before = "the proposal is in the log of the task before"

    def work(self, context: Context) -> str:
        from ha_core.model import MoveRequest, MoveSet
        from ha_core.operations import engine
        from ha_core.operations.switch.proposal import Proposal

        move = context["ti"].xcom_pull(task_ids=self.proposal_of, key=MOVE)
        shown = Proposal(
            request=MoveRequest.model_validate(move["request"]),
            revision=0,
            moves=MoveSet(reasons=dict.fromkeys(move["moves"], "")),
        )
        with self.environment(context) as environment:
            operation_id = current_operation(context, environment)
            try:
                operation = engine.start(environment, shown, operation_id)
            except BaseException:
                # Teardown does not run after a setup that failed, so what it got hold of is given back here.
                engine.release(environment, operation_id)
                raise
            self.log.info("operation %s is %s and holds its locks", operation.id, operation.state)
        return str(operation.id)


class StepOperator(SwitchyardOperator):
    """One of the executor's steps. Before the cut, a failure has undone the operation when it is reported.

    :param operation_id: the operation; empty: the newest that this run has started.
    """

    step: ClassVar[str] = ""
    operation_id: Any = FormField("operation", "")

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations import engine

        with self.environment(context) as environment:
            operation_id = self.operation_id or newest_operation(context, environment) or ""
            operation = engine.run_task(environment, operation_id, self.step)
            self.log.info("operation %s is %s, revision %s", operation.id, operation.state, operation.revision)
            self.after(context, environment, operation)
        return {"operation": operation.id, "state": operation.state, "revision": operation.revision}

    def after(self, context: Context, environment: Environment, operation: Any) -> None:
        """What there is to tell of it."""


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

    def after(self, context: Context, environment: Environment, operation: Any) -> None:
        from ha_core.present.moves import moved

        self.done(context, moved(operation, environment.store.history(operation.id)))


class ReportOperator(OutcomeOperator):
    """The result of a switch: the operation's report, or the proposal where nothing was started."""

    def details(self, context: Context, found: Outcome) -> dict[str, Any]:
        from ha_core.operations.report import report_of

        with self.environment(context) as environment:
            started = newest_operation(context, environment)
            operation = environment.operation(started) if started else None
            report = report_of(environment, operation) if operation else None
        if report is None:
            return {"result": "nothing was changed", "proposal": context["ti"].xcom_pull(task_ids=self.proposal_of)}
        self.say_reports([report])
        return report.to_json()


def carry_out(plan: Any, question: str, *adopt: Any) -> None:
    """The tasks of a move after its `plan`: a human's word, locks, steps, report and release.

    :param adopt: what joins groups in the target; it stands before the fence.
    """
    acquire = AcquireOperator(task_id="acquire")
    prepare = PrepareTargetsOperator(task_id="prepare", **STEP, **LONG)
    cut_over = CutOverOperator(task_id="cut_over", **STEP, **LONG)
    record = RecordOperator(task_id="record")
    ask(plan, question, acquire)
    chain(acquire, prepare, *adopt, cut_over, VerifyOperator(task_id="verify"), record)
    end_run(record, report=ReportOperator(task_id="report"), setups=acquire)
