"""`direct-groups`: name the consumer groups that read past the gateways, and carry their offsets to other groups."""

from typing import Annotated

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, DryRun, Reason, code_of, command, option
from ha_core.cli.exits import ATTENTION, SUCCESS
from ha_core.operations.access.carrying_groups import carry_group
from ha_core.operations.access.direct_groups import (
    NamingResult,
    add_direct_groups,
    direct_groups,
    remove_direct_groups,
)
from ha_core.present.direct_groups import carried_page, direct_groups_page

_Patterns = Annotated[list[str], Argument(metavar="GROUP…", help="Names of groups, or patterns such as 'report-*'.")]


@command(
    "direct-groups list",
    "List the groups that read past the gateways; exit code 6 if gateways know one of them.",
)
def show(session: CommandRun) -> CommandResult:
    now = direct_groups(session.environment)
    return CommandResult(now, direct_groups_page(now), ATTENTION if now.conflicts else SUCCESS)


@command("direct-groups add", "Name groups that read past the gateways: mirrors then translate their commits.")
def add(session: CommandRun, groups: _Patterns, reason: Reason, dry_run: DryRun = False) -> CommandResult:
    return _result(add_direct_groups(session.environment, groups, reason, dry_run))


@command(
    "direct-groups remove", "Take names back: gateways serve these groups again, and their commits are client offsets."
)
def remove(session: CommandRun, groups: _Patterns, reason: Reason, dry_run: DryRun = False) -> CommandResult:
    return _result(remove_direct_groups(session.environment, groups, reason, dry_run))


@command(
    "direct-groups carry",
    "Commit a group's exact offsets for another group: for consumers that change between gateways and a cluster, or "
    "between clusters.",
)
def carry(
    session: CommandRun,
    group: Annotated[str, Argument(metavar="GROUP")],
    cluster: Annotated[str, option("Cluster that has the group's commits.", "--from")],
    other: Annotated[str, option("Group that gets the offsets. Default: the same group.", "--as")] = "",
    target: Annotated[str, option("Cluster in which that group gets them. Default: the same cluster.", "--to")] = "",
    dry_run: DryRun = False,
) -> CommandResult:
    result = carry_group(session.environment, group, cluster, other, target, dry_run)
    return CommandResult(result, carried_page(result), ATTENTION if result.left else SUCCESS)


def _result(result: NamingResult) -> CommandResult:
    document = {"result": result.words, "groups": result.groups}
    if result.report is None:
        return CommandResult(document, [result.words])
    return CommandResult({**document, **result.report.to_json()}, [result.words], code_of(result.report))
