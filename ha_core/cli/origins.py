"""`switchyard origins`: clusters that were taken for dead: back again, or gone for good."""

from __future__ import annotations

from typing import Annotated

import typer

from ha_core.cli.exits import ATTENTION, BAD_INPUT, FAILURE, SUCCESS
from ha_core.cli.session import Session, connected
from ha_core.operations.lifecycle.given_up import (
    NOT_SERVED,
    give_up,
    plan_giving_up,
    require_reason,
    settle_interrupted,
)
from ha_core.operations.lifecycle.returned import check_origins
from ha_core.present.lifecycle import given_up_page, giving_up_page, returned_page

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
    out.page(returned_page(result))
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
    out.page(giving_up_page(plan))
    if dry_run or not plan.losses:
        out.result({**plan.to_json(), "result": "planned" if plan.losses else "succeeded", "changed": False})
        return SUCCESS
    if not (yes or out.confirm(f"Give up what {cluster} holds of them for good? {NOT_SERVED}.")):
        out.error("Nothing was changed: nobody confirmed. Say --yes, or run it in a terminal.")
        out.result({"result": "refused", "error": "nobody confirmed; say --yes"})
        return BAD_INPUT
    done = give_up(environment, plan, reason)
    out.result(done.to_json())
    out.page(given_up_page(done))
    return SUCCESS if done.succeeded else FAILURE
