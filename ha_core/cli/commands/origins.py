"""`origins`, `age`: clusters that were taken for dead and are back, or gone for good; extents not needed any more."""

from typing import Annotated

from ha_core.cli.command import (
    Cluster,
    CommandResult,
    CommandRun,
    DryRun,
    Patterns,
    Reason,
    Yes,
    code_of,
    command,
    option,
)
from ha_core.cli.exits import ATTENTION, FAILURE, SUCCESS
from ha_core.operations.absence.given_up import NOT_SERVED, end_interrupted, give_up, plan_giving_up, require_reason
from ha_core.operations.absence.returned import check_origins
from ha_core.operations.migration.aging import age
from ha_core.present.lifecycle import aging_page, given_up_page, giving_up_page, returned_page


@command(
    "origins check", "Close the extents of clusters that answer again at their real ends, and report what came back."
)
def check(
    session: CommandRun,
    topics: Patterns = None,
    accept_loss: Annotated[bool, option("Accept records that the cluster has lost since.", "--accept-loss")] = False,
    serve_skipped: Annotated[
        bool, option("Serve records that readers skipped in a forced move.", "--serve-skipped")
    ] = False,
    dry_run: DryRun = False,
    reason: Reason = "the cluster answers again",
) -> CommandResult:
    result = check_origins(
        session.environment,
        topics or (),
        accept_loss=accept_loss,
        serve_skipped=serve_skipped,
        dry_run=dry_run,
        reason=reason,
    )
    code = code_of(*result.reports) or (ATTENTION if result.unaccepted else SUCCESS)
    return CommandResult(result, returned_page(result), code)


@command(
    "origins give-up",
    "Declare the remaining records of a cluster lost for good: readers go on after them. Cannot be undone.",
)
def give_up_now(
    session: CommandRun,
    cluster: Cluster,
    reason: Reason,
    topics: Patterns = None,
    force: Annotated[bool, option("Even if the cluster answers.", "--force")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> CommandResult:
    environment = session.environment
    require_reason(cluster, reason)
    if not dry_run:
        end_interrupted(environment)
    plan = plan_giving_up(environment, cluster, topics or (), force=force)
    session.out.page(giving_up_page(plan))
    if dry_run or not plan.losses:
        return CommandResult({**plan.to_json(), "result": "planned" if plan.losses else "succeeded", "changed": False})
    session.confirm(yes, f"Give up their records in {cluster} for good? {NOT_SERVED}.")
    done = give_up(environment, plan, reason)
    return CommandResult(done, given_up_page(done), SUCCESS if done.succeeded else FAILURE)


@command("age", "Drop extents that cannot be read or are not needed any more; report what keeps the others.")
def age_now(
    session: CommandRun,
    topics: Patterns = None,
    delete_origin: Annotated[bool, option("Delete empty origin topics that no map names.", "--delete-origin")] = False,
    accept_loss: Annotated[bool, option("Accept records that were lost in an origin.", "--accept-loss")] = False,
    dry_run: DryRun = False,
    reason: Reason = "nothing of it can be read or is needed any more",
) -> CommandResult:
    result = age(
        session.environment,
        topics or (),
        delete_origin=delete_origin,
        accept_loss=accept_loss,
        dry_run=dry_run,
        reason=reason,
    )
    return CommandResult(result, aging_page(result, dry_run), code_of(*result.reports))
