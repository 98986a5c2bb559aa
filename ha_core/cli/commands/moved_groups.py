"""`flows move-group`: move a group to the other cluster of a flow."""

from pathlib import Path
from typing import Annotated

import typer

from ha_core.cli.command import CommandResult, CommandRun, DryRun, Reason, code_of, command, option
from ha_core.operations.flows.moving_group import configured, group_lock, move_group, plan_group_move, way_of
from ha_core.operations.running import engine
from ha_core.present.flows import group_move_page
from ha_core.present.moves import single_page


@command("flows move-group", "Commit a stopped group's offsets in the other cluster of a flow, at its exact records.")
def move(
    session: CommandRun,
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    flow: Annotated[
        str,
        typer.Argument(metavar="FLOW", help="SOURCE->TARGET of the move; TARGET->SOURCE moves a group back."),
    ],
    reason: Reason,
    file: Annotated[Path | None, option("The flow's mm2.properties.", metavar="FILE")] = None,
    declared: Annotated[
        str | None, option("The flow's declaration. Default: the only one that has it.", metavar="NAME")
    ] = None,
    wait_s: Annotated[float, option("Seconds to wait until the group has no members.", "--wait-s")] = 0.0,
    repeat: Annotated[
        bool, option("Accept lower offsets where exact ones are unknown: the group rereads records.", "--repeat")
    ] = False,
    dry_run: DryRun = False,
) -> CommandResult:
    session.found_state()
    found = configured(session.environment, flow, file, declared)
    way = way_of(found, flow)
    plan = plan_group_move(found, way, group, wait_s)
    session.out.page(group_move_page(plan))
    plan.require(repeat)
    if dry_run:
        return CommandResult({"move": plan.to_json()})
    engine.end_interrupted(session.environment, group_lock(group))
    done, report = move_group(session.environment, found, way, group, reason, repeat)
    return CommandResult({"move": done.to_json(), **report.to_json()}, single_page(report), code_of(report))
