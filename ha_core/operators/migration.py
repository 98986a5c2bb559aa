"""Topics: migrated as tasks, one per batch, with a trigger that waits for the cuts without a worker; or deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator

from ha_core.hooks.airflow_names import AirflowFailException, AirflowSensorTimeout, AirflowSkipException
from ha_core.operators.base import MAX_LISTED, Context, DryRunEnds, SwitchyardOperator, show
from ha_core.operators.dag_run import base_of, current_id, known_ids
from ha_core.operators.ending import OutcomeOperator, ReleaseOperator
from ha_core.operators.forms import Flag, FormField, LinesField, RefusedRequestError, Text
from ha_core.operators.moved_topics import MovesTopics
from ha_core.operators.outcome import RunOutcome
from ha_core.operators.triggers import CrossingTrigger

if TYPE_CHECKING:
    from ha_core.model import MoveOperation
    from ha_core.operations.engine.environment import Environment
    from ha_core.operations.migration.planning import MigrationBatch, MigrationProposal
    from ha_core.operations.running.whole_cluster import ClusterProposal
    from ha_core.present.page import Page

MAX_BATCHES = 1_000
MAX_SIDE_BY_SIDE = 16
"""Batches that run at once. A batch that has not started yet may have successors that have."""


def batch_base(context: Context, number: int) -> str:
    """The id of a batch's operation, stable for this run."""
    return f"{base_of(context, 'migrate')}-{number}"


def batch_key(number: int) -> str:
    """XCom key of a batch, in the proposal's task."""
    return f"batch-{number}"


class PlanBatchesOperator(SwitchyardOperator):
    """:param origin: the cluster that serves them now.
    :param target: the cluster that will serve them.
    :param topics_per_batch: topics, and groups, in one operation.
    """

    origin: Any = Text(name="from")
    target: Any = Text(name="to")
    reason: Any = Text()
    drain_timeout_s: Any = FormField(10)
    topics_per_batch: Any = FormField(200)

    def hand_on(self, proposal: MigrationProposal | ClusterProposal, page: Page, nothing: str = "") -> dict[str, Any]:
        """Show the proposal, and leave each batch for a mapped task. Returns the result, which only lists the batches.

        :param nothing: text for a run that skips because there is nothing to do; empty: that is an error.
        :raises RefusedError: a verdict is an error.
        """
        document = proposal.to_json()
        batches = document.pop("batches")
        document["batches"] = [
            {"number": batch["number"], "cut": batch["request"]["cut"], "topics": batch["moves"]["topics"]}
            for batch in batches
        ]
        self.push_result(document)
        self.propose(page)
        if nothing and proposal.nothing_to_do:
            raise AirflowSkipException(nothing)
        proposal.require_sound()
        if not self.dry_run:
            for batch in batches[:MAX_BATCHES]:
                self.push(batch_key(batch["number"]), batch)
        return document


class PlanMigrationOperator(PlanBatchesOperator):
    """Find the topics, suggest cuts, judge everything. Returns the proposal as JSON; `table` has it as a page.

    Fails if a verdict is an error.

    :param topics: names, single partitions such as `orders:0,4-7`, or patterns.
    :param cut: `barrier` or `predicted`.
    :param cut_at: `TOPIC:PARTITION=OFFSET` of partitions whose cut does not follow from their rate.
    :param rates: path of a summary of the job `offsets`; empty: the newest in the history.
    :param groups: `leave`, or `move` to move the groups that read the topics, too.
    :param settings_left_alone: settings of the origin that topics are created without, names or patterns.
    """

    topics: Any = LinesField()
    cut: Any = FormField("barrier")
    preparation_s: Any = FormField(300)
    finish_after_s: Any = FormField(None)
    cut_at: Any = LinesField(())
    rates: Any = Text(None)
    groups: Any = FormField("leave")
    settings_left_alone: Any = LinesField(())

    def work(self) -> dict[str, Any]:
        from ha_core.operations.migration.planning import plan_migration
        from ha_core.operations.proposal.requests import parse_cuts
        from ha_core.operators.spark import fresh_rates
        from ha_core.present.moves import migration_page, migration_preview, would_migrate

        rates = Path(self.rates) if self.rates else fresh_rates()
        parsed = {"cut_at": parse_cuts(self.cut_at), "rates": rates, "topics_per_batch": int(self.topics_per_batch)}
        proposal = plan_migration(self.environment, **{**self.arguments, **parsed})
        document = self.hand_on(proposal, migration_page(proposal))
        self.would(would_migrate(proposal), **migration_preview(proposal))
        return document


class ListBatchesOperator(SwitchyardOperator):
    """The numbers of a proposal's batches, one for each mapped task. A dry run skips it."""

    preview_in = "the proposal is in the log of the task `plan`"

    def work(self) -> list[int]:
        count = count_batches(self.proposal())
        if count > MAX_BATCHES:
            raise RefusedRequestError(
                f"This needs {count} batches; a run takes at most {MAX_BATCHES}. Name fewer topics, or allow more "
                "topics per batch."
            )
        return list(range(1, count + 1))


def count_batches(proposal: dict[str, Any]) -> int:
    """Batches of a pushed proposal, including those that were left out of its list."""
    return len(proposal["batches"]) + int(proposal.get("left_out", {}).get("batches", 0))


class MigrateBatchOperator(MovesTopics, SwitchyardOperator):
    """Start the operation of one batch and run it: to its end, or until its crossings are open.

    A killed run finds its operation again; an undone operation gets a successor. Fails at once if a retry would fail,
    too. Returns the operation's id.

    :param batch: its number, from `ListBatchesOperator`.
    """

    ui_color = "#f7e3c8"
    batch: Any = FormField()

    def work(self) -> str:
        from ha_core.model import MoveOperation
        from ha_core.operations.engine.errors import StepFailedError
        from ha_core.operations.migration.planning import MigrationBatch
        from ha_core.operations.move.dependents import failure
        from ha_core.operations.running import engine
        from ha_core.plan.facts.verdict import stands

        key = batch_key(int(self.batch))
        batch = MigrationBatch.model_validate(self.proposal(key))
        show(self.context, _named(batch))
        operation_id = current_id(batch_base(self.context, batch.number), self.environment.operation)
        operation = engine.start(self.environment, batch, operation_id)
        self.log.info("batch %d is operation %s", batch.number, operation.id)
        with self.watching(operation.id):
            report = engine.resume(self.environment, operation.id)
        ended = self.environment.operation_of(MoveOperation, operation.id)
        self.say_reports([report])
        if report.result not in {"succeeded", "crossing"} or report.error:
            text = report.error or f"Operation {operation_id} has ended as {report.result}."
            # Only another request, or a change of the copies, makes the verdict differ: an operator has to act first.
            failed = StepFailedError(text, report.verdicts)
            if stands(report.verdicts):
                raise AirflowFailException(text) from failed
            raise failed
        if ended is not None and failure(ended):
            raise AirflowFailException(f"{operation_id}: {failure(ended)}")
        if ended is not None and ended.request.cut == "barrier":  # `await_cuts` tells the others
            self.note_moved([ended])
        return operation_id


def _named(batch: MigrationBatch) -> str:
    """Text beside the task. A part of a cluster may have no topic: only groups, or users that are bound there."""
    names = batch.moves.topics or batch.moves.groups or batch.request.scope.entries
    return f"batch {batch.number}: {names[0]}" + (f" to {names[-1]}" if len(names) > 1 else "")


class AwaitCutsSensor(MovesTopics, SwitchyardOperator, BaseSensorOperator):  # type: ignore[misc]  # airflow is not typed here
    """Settle crossings that have reached their cuts, until all have ended. A trigger waits, without a worker.

    :param operation_ids: results of the mapped `MigrateBatchOperator`.
    :param poke_interval: seconds between two checks of the trigger.
    :param timeout: seconds of the whole wait.
    """

    operation_ids: Any = LinesField()

    def work(self) -> None:
        self._wait(datetime.now(UTC) + timedelta(seconds=self.timeout))

    def execute_complete(self, context: Context, until: str, event: dict[str, Any] | None = None) -> None:
        self.guarded(context, lambda: self._wait(datetime.fromisoformat(until)))

    def _wait(self, until: datetime) -> None:
        if self.poke():
            return
        left = until - datetime.now(UTC)
        if left <= timedelta():
            raise AirflowSensorTimeout("The crossings go on by themselves, but this task has timed out.")
        trigger = CrossingTrigger(self.zookeeper_conn_id, self.operation_ids, self.poke_interval)
        self.defer(trigger=trigger, method_name="execute_complete", kwargs={"until": until.isoformat()}, timeout=left)

    def poke(self) -> bool:
        from ha_core.operations.running.settling import wait_for
        from ha_core.present.moves import crossed

        looks = wait_for(self.environment, self.operation_ids, timeout_s=0.0)
        for look in looks:
            self.log.info("%s is %s: %s", look.operation.id, look.operation.state, look.words)
        if failed := [look.operation for look in looks if look.operation.state in {"failed", "undone"}]:
            raise AirflowFailException(
                " ".join(f"{operation.id} has ended as {operation.state}: {operation.result}" for operation in failed)
            )
        if not all(look.ended for look in looks):
            return False
        if left := [f"{look.operation.id}: {look.error}" for look in looks if look.error]:
            raise AirflowFailException(" ".join(left))
        self.done(crossed([look.operation for look in looks]))
        # Topics that moved under a fence were told by their batch.
        self.note_moved([look.operation for look in looks if look.operation.request.cut == "predicted"])
        return True


class RollbackMigrationOperator(SwitchyardOperator):
    """Undo a migration, as long as nothing was written to the target; otherwise fail and name the way to move back.

    :param operation_id: from `switchyard migrations`.
    :param reason: kept in the history; "" if none is given.
    """

    operation_id: Any = Text(name="operation")
    reason: Any = Text("")

    def work(self) -> dict[str, Any]:
        from ha_core.operations.migration.crossing.migrate import would_roll_back
        from ha_core.operations.running import engine

        if self.dry_run:
            words = would_roll_back(self.environment, self.operation_id)
            self.log.info("%s", words)
            self.would(words, objections=["none"])
            return {"result": "planned"}
        report = engine.undo(self.environment, self.operation_id, self.reason)
        self.say_reports([report])
        if report.result != "undone":
            raise AirflowFailException(f"Operation {report.operation} is {report.result}: it was not undone.")
        self.done(f"{report.operation} is undone: its topics are where they were")
        return report.to_json()


class ReportMigrationOperator(OutcomeOperator):
    """The run's result: a line for each batch, or the proposal if nothing was started."""

    def details(self, outcome: RunOutcome) -> dict[str, Any]:
        from ha_core.operations.migration.listing import migrations
        from ha_core.operations.move.dependents import words
        from ha_core.present.state import migrations_page

        proposal = self.proposal()
        if not proposal:
            return {"result": "nothing was changed"}
        ended = self.ended()
        if not ended:
            return {"result": "nothing was changed", "proposal": proposal}
        ids = [operation.id for operation in ended]
        moved = {name for operation in ended for name in operation.moved}
        shown = [migration for migration in migrations(self.environment) if migration.status.topic in moved]
        self.say(migrations_page(shown))
        groups = {operation.id: words(operation) for operation in ended if words(operation)}
        self.say(f"{operation_id}: {text}" for operation_id, text in groups.items())
        return {"operations": ids, "migrations": [migration.to_json() for migration in shown], "groups": groups}

    def operations(self) -> list[MoveOperation]:
        return self.ended()

    def ended(self) -> list[MoveOperation]:
        """Current documents of the run's operations."""
        from ha_core.model import MoveOperation

        ids = _operations_of(self.context, self.environment)
        return [*filter(None, (self.environment.operation_of(MoveOperation, one) for one in ids))]


class ReleaseMigrationOperator(ReleaseOperator):
    """Teardown: undo crossings that are not open yet, leave no fence; open crossings go on and keep their locks."""

    def started(self) -> list[str]:
        return _operations_of(self.context, self.environment)


def _operations_of(context: Context, environment: Environment) -> list[str]:
    """The newest operation of each batch that this run has started. Batches start in their order."""
    newest: list[str] = []
    for number in range(1, MAX_BATCHES + 1):
        known = known_ids(batch_base(context, number), environment.operation)
        if known:
            newest.append(known[-1])
        elif number > len(newest) + MAX_SIDE_BY_SIDE:
            break
    return newest


class DeleteTopicsOperator(SwitchyardOperator):
    """Delete topics in all clusters, with their maps, mirrors and recorded facts.

    A killed run goes on with its operation. Fails if a cluster could not be reached.

    :param topics: names, one per line.
    :param accept_away: even if a cluster does not answer; the names stay taken until it does.
    """

    topics: Any = LinesField()
    accept_away: Any = Flag()
    reason: Any = Text()

    def work(self) -> dict[str, Any]:
        from ha_core.model import SingleOperation
        from ha_core.operations.migration.topic_deletion import delete, plan_deletion
        from ha_core.plan.facts.verdict import amount, listed
        from ha_core.present.lifecycle import deletion_page, would_delete
        from ha_core.present.moves import objections

        reports = [*self.finish_own()]
        done = set[str]()
        for report in reports:
            self.require_served(report)
            operation = self.environment.operation_of(SingleOperation, report.operation)
            done |= set() if operation is None else {key.removeprefix("topic:") for key in operation.about}
        if left := [name for name in dict.fromkeys(self.topics) if name not in done]:
            proposal = plan_deletion(self.environment, left, self.accept_away)
            self.propose(deletion_page(proposal), MAX_LISTED)
            self.would(would_delete(proposal), objections=objections(proposal.verdicts))
            proposal.require_sound()
            if self.dry_run:
                raise DryRunEnds("This is a dry run: nothing is changed.")
            for report in delete(self.environment, left, self.reason, self.accept_away):
                self.require_served(report)
                reports.append(report)
        by = listed(report.operation for report in reports)
        self.done(f"deleted {amount(len(set(self.topics)), 'topic')} in all clusters, by {by}")
        return reports[-1].to_json()
