"""`switchyard origins`: clusters that were taken for dead: back again, or gone for good."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ha_core.cli.exits import ATTENTION, BAD_INPUT, FAILURE, SUCCESS
from ha_core.cli.output import table
from ha_core.cli.session import Session, connected
from ha_core.operations.lifecycle.given_up import (
    NOT_SERVED,
    GivingUp,
    give_up,
    group_words,
    plan_giving_up,
    require_reason,
    settle_interrupted,
    summary_lines,
)
from ha_core.operations.lifecycle.returned import away_words, check_origins, words
from ha_core.plan.given_up import Loss

MAX_ROWS = 200
app = typer.Typer(
    help="Clusters that were dead at a cut: they may be back, or are gone for good.", no_args_is_help=True
)


@app.command(
    "check", help="Close the extents of clusters that answer again where they truly end, and say what came back."
)
@connected
def check(
    session: Session,
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]…", help="Names or patterns; all.")] = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Do without what the cluster held when it died, and has not any more.")
    ] = False,
    serve_skipped: Annotated[
        bool, typer.Option("--serve-skipped", help="Readers get what a forced move let them skip.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")] = "the cluster answers again",
) -> int:
    out = session.out
    result = check_origins(
        session.environment,
        topics or (),
        accept_loss=accept_loss,
        serve_skipped=serve_skipped,
        dry_run=dry_run,
        reason=reason,
    )
    out.result(result.to_json())
    for one in result.found:
        out.show(Text(words(one), style="bold red" if one in result.unaccepted else ""))
    for name, why in sorted(result.away.items()):
        out.show(away_words(name, why))
    for text in result.put_off:
        out.show(f"left for the next check: {text}")
    if not result.found and not result.away and not result.put_off:
        out.show("No extent waits for its cluster.")
    if any(report.result != "succeeded" for report in result.reports):
        return FAILURE
    return ATTENTION if result.unaccepted else SUCCESS


@app.command("give-up", help="What a cluster still holds is lost for ever: readers go on behind it. Cannot be undone.")
@connected
def give_up_now(
    session: Session,
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="The cluster that never comes back.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")],
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]…", help="Names or patterns; all.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Although the cluster answers.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be lost.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> int:
    out, environment = session.out, session.environment
    require_reason(cluster, reason)
    if not dry_run:
        settle_interrupted(environment)
    plan = plan_giving_up(environment, cluster, topics or (), force=force)
    _show(session, plan)
    if dry_run or not plan.losses:
        out.result({**plan.to_json(), "result": "planned" if plan.losses else "succeeded", "changed": False})
        return SUCCESS
    if not (yes or out.confirm(f"Give up what {cluster} holds of them for good? {NOT_SERVED}.")):
        out.error("Nothing was changed: nobody confirmed. Say --yes, or run it in a terminal.")
        out.result({"result": "refused", "error": "nobody confirmed; say --yes"})
        return BAD_INPUT
    done = give_up(environment, plan, reason)
    out.result(done.to_json())
    for report in done.reports:
        out.show(f"{report.operation}: {report.result}, revision {report.revision}")
        if report.error:
            out.error(report.error)
    for text in done.put_off:
        out.error(f"not given up yet: {text}. Run it again.")
    return SUCCESS if done.succeeded else FAILURE


def _show(session: Session, plan: GivingUp) -> None:
    out = session.out
    if plan.losses:
        columns = ("topic", "partition", "offsets", "known lost", "at most", "readers go on at")
        out.show(table(columns, map(_row, plan.losses[:MAX_ROWS])))
    for one in plan.unread[:MAX_ROWS]:
        out.show(group_words(one))
    more = max(0, len(plan.losses) - MAX_ROWS) + max(0, len(plan.unread) - MAX_ROWS)
    if more:
        out.show(f"… and {more} more: --json has them all")
    for line in summary_lines(plan):
        out.show(line)


def _row(loss: Loss) -> tuple[object, ...]:
    most = Text(str(loss.most), style="" if loss.known_end is None else "yellow")
    goes_on = "skipped already" if loss.skipped else loss.next
    return loss.topic, loss.partition, f"[{loss.start}, {loss.end})", loss.known, most, goes_on
