"""A switch of live clients as tasks: proposal, steps, result. Each step finds out what is left of it to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import chain

from ha_core.hooks.airflow_names import AirflowFailException, AirflowSkipException
from ha_core.operators.base import SwitchyardOperator
from ha_core.operators.dag_run import base_of, current_id, newest_move
from ha_core.operators.dags import LONG, STEP, ask, end_run
from ha_core.operators.ending import OutcomeOperator
from ha_core.operators.forms import Flag, FormField, LinesField, Text
from ha_core.operators.migration import (
    MigrateBatchOperator,
    PlanBatchesOperator,
    ReportMigrationOperator,
    batch_base,
    count_batches,
)
from ha_core.operators.moved_topics import OUTLETS, MovesTopics
from ha_core.operators.outcome import DONE, RunOutcome

if TYPE_CHECKING:
    from ha_core.model import MoveOperation, MoveRequest
    from ha_core.operations.engine.creating import Startable
    from ha_core.operations.engine.report import Report
    from ha_core.operations.proposal.proposal import Proposal

MOVE = "move"
"""XCom key of the request and the names of what moves, from the proposal to the locks."""


class _PlanOperator(SwitchyardOperator):
    """:param origin: the cluster that serves them now.
    :param target: the cluster that will serve them.
    :param unread: for readers of a dead origin: `wait` or `skip`; None if it is alive.
    :param damaged_copies: for topics whose copies are damaged: `refuse`, `leave` or `good-part`.
    :param max_rate_records_s: maximum records per second of one partition of a dead cluster; None: the default.
    :param settings_left_alone: settings of the origin that topics are created without, names or patterns.
    """

    origin: Any = Text(name="from")
    target: Any = Text(name="to")
    reason: Any = Text()
    unread: Any = FormField(None)
    damaged_copies: Any = FormField("refuse")
    max_rate_records_s: Any = FormField(None)
    settings_left_alone: Any = LinesField(())
    drain_timeout_s: Any = FormField(10)

    def work(self) -> dict[str, Any]:
        from ha_core.operations.proposal.proposal import Proposal, plan
        from ha_core.operations.running import engine
        from ha_core.present.moves import move_preview, proposal_page, would_move

        own = newest_move(self.context, self.environment)
        if own is not None and own.state != "undone":
            self.log.info("operation %s of this run is %s; it goes on", own.id, own.state)
            return self._hand_on(Proposal(request=own.request, revision=own.revision, moves=own.moves))
        request = self.request()
        continued = engine.Continued({}) if self.dry_run else engine.continue_twins(self.environment, request)
        with continued.before():
            proposal = plan(self.environment, request, read=True)
            self.propose(proposal_page(proposal))
            document = self._hand_on(proposal)
            if proposal.nothing_to_do:
                raise AirflowSkipException(f"Everything is in place already; {_done(continued.reports)}.")
            proposal.require_sound()
        self.would(would_move(proposal), **move_preview(proposal))
        return document

    def request(self) -> MoveRequest:
        """:raises RefusedError: names the argument, the value and the remedy."""
        raise NotImplementedError

    def _hand_on(self, proposal: Proposal) -> dict[str, Any]:
        judged = proposal.judged
        move = {
            "request": proposal.request.model_dump(mode="json"),
            "moves": sorted(proposal.moves.reasons),
            "judged": None if judged is None else judged.model_dump(mode="json"),
        }
        self.push(MOVE, move)
        document = proposal.to_json()
        self.push_result(document)
        return document


def _done(continued: Sequence[Report]) -> str:
    """Result of interrupted operations that were finished first. :raises StepFailedError: one of them has an error."""
    from ha_core.operations.engine.errors import StepFailedError

    if wrong := next((report for report in continued if report.error), None):
        raise StepFailedError(f"Operation {wrong.operation}, which had been interrupted, has ended: {wrong.error}")
    names = ", ".join(report.operation for report in continued)
    return f"operation {names}, which had been interrupted, has done it" if names else "nothing was changed"


class PlanSwitchOperator(_PlanOperator):
    """Collect facts, judge, and log what would move. Returns the proposal as JSON; `table` has it as a page.

    Fails if a verdict is an error; skips if there is nothing to do. An interrupted switch of the same scope is finished
    first, unless this is a dry run. If the task is cleared while the run's own operation is under way, it only logs
    that.

    :param scope: entries as on the command line, `user:NAME` and so on.
    :param refuse_lag_records: refuse the switch if a copy lacks more records; `refuse_lag_ms`, if its lag is longer.
        `warn_lag_records` and `warn_lag_ms` warn.
    :param verify: the share of the copies to compare first: `none`, `sample` or `full`.
    """

    scope: Any = LinesField()
    mode: Any = FormField("planned")
    include_other_users: Any = Flag()
    warn_lag_records: Any = FormField(100_000)
    warn_lag_ms: Any = FormField(60_000)
    refuse_lag_records: Any = FormField(None)
    refuse_lag_ms: Any = FormField(None)
    verify: Any = FormField("sample")

    def request(self) -> MoveRequest:
        from ha_core.operations.proposal.requests import chosen_scope, make_request

        return make_request(**{**self.arguments, "scope": chosen_scope(self.environment, self.scope)})


class PlanFaultMigrationOperator(_PlanOperator):
    """Propose to move topics of a dead cluster, with the groups that are known to have read them.

    :param topics: names, partitions and patterns.
    :param groups: move the groups, too.
    :param force: even if the cluster answers.
    """

    topics: Any = LinesField()
    groups: Any = Flag(True)
    force: Any = Flag()

    def request(self) -> MoveRequest:
        from ha_core.operations.proposal.requests import fault_request

        return fault_request(self.environment, **self.arguments)


class AcquireOperator(SwitchyardOperator):
    """Judge the proposal once more, take every lock and create the operation, all or nothing. Returns its id.

    A killed run finds its operation again; an undone operation gets a successor. A dry run skips it.
    """

    preview_in = "the proposal is in the log of the task before"

    def work(self) -> str:
        from ha_core.operations.running import engine

        shown = self.proposed()
        operation_id = current_id(base_of(self.context, shown.kind), self.environment.operation)
        try:
            operation = engine.start(self.environment, shown, operation_id)
        except BaseException:
            # Teardown does not run after a setup that failed, so release its locks here.
            engine.release(self.environment, operation_id)
            raise
        self.log.info("operation %s is %s and holds its locks", operation.id, operation.state)
        return str(operation.id)

    def proposed(self) -> Startable:
        """The proposal that was shown, for an operation of any kind."""
        from ha_core.operations.proposal.proposal import Proposal

        move = self.proposal(MOVE)
        moves = {"reasons": dict.fromkeys(move["moves"], "")}
        handed_on = {"request": move["request"], "judged": move.get("judged")}
        return Proposal.model_validate({**handed_on, "revision": 0, "moves": moves})


class StepOperator(SwitchyardOperator):
    """One of the executor's steps. If it fails before the cut, the operation is undone before the failure is reported.

    :param operation_id: the operation; empty: the newest that this run has started.
    """

    step: ClassVar[str] = ""
    operation_id: Any = FormField("", name="operation")

    def work(self) -> dict[str, Any]:
        from ha_core.operations.running import engine

        newest = newest_move(self.context, self.environment)
        operation_id = self.operation_id or (newest.id if newest else "")
        with self.watching(operation_id):
            operation = engine.run_task(self.environment, operation_id, self.step)
        self.log.info("operation %s is %s, revision %s", operation.id, operation.state, operation.revision)
        self.after(operation)
        return {"operation": operation.id, "state": operation.state, "revision": operation.revision}

    def after(self, operation: Any) -> None:
        """Report the step's result, if there is any."""


class CompareCopiesOperator(StepOperator):
    """Compare the copies of mirrored topics with their sources. Nothing is changed yet, and no client waits."""

    step = "compare"

    def after(self, operation: Any) -> None:
        from ha_core.operations.move.switch_mirrors import compared_words

        self.log.info("%s", compared_words(operation) or "nothing is compared")


class PrepareTargetsOperator(StepOperator):
    """Create missing topics in the target like those of the origin; check existing ones."""

    step = "prepare"


class AdoptGroupsOperator(StepOperator):
    """Join the moving groups in the target on behalf of their live members, with the same assignment."""

    step = "adopt"


class CutOverOperator(StepOperator):
    """Fence, drain, log ends and last sequences, group offsets, cut: one task, because clients wait meanwhile. Before
    the fence it takes over the copies of mirrored topics and lets them catch up."""

    step = "cut_over"
    ui_color = "#f7e3c8"


class VerifyOperator(StepOperator):
    """Check that every gateway serves the cut, and that the origin's logs have not grown since. Reverse mirrors."""

    step = "verify"


class RecordOperator(MovesTopics, StepOperator):
    """Write the result and release the locks. Each moved topic is an asset event."""

    step = "record"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**OUTLETS, **kwargs})

    def after(self, operation: Any) -> None:
        from ha_core.present.moves import moved

        self.note_moved([operation])
        self.done(moved(operation, self.environment.store.history(operation.id)))


class ReportOperator(OutcomeOperator):
    """The result of a switch: the operation's report, or the proposal if nothing was started."""

    def details(self, outcome: RunOutcome) -> dict[str, Any]:
        from ha_core.operations.engine.report import report_of

        operation = newest_move(self.context, self.environment)
        report = report_of(self.environment, operation) if operation else None
        if report is None:
            return {"result": "nothing was changed", "proposal": self.proposal()}
        self.say_reports([report])
        return report.to_json()

    def operations(self) -> list[MoveOperation]:
        operation = newest_move(self.context, self.environment)
        return [operation] if operation else []


def carry_out(plan: Any, question: str, *adopt: Any, before: Sequence[Any] = ()) -> None:
    """The tasks of a move after its `plan`: approval, locks, steps, report and release.

    :param adopt: tasks that join groups in the target, before the fence.
    :param before: tasks that run while nothing is changed.
    """
    acquire = AcquireOperator(task_id="acquire")
    prepare = PrepareTargetsOperator(task_id="prepare", **STEP, **LONG)
    cut_over = CutOverOperator(task_id="cut_over", **STEP, **LONG)
    record = RecordOperator(task_id="record")
    ask(plan, question, acquire)
    chain(acquire, *before, prepare, *adopt, cut_over, VerifyOperator(task_id="verify"), record)
    end_run(record, reports=ReportOperator, setups=acquire)


class PlanClusterSwitchOperator(PlanBatchesOperator):
    """Divide all that a cluster serves into parts that can move alone, and judge each. Returns the proposal as JSON.

    Fails if a verdict is an error; skips if the cluster serves nothing any more.

    :param mode: `planned`, or `forced` if the origin is dead.
    :param unread: for readers of a dead origin: `wait` or `skip`; None if it is alive.
    :param damaged_copies: for topics whose copies are damaged: `refuse`, `leave` or `good-part`.
    :param max_rate_records_s: maximum records per second of one partition of a dead cluster; None: the default.
    :param settings_left_alone: settings of the origin that topics are created without, names or patterns.
    :param verify: the share of the copies to compare before each of them: `none`, `sample` or `full`.
    """

    mode: Any = FormField("planned")
    unread: Any = FormField(None)
    damaged_copies: Any = FormField("refuse")
    max_rate_records_s: Any = FormField(None)
    settings_left_alone: Any = LinesField(())
    warn_lag_records: Any = FormField(100_000)
    warn_lag_ms: Any = FormField(60_000)
    refuse_lag_records: Any = FormField(None)
    refuse_lag_ms: Any = FormField(None)
    verify: Any = FormField("sample")

    def work(self) -> dict[str, Any]:
        from ha_core.operations.running.whole_cluster import plan_cluster
        from ha_core.present.moves import cluster_page, objections, would_move_cluster

        arguments = {**self.arguments, "topics_per_batch": int(self.topics_per_batch)}
        proposal = plan_cluster(self.environment, **arguments)
        nothing = "No client is routed there, and no topic is written there: nothing was changed."
        document = self.hand_on(proposal, cluster_page(proposal), nothing)
        self.would(would_move_cluster(proposal), objections=objections(proposal.verdicts))
        return document


class SwitchBatchOperator(MigrateBatchOperator):
    """Move one part of a cluster, unless another part has failed: an operator has to look first. Returns its id.

    One part moves at a time, so a part that has begun and not succeeded has failed, or waits for a retry.

    :param batch: its number, from `ListBatchesOperator`.
    """

    def work(self) -> str:
        from ha_core.operators.dag_run import known_ids

        for number in {*range(1, count_batches(self.proposal()) + 1)} - {int(self.batch)}:
            known = known_ids(batch_base(self.context, number), self.environment.operation)
            begun = self.environment.operation(known[-1]) if known else None
            if begun is not None and begun.state != "succeeded":
                raise AirflowFailException(
                    f"Not started: part {number}, operation {begun.id}, is {begun.state}. Mend the "
                    "cause, clear its task, then this one."
                )
        return super().work()


class ReportClusterSwitchOperator(ReportMigrationOperator):
    """The run's result: the outcome of all parts in the first line, then each operation."""

    def judged(self, outcome: RunOutcome) -> RunOutcome:
        from ha_core.present.moves import moved_in_parts, stays_moved

        ended = self.ended()
        if outcome.failed:
            moved = [operation for operation in ended if operation.state == "succeeded"]
            return outcome.after(stays_moved(moved)) if moved else outcome
        if not ended:
            return outcome
        histories = [self.environment.store.history(operation.id) for operation in ended]
        return RunOutcome(DONE, moved_in_parts(ended, histories))
