"""`parity`: differences of two clusters that stand in for each other."""

from typing import Annotated

from typer import Argument, BadParameter

from ha_core.cli.command import CommandResult, CommandRun, DryRun, command, option
from ha_core.cli.exits import ATTENTION, SUCCESS
from ha_core.present.parity import parities_page, parity_page


@command("parity check", "Compare topics, settings, rights, quotas, schemas of two clusters; exit code 6: differences.")
def check(
    session: CommandRun,
    source: Annotated[str, Argument(metavar="SOURCE", help="The cluster that clients use.")],
    target: Annotated[str, Argument(metavar="TARGET", help="The cluster that has to take its place.")],
    topics: Annotated[
        list[str] | None, option("Only these topics, by names or patterns; the result is not kept.", "--topic")
    ] = None,
    ignored: Annotated[
        list[str] | None,
        option("Settings that may differ, by names or patterns; empty: none. Default: as last.", "--ignore"),
    ] = None,
    source_registry: Annotated[
        str | None, option("URL of the source's schema registry (Confluent's REST interface); empty: none.")
    ] = None,
    target_registry: Annotated[str | None, option("URL of the target's schema registry; empty: none.")] = None,
    dry_run: DryRun = False,
) -> CommandResult:
    # It imports an HTTP client, which no other command needs.
    from ha_core.operations.parity.comparing import ParityOrder, compare

    if (source_registry is None) != (target_registry is None):
        raise BadParameter("schemas are compared in two registries: give --source-registry and --target-registry")
    registries = None if source_registry is None or target_registry is None else (source_registry, target_registry)
    allowed = None if ignored is None else tuple(filter(None, ignored))
    order = ParityOrder(source, target, tuple(topics or ()), allowed, registries)
    result = compare(session.environment, order, dry_run or bool(topics))  # of some topics: not the pair's result
    return CommandResult(result, parity_page(result), ATTENTION if result.count else SUCCESS)


@command("parity list", "The last comparison of each pair of clusters.")
def list_all(session: CommandRun) -> CommandResult:
    found = session.environment.store.parities()
    return CommandResult({"pairs": found}, parities_page(found, session.environment.age_s))
