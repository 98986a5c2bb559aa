"""`onboard`: an existing fleet comes to the gateways, and goes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, Reason, command, operator, option
from ha_core.cli.exits import ATTENTION, SUCCESS
from ha_core.cli.platform import Database, enforcement_of, opened
from ha_core.operations.access.onboarding import broker_access, clients_past, leaving
from ha_core.plan.access.onboarding import LeftOut, brought
from ha_core.present.onboarding import clients_past_page, leaving_page, left_out_page
from ha_core.present.registry import batch_page

if TYPE_CHECKING:
    from ha_core.platform.batch import Step
    from ha_core.platform.wanted import WantedEntry

_WOULD = {"made": "to be made", "changed": "to be changed", "deleted": "to be deleted", "stands": "stands already"}
_Cluster = Annotated[str, Argument(metavar="CLUSTER", help="A registered cluster.")]


@command("onboard check", "Find clients that write or commit past the gateways; exit code 6: there are some.")
def check(
    session: CommandRun,
    cluster: _Cluster,
    watch_s: Annotated[float, option("Seconds for which logs are watched.", "--watch", min=1, max=600)] = 10.0,
) -> CommandResult:
    found = clients_past(session.environment, cluster, watch_s)
    clear = not (found.committers or found.writers or found.not_read)
    return CommandResult(found, clients_past_page(found), SUCCESS if clear else ATTENTION)


@command("onboard access", "Show ACLs, SCRAM users, quotas of brokers as entries of the platform; --apply: make them.")
def access(
    session: CommandRun,
    cluster: _Cluster,
    without: Annotated[list[str] | None, option("An account that is no client, such as the gateways' own.")] = None,
    apply: Annotated[bool, option("Make the entries, all of them or none.", "--apply")] = False,
    reason: Reason = "brought from the brokers",
    database: Database = None,
) -> CommandResult:
    from ha_core.platform.batch import made

    entries = brought(broker_access(session.environment, cluster), without or ())
    wanted, invalid = _valid(entries.put)
    left_out, enforcement = (*entries.left_out, *invalid), list[str]()
    steps: tuple[Step, ...] = ()
    if wanted:
        registry = opened(session, database, creates=apply)
        steps = made(registry, wanted, operator(), reason, dry_run=not apply)
        kinds = {step.kind for step in steps if step.edit is not None}
        if apply and kinds:
            newest = {kind: at_us for kind, at_us in registry.read.newest_us().items() if kind in kinds}
            enforcement = enforcement_of(session, registry, newest)
    document = {
        "result": "succeeded" if apply else "dry run",
        "entries": [{"kind": step.kind, "value": step.value, "what": step.what} for step in steps],
        "left_out": [one._asdict() for one in left_out],
        "without_keys": entries.without_keys,
        "enforcement": enforcement,
    }
    shown = batch_page([(step.kind, step.value, step.what if apply else _WOULD[step.what]) for step in steps])
    page = [*(shown if steps else ["The brokers have nothing to bring."])]
    page += [*left_out_page(left_out, entries.without_keys), *enforcement]
    if steps and not apply:
        page.append("Nothing was made: --apply makes all of these in one change.")
    return CommandResult(document, page, ATTENTION if left_out else SUCCESS)


def _valid(put: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[list[WantedEntry], list[LeftOut]]:
    """Entries that the platform can have, and the others. An entry for a user that it cannot have is left out, too."""
    from ha_core.platform.entry import kind_of
    from ha_core.platform.errors import InvalidError
    from ha_core.platform.wanted import WantedEntry

    wanted, left_out, strange = list[WantedEntry](), list[LeftOut](), set[str]()
    for name, values in put.items():  # users come first
        kind = kind_of(name)
        for value in values:
            about = ", ".join(f"{field} {one}" for field, one in value.items())
            user = str(value.get("user") or value.get("principal", "")).removeprefix("User:")
            try:
                kind.read(value)
                why = f"the platform cannot have its user {user}" if user in strange else ""
            except InvalidError as error:
                why = str(error)
                strange |= {str(value["name"])} if name == "users" else set()
            if why:
                left_out.append(LeftOut(name, about, why))
            else:
                wanted.append(WantedEntry(kind, value))
    return wanted, left_out


@command("onboard leave", "Facts that bar clients from going back to the brokers; exit code 6 if there are any.")
def leave(session: CommandRun, cluster: _Cluster) -> CommandResult:
    found = leaving(session.environment, cluster)
    return CommandResult(found, leaving_page(found), ATTENTION if found.bonds or found.not_read else SUCCESS)
