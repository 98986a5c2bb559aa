"""`migrate`, `rollback`, `migrations`, `settle`: topics from one cluster to another, with or without a fence."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument

from ha_core.cli.command import (
    CommandResult,
    CommandRun,
    DrainTimeout,
    DryRun,
    LeaveSetting,
    OperationId,
    Reason,
    WhyUndone,
    Yes,
    code_of,
    command,
    of_report,
    option,
)
from ha_core.cli.exits import FAILURE, SUCCESS, UNDONE
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import MoveOperation
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.report import Report
from ha_core.operations.migration.crossing.migrate import would_roll_back
from ha_core.operations.migration.listing import migrations
from ha_core.operations.migration.planning import TOPICS_PER_BATCH, MigrationBatch, plan_migration, whole_request
from ha_core.operations.move.dependents import failure, words
from ha_core.operations.proposal.requests import parse_cuts
from ha_core.operations.running import engine
from ha_core.operations.running.settling import crossing_operations, wait_for
from ha_core.plan.facts.verdict import amount
from ha_core.present.moves import batches_page, migration_page
from ha_core.present.state import looks_page, migrations_page


@command("migrate", "Move topics from one cluster to another; clients go on without a restart.")
def migrate(
    session: CommandRun,
    topics: Annotated[
        list[str],
        Argument(
            metavar="TOPIC…", help="Names, single partitions such as 'orders:0,4-7', or patterns such as 'orders-*'."
        ),
    ],
    origin: Annotated[str, option("Cluster that holds them now.", "--from")],
    target: Annotated[str, option("Cluster that will hold them.", "--to")],
    reason: Reason,
    cut: Annotated[str, option("barrier (a fence of some ms) | predicted (no fence).")] = "barrier",
    preparation: Annotated[float, option("Predicted: seconds by which the cut is ahead of its log.")] = 300.0,
    cut_at: Annotated[
        list[str] | None, option("Predicted: a cut. Repeatable.", metavar="TOPIC:PARTITION=OFFSET")
    ] = None,
    rates: Annotated[Path | None, option("Rates: a summary of the job `offsets`.")] = None,
    finish_after: Annotated[float | None, option("Predicted: seconds after which a fence ends what is left.")] = None,
    groups: Annotated[str, option("leave (groups stay) | move (groups that read the topics come along).")] = "leave",
    batch_topics: Annotated[int, option("Topics in one operation, at most.", min=1, max=10_000)] = TOPICS_PER_BATCH,
    pause: Annotated[float, option("Seconds between two batches.", min=0.0)] = 0.0,
    leave_setting: LeaveSetting = None,
    drain_timeout: DrainTimeout = 10.0,
    dry_run: DryRun = False,
    wait: Annotated[bool, option("Wait until every topic has crossed over.", "--wait")] = False,
    yes: Yes = False,
) -> CommandResult:
    environment, cuts = session.environment, parse_cuts(cut_at or ())
    parameters: dict[str, Any] = {
        "reason": reason,
        "cut": cut,
        "preparation_s": preparation,
        "finish_after_s": finish_after,
        "drain_timeout_s": drain_timeout,
        "groups": groups,
        "settings_left_alone": tuple(leave_setting or ()),
    }
    continued = engine.Continued({})
    if not (dry_run or cuts):  # the request has no cuts, so those of an interrupted operation cannot be compared
        _, _, whole = whole_request(environment, environment.store.load(), topics, origin, target, **parameters)
        continued = engine.continue_twins(environment, whole)
        topics = [entry.removeprefix("topic:") for entry in continued.left] if continued.reports else topics
    batches: tuple[MigrationBatch, ...] = ()
    if topics:
        with continued.before():
            proposal = plan_migration(
                environment,
                topics,
                origin,
                target,
                **parameters,
                cut_at=cuts,
                rates=rates,
                topics_per_batch=batch_topics,
            )
            if continued.reports and proposal.nothing_to_do:  # the interrupted operation was the last batch
                return carry_out_batches(session, (), wait, pause, recheck=not yes, continued=continued.reports)
            if answer := session.judge(proposal, migration_page(proposal), "Migrate them now?", dry_run, yes):
                return answer
        batches = proposal.batches
    return carry_out_batches(session, batches, wait, pause, recheck=not yes, continued=continued.reports)


@command("rollback", "Undo a migration, as long as nothing was written to the target.")
def rollback(
    session: CommandRun, operation: OperationId, reason: WhyUndone = "", dry_run: DryRun = False
) -> CommandResult:
    if dry_run:
        would = would_roll_back(session.environment, operation)
        return CommandResult({"result": "planned", "outcome": would}, [would])
    return of_report(engine.undo(session.environment, operation, reason), wanted="undone")


@command("migrations", "Topics that have moved or are moving: status, cut, progress, age, and blockers.")
def show(
    session: CommandRun,
    running: Annotated[bool, option("Only those that are crossing.", "--running")] = False,
) -> CommandResult:
    topic_migrations = migrations(session.environment, running)
    nothing = "no topic crosses over" if running else "no topic was ever moved"
    return CommandResult(
        {"migrations": topic_migrations}, migrations_page(topic_migrations) if topic_migrations else [nothing]
    )


@command("settle", "End the crossings that have reached their cuts; continue interrupted ones.")
def settle(
    session: CommandRun,
    operations: Annotated[list[str] | None, Argument(metavar="[OPERATION…]", help="Default: all.")] = None,
    wait: Annotated[bool, option("Wait until all of them have ended.", "--wait")] = False,
    timeout: Annotated[float | None, option("With --wait: seconds to wait at most.", min=0.0)] = None,
) -> CommandResult:
    chosen = tuple(operations) if operations else crossing_operations(session.environment)
    looks = wait_for(session.environment, chosen, timeout if wait else 0.0)
    failed = any(look.error or look.operation.state == "failed" or (wait and not look.ended) for look in looks)
    return CommandResult({"operations": looks}, looks_page(looks), FAILURE if failed else SUCCESS)


def carry_out_batches(
    session: CommandRun,
    batches: Sequence[MigrationBatch],
    wait: bool,
    pause_s: float,
    recheck: bool,
    continued: Iterable[Report],
) -> CommandResult:
    """One batch after the other. Batches that have started continue without this process."""
    environment, out = session.environment, session.out
    reports = list(continued)
    code = SUCCESS
    for batch in batches:
        if reports and pause_s:
            environment.sleep(pause_s)
        which = f"batch {batch.number} of {len(batches)}"
        try:
            operation = engine.start(environment, batch, recheck=recheck)
        except (RefusedError, KafkaAdminError) as error:
            if not reports:
                raise
            refused = error.reason if isinstance(error, RefusedError) else str(error)
            out.error(f"{which} was not started: {refused} Earlier batches stay moved. Run it again to move the rest.")
            code = FAILURE
            break
        out.progress(f"{which}: operation {operation.id}, {amount(len(batch.moves.topics), 'topic')}")
        report = engine.resume(environment, operation.id)
        reports.append(report)
        out.progress(f"{which}: {report.words}")
        if report.result not in {"succeeded", "crossing"} or report.error:
            out.error(f"{report.error} The batches after it were not started.")
            code = UNDONE if report.result == "undone" and len(reports) == 1 else FAILURE
            break
    crossing = [report.operation for report in reports if report.result == "crossing"]
    if wait and crossing:
        wait_for(environment, crossing)
        reports = [engine.resume(environment, one.operation) if one.operation in crossing else one for one in reports]
        code = code or code_of(*reports)
    ended = [*filter(None, (environment.operation_of(MoveOperation, report.operation) for report in reports))]
    for one in ended:
        if failure(one):
            out.error(f"{one.id}: {failure(one)}")
            code = FAILURE
    groups = {one.id: words(one) for one in ended if words(one)}
    result = "failed" if code else "crossing" if any(one.result == "crossing" for one in reports) else "succeeded"
    document = {"batches": reports, "result": result}
    return CommandResult({**document, "groups": groups} if groups else document, batches_page(reports, groups), code)
