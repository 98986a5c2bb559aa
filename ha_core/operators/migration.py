"""Migrations of topics as tasks: one per batch, and a look from time to time instead of a worker that waits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from ha_core.operators.base import Context, DryRunEnds, RefusedRequestError, SwitchyardOperator, truth
from ha_core.operators.dag_run import base_id, current_id, known_ids, of_run, run_owner
from ha_core.operators.ending import OutcomeOperator
from ha_core.operators.outcome import Outcome

MAX_BATCHES = 1_000
MAX_SIDE_BY_SIDE = 16
"""Batches that run at once: one that has not started yet may have successors that have."""


def batch_base(dag_id: str, run_id: str, run_after: datetime, number: int) -> str:
    """The id of a batch's operation, the same whenever it is asked for this run."""
    return f"{base_id(dag_id, run_id, run_after).replace('switch', 'migrate', 1)}-{number}"


class PlanMigrationOperator(SwitchyardOperator):
    """Find the topics, suggest cuts, judge everything. Returns the proposal as JSON; `table` has it for people.

    Fails where a verdict is an error. The request is the form of the DAG run: rendered it would lose its types.
    """

    def work(self, context: Context) -> dict[str, Any]:
        from pathlib import Path

        from ha_core.operations.migration.judging import parse_cuts
        from ha_core.operations.migration.planning import plan_migration
        from ha_core.operators.spark import fresh_rates
        from ha_core.present.moves import migration_page, migration_preview, would_migrate
        from ha_core.present.page import markdown

        form = context["params"]
        rates = str(form["rates"] or "").strip()
        with self.environment(context) as environment:
            proposal = plan_migration(
                environment,
                [name for name in (str(one).strip() for one in form["topics"]) if name],
                str(form["from"]).strip(),
                str(form["to"]).strip(),
                reason=str(form["reason"]).strip(),
                cut=form["cut"],
                preparation_s=form["preparation_s"],
                finish_after_s=form["finish_after_s"],
                drain_timeout_s=form["drain_timeout_s"],
                cut_at=parse_cuts(form["cut_at"] or ()),
                rates=Path(rates) if rates else fresh_rates(),
                topics_per_batch=form["topics_per_batch"],
                groups=form["groups"],
            )
        self.say(migration_page(proposal))
        document = proposal.to_json()
        instance = context["ti"]
        instance.xcom_push(key="table", value=markdown(migration_page(proposal)))
        if proposal.refused:
            instance.xcom_push(key="return_value", value=document)
            proposal.require_sound()
        self.would(context, would_migrate(proposal), **migration_preview(proposal))
        return document


class ListBatchesOperator(SwitchyardOperator):
    """The batches of a proposal, one for each task that is mapped over them. In a dry run it skips.

    :param proposal: what `PlanMigrationOperator` returned.
    """

    template_fields: Sequence[str] = (*SwitchyardOperator.template_fields, "proposal", "dry_run")

    def __init__(self, *, proposal: Any, dry_run: Any = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.proposal = proposal
        self.dry_run = dry_run

    def work(self, context: Context) -> list[dict[str, Any]]:
        if truth(self.dry_run):
            raise DryRunEnds("This is a dry run: the proposal is in the log of the task `plan`.")
        batches = list(self.proposal["batches"])
        if len(batches) > MAX_BATCHES:
            raise RefusedRequestError(
                f"Nothing was changed. These are {len(batches)} batches; a run takes {MAX_BATCHES} at most. Name "
                "fewer topics, or allow more of them in a batch."
            )
        return batches


class MigrateBatchOperator(SwitchyardOperator):
    """Start the operation of one batch and run it: to its end, or until its cuts lie ahead of open crossings.

    A run that was killed here finds its operation again; one that was undone gets a new one. Returns its id.

    :param batch: one of what `ListBatchesOperator` returned.
    """

    template_fields: Sequence[str] = (*SwitchyardOperator.template_fields, "batch")
    ui_color = "#f7e3c8"

    def __init__(self, *, batch: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.batch = batch

    def work(self, context: Context) -> str:
        from ha_core.operations import engine
        from ha_core.operations.dependents import failure
        from ha_core.operations.errors import StepFailedError
        from ha_core.operations.migration.planning import Batch, start_batch
        from ha_core.present.moves import report_page

        batch, dag_run = Batch.model_validate(self.batch), context["dag_run"]
        base = batch_base(dag_run.dag_id, dag_run.run_id, dag_run.run_after, batch.number)
        with self.environment(context) as environment:
            operation_id = current_id(base, environment.operation)
            operation = start_batch(environment, batch, environment.by, operation_id)
            self.log.info("batch %d is operation %s", batch.number, operation.id)
            report = engine.run_all(environment, operation.id)
            ended = environment.operation(operation.id) or operation
        self.say(report_page(report))
        if report.result not in {"succeeded", "crossing"} or report.error:
            raise StepFailedError(report.error or f"Operation {operation_id} has ended as {report.result}.")
        if failure(ended):
            raise AirflowFailException(f"{operation_id}: {failure(ended)}")
        return operation_id


class AwaitCutsSensor(SwitchyardOperator, BaseSensorOperator):  # type: ignore[misc]  # airflow is not typed here
    """Look at the crossings from time to time and settle what has reached its cuts; between two looks no worker waits.

    :param operation_ids: what the mapped `MigrateBatchOperator` returned.
    """

    template_fields: Sequence[str] = (*SwitchyardOperator.template_fields, "operation_ids")

    def __init__(self, *, operation_ids: Any, **kwargs: Any) -> None:
        kwargs.setdefault("mode", "reschedule")
        super().__init__(**kwargs)
        self.operation_ids = operation_ids

    def work(self, context: Context) -> Any:
        return BaseSensorOperator.execute(self, context)

    def poke(self, context: Context) -> bool:
        from ha_core.operations.crossing.settling import wait_for
        from ha_core.present.moves import crossed

        with self.environment(context) as environment:
            looks = wait_for(environment, list(self.operation_ids), timeout_s=0.0)
        for look in looks:
            self.log.info("%s is %s: %s", look.operation.id, look.operation.state, look.words)
        failed = [look.operation for look in looks if look.operation.state in {"failed", "undone"}]
        if failed:
            raise AirflowFailException(" ".join(f"{one.id} has ended as {one.state}: {one.result}" for one in failed))
        ended = all(look.ended for look in looks)
        left = [f"{look.operation.id}: {look.error}" for look in looks if look.error]
        if ended and left:
            raise AirflowFailException(" ".join(left))
        if ended:
            self.done(context, crossed([look.operation for look in looks]))
        return ended


class SettleMigrationsOperator(SwitchyardOperator):
    """Look at every crossing, whoever started it: settle what has reached its cuts, continue what was interrupted."""

    def work(self, context: Context) -> list[dict[str, Any]]:
        from ha_core.operations.crossing.settling import crossing_operations, wait_for
        from ha_core.operations.migration.listing import migrations

        with self.environment(context) as environment:
            crossing = crossing_operations(environment)
            if not crossing:
                raise AirflowSkipException("No topic crosses over.")
            looks = wait_for(environment, crossing, timeout_s=0.0)
            left = migrations(environment, running_only=True)
        for one in left:
            status = one.status
            self.log.info("%s is %s, %s: %s", status.topic, status.status, one.progress, "; ".join(one.blocks))
        failed = [look for look in looks if look.error or look.operation.state == "failed"]
        if failed:
            raise AirflowFailException(
                " ".join(f"{look.operation.id}: {look.error or look.operation.result}" for look in failed)
            )
        ended = [look for look in looks if look.ended]
        self.done(context, f"{len(ended)} of {len(looks)} operations have ended; {len(left)} topics still cross over")
        return [{"operation": look.operation.id, "state": look.operation.state} for look in looks]


class RollbackMigrationOperator(SwitchyardOperator):
    """Take a migration back, as long as nothing was written to the target; else fail and name the move back.

    :param operation_id: as `switchyard migrations` shows it.
    :param dry_run: only say whether there is a way back.
    """

    template_fields: Sequence[str] = (*SwitchyardOperator.template_fields, "operation_id", "dry_run")

    def __init__(self, *, operation_id: Any, dry_run: Any = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.operation_id = operation_id
        self.dry_run = dry_run

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations import engine
        from ha_core.operations.crossing.way_back import would_roll_back
        from ha_core.present.moves import report_page

        operation_id = str(self.operation_id).strip()
        with self.environment(context) as environment:
            if truth(self.dry_run):
                words = would_roll_back(environment, operation_id)
                self.log.info("%s", words)
                self.would(context, words, objections=["none"])
                return {"result": "planned"}
            report = engine.undo(environment, operation_id)
        self.say(report_page(report))
        if report.result != "undone":
            raise AirflowFailException(f"Operation {report.operation} is {report.result}: it was not taken back.")
        self.done(context, f"{report.operation} is taken back: its topics are where they were")
        return report.to_json()


class ReportMigrationOperator(OutcomeOperator):
    """The run's result: a line for each batch, or the proposal where nothing was started.

    :param proposal_of: the task that has returned the proposal.
    """

    def __init__(self, *, proposal_of: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.proposal_of = proposal_of

    def details(self, context: Context, found: Outcome) -> dict[str, Any]:
        from ha_core.operations.dependents import words
        from ha_core.operations.migration.listing import migrations

        proposal = context["ti"].xcom_pull(task_ids=self.proposal_of)
        if not proposal:
            return {"result": "nothing was changed"}
        with self.environment(context) as environment:
            ids = _operations_of(context, environment, len(proposal["batches"]))
            if not ids:
                return {"result": "nothing was changed", "proposal": proposal}
            moved = {name for batch in proposal["batches"] for name in batch["moves"]["topics"]}
            shown = [one for one in migrations(environment) if one.status.topic in moved]
            ended = [operation for one in ids if (operation := environment.operation(one)) is not None]
        for one in shown:
            self.log.info("%s is %s, %s", one.status.topic, one.status.status, one.progress)
        groups = {operation.id: words(operation) for operation in ended if words(operation)}
        for operation_id, text in groups.items():
            self.log.info("%s: %s", operation_id, text)
        return {"operations": ids, "migrations": [one.to_json() for one in shown], "groups": groups}


class ReleaseMigrationOperator(SwitchyardOperator):
    """Teardown: what was not opened yet is undone, no fence is left, and open crossings go on with their locks."""

    reads_form: ClassVar[bool] = False

    def work(self, context: Context) -> list[str]:
        from ha_core.operations import engine
        from ha_core.present.moves import report_page

        with self.environment(context) as environment:
            ids = _operations_of(context, environment, MAX_BATCHES)
            reports = [report for one in ids if (report := engine.release(environment, one)) is not None]
            crossing = {report.operation for report in reports if report.result == "crossing"}
            owner = run_owner(context)
            held = [
                lock.key
                for lock in environment.store.locks()
                if of_run(lock.by, owner) and lock.operation not in crossing
            ]
        for report in reports:
            self.say(report_page(report))
        if held:
            raise RuntimeError(f"Locks of this run still stand: {', '.join(held[:10])}. Clear this task to try again.")
        if crossing:
            self.log.info("%d operations cross over by themselves; `settle_migrations` ends them", len(crossing))
        return ids


def _operations_of(context: Context, environment: Any, most: int) -> list[str]:
    """The newest operation of each batch of this run that was started; batches start in their order."""
    dag_run = context["dag_run"]
    found: list[str] = []
    for number in range(1, most + 1):
        base = batch_base(dag_run.dag_id, dag_run.run_id, dag_run.run_after, number)
        known = known_ids(base, environment.operation)
        if known:
            found.append(known[-1])
        elif number > len(found) + MAX_SIDE_BY_SIDE:
            break
    return found
