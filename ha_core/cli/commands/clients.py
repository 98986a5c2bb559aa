"""`connections`, `explain`: clients connected to the gateways, and how gateways treat a client's requests."""

from typing import Annotated

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, command, option
from ha_core.cli.exits import OUT_OF_REACH, SUCCESS
from ha_core.present.clients import connections_page, explanations_page

_Gateway = Annotated[str | None, option("Ask only this gateway, by its id.")]


@command("connections", "Clients connected to the gateways: address, software, cluster.")
def connections(
    session: CommandRun,
    user: Annotated[str | None, option("Only this user.")] = None,
    client_id: Annotated[str | None, option("Only with this client.id.")] = None,
    instance: Annotated[str | None, option("Only this instance; the user's client-id forms apply.")] = None,
    address: Annotated[str | None, option("Only from this address.")] = None,
    cluster: Annotated[str | None, option("Only at brokers of this cluster.")] = None,
    gateway: _Gateway = None,
    limit: Annotated[int, option("Maximum number per gateway.", min=1, max=10_000)] = 1000,
    own: Annotated[bool, option("Also show connections of Switchyard's own processes.", "--own")] = False,
) -> CommandResult:
    filters = (
        ("user", user),
        ("client_id", client_id),
        ("instance", instance),
        ("address", address),
        ("cluster", cluster),
    )
    # It imports an HTTP client, which no other command needs.
    from ha_core.operations.access.connections import connected

    fields = {field: value for field, value in filters if value is not None}
    found = connected(session.environment, fields, limit, gateway)
    page = connections_page(found.rows, found.totals, found.unanswered, own or bool(fields), found.shared)
    return CommandResult(found, page, SUCCESS if found.answered else OUT_OF_REACH)


@command("explain", "How each gateway treats a client's requests for a topic or group, and why.")
def explain(
    session: CommandRun,
    user: Annotated[str, Argument(metavar="USER")],
    instance: Annotated[str, Argument(metavar="INSTANCE", help='The client.id; "" for none.')],
    name: Annotated[str, Argument(metavar="TOPIC|group:GROUP")],
    address: Annotated[str, option("The client's address, for rules that name addresses.")] = "",
    gateway: _Gateway = None,
) -> CommandResult:
    from ha_core.operations.access.connections import explained

    found = explained(session.environment, user, instance, name, address, gateway)
    page = explanations_page(found.answers, found.agree, found.unanswered)
    return CommandResult(found, page, SUCCESS if found.answered else OUT_OF_REACH)
