"""`switchyard migrate` and `rollback`: topics from one cluster to another, with or without a fence."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from ha_core.cli.exits import BAD_INPUT, FAILURE, SUCCESS, UNDONE
from ha_core.cli.failures import refusal_code
from ha_core.cli.output import table
from ha_core.cli.session import Session, connected
from ha_core.cli.switch import show_report
from ha_core.operations import engine
from ha_core.operations.crossing.settling import wait_for
from ha_core.operations.crossing.way_back import would_roll_back
from ha_core.operations.dependents import failure, words
from ha_core.operations.migration.judging import parse_cuts
from ha_core.operations.migration.planning import TOPICS_PER_BATCH, MigrationProposal, plan_migration, start_batch
from ha_core.operations.report import Report
from ha_core.present.moves import migration_page


def add_to(app: typer.Typer) -> None:
    @app.command("migrate", help="Move topics from one cluster to another; clients go on, unrestarted.")
    @connected
    def migrate(
        session: Session,
        topics: Annotated[
            list[str],
            typer.Argument(
                metavar="TOPIC…", help="Names, single partitions as 'orders:0,4-7', or patterns as 'orders-*'."
            ),
        ],
        origin: Annotated[str, typer.Option("--from", help="Cluster that holds them now.")],
        target: Annotated[str, typer.Option("--to", help="Cluster that is to hold them.")],
        reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")],
        cut: Annotated[
            str, typer.Option("--cut", help="barrier (a fence of some ms) | predicted (no fence).")
        ] = "barrier",
        preparation: Annotated[
            float, typer.Option("--preparation", help="Predicted: seconds that a cut lies ahead of its log.")
        ] = 300.0,
        cut_at: Annotated[
            list[str] | None,
            typer.Option("--cut-at", metavar="TOPIC:PARTITION=OFFSET", help="Predicted: this cut; several."),
        ] = None,
        rates: Annotated[
            Path | None, typer.Option("--rates", help="Summary of the job `offsets`, for the rates.")
        ] = None,
        finish_after: Annotated[
            float | None,
            typer.Option("--finish-after", help="Predicted: seconds until what has not ended is ended with a fence."),
        ] = None,
        groups: Annotated[
            str,
            typer.Option(
                "--groups",
                help="leave: groups stay with their coordinators | move: those that read the topics come along.",
            ),
        ] = "leave",
        batch_topics: Annotated[
            int, typer.Option("--batch-topics", min=1, max=10_000, help="Most topics in one operation.")
        ] = TOPICS_PER_BATCH,
        pause: Annotated[float, typer.Option("--pause", min=0.0, help="Seconds between two batches.")] = 0.0,
        drain_timeout: Annotated[
            float, typer.Option("--drain-timeout", help="Seconds until gateways that do not follow stop a batch.")
        ] = 10.0,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Show ends, rates, cuts, cost and verdicts.")] = False,
        wait: Annotated[bool, typer.Option("--wait", help="Wait until every topic has crossed over.")] = False,
        yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    ) -> int:
        proposal = plan_migration(
            session.environment,
            topics,
            origin,
            target,
            reason=reason,
            cut=cut,
            preparation_s=preparation,
            finish_after_s=finish_after,
            drain_timeout_s=drain_timeout,
            cut_at=parse_cuts(cut_at or ()),
            rates=rates,
            topics_per_batch=batch_topics,
            groups=groups,
        )
        session.out.page(migration_page(proposal))
        if dry_run:
            session.out.result(proposal.to_json())
            return refusal_code(proposal.verdicts) if proposal.refused else SUCCESS
        proposal.require_sound()
        if not (yes or session.out.confirm("Migrate them now?")):
            session.out.error("Nothing was changed: nobody confirmed. Say --yes, or run it in a terminal.")
            session.out.result({"result": "refused", "error": "nobody confirmed; say --yes"})
            return BAD_INPUT
        return _carry_out(session, proposal, wait, pause, recheck=not yes)

    @app.command("rollback", help="Take a migration back, as long as nothing was written to the target.")
    @connected
    def rollback(
        session: Session,
        operation: Annotated[str, typer.Argument(metavar="OPERATION")],
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say whether there is a way back.")] = False,
    ) -> int:
        if dry_run:
            words = would_roll_back(session.environment, operation)
            session.out.result({"result": "planned", "outcome": words})
            session.out.show(words)
            return SUCCESS
        report = engine.undo(session.environment, operation)
        show_report(session, report)
        return SUCCESS if report.result == "undone" else FAILURE


def _carry_out(session: Session, proposal: MigrationProposal, wait: bool, pause_s: float, recheck: bool) -> int:
    """One batch after the other. What has been started goes on by itself, also when this process is stopped."""
    environment = session.environment
    reports: list[Report] = []
    code = SUCCESS
    for batch in proposal.batches:
        if reports and pause_s:
            environment.sleep(pause_s)
        operation = start_batch(environment, batch, environment.by, recheck=recheck)
        count = len(batch.moves.topics)
        session.out.progress(
            f"batch {batch.number} of {len(proposal.batches)}: operation {operation.id}, {count} topics"
        )
        report = engine.run_all(environment, operation.id)
        reports.append(report)
        session.out.progress(f"batch {batch.number}: {report.result} {report.error}".rstrip())
        if report.result not in {"succeeded", "crossing"} or report.error:
            session.out.error(f"{report.error} The batches behind it were not started.")
            code = UNDONE if report.result == "undone" and len(reports) == 1 else FAILURE
            break
    crossing = [report.operation for report in reports if report.result == "crossing"]
    if wait and crossing:
        ended = {look.operation.id: look for look in wait_for(environment, crossing)}
        reports = [
            engine.resume(environment, report.operation) if report.operation in ended else report for report in reports
        ]
        code = code or (SUCCESS if all(report.result == "succeeded" for report in reports) else FAILURE)
    operations = [environment.operation(report.operation) for report in reports]
    groups = {one.id: words(one) for one in operations if one is not None and words(one)}
    for one in operations:
        if one is not None and failure(one):
            session.out.error(f"{one.id}: {failure(one)}")
            code = FAILURE
    document = {"batches": [report.to_json() for report in reports], "result": _result(reports, code)}
    session.out.result({**document, "groups": groups} if groups else document)
    rows = [
        (report.operation, report.result, report.revision, report.error or groups.get(report.operation, ""))
        for report in reports
    ]
    session.out.show(table(("operation", "result", "revision", ""), rows))
    if any(report.result == "crossing" for report in reports):
        session.out.show(
            "They cross over by themselves. `switchyard migrations` shows how far they are; `switchyard settle`, the "
            "scheduled DAG settle_migrations or --wait ends them."
        )
    return code


def _result(reports: Iterable[Report], code: int) -> str:
    if code:
        return "failed"
    return "crossing" if any(report.result == "crossing" for report in reports) else "succeeded"
