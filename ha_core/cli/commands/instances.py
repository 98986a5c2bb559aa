"""`instances`: issues a client id of its own to each client of a shared user."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, DryRun, Reason, command, option
from ha_core.cli.platform import Database, changed, opened
from ha_core.operations.clusters.registered import declare_usage
from ha_core.present.registry import entries_page

_User = Annotated[str, Argument(metavar="USER")]
UNDECLARED = (
    "Its topics are not declared, because no ZooKeeper is given (--zookeeper). Declare them with `switchyard usage "
    "declare {user} --instance {name} --topic …`; otherwise gateways learn them when the client starts."
)


@command("instances issue", "Issue a client id to one client of a user, for one or more topics.")
def issue(
    session: CommandRun,
    user: _User,
    topic: Annotated[list[str], option("A topic that the client will use. Repeatable.")],
    reason: Reason,
    description: Annotated[str, option("The client that it is for.")] = "",
    dry_run: DryRun = False,
    database: Database = None,
) -> CommandResult:
    registry = opened(session, database, creates=not dry_run)
    issued = registry.new_instance(user, topic, description)
    answer = changed(session, registry, lambda by: registry.create(issued, by, reason, dry_run), dry_run)
    if dry_run:
        return answer
    declared = session.connects is not None
    if declared:
        declare_usage(session.environment, user, issued.topics, (), issued.name)
    words = (
        f"It is declared for {', '.join(issued.topics)}."
        if declared
        else UNDECLARED.format(user=user, name=issued.name)
    )
    document = {**answer.document, "client_id": issued.name, "declared": declared}
    return CommandResult(document, [*answer.page, f"client.id={issued.name}", words], answer.code)


@command("instances list", "List issued client ids: all, or those of a user or topic.")
def list_instances(
    session: CommandRun,
    user: Annotated[str | None, option("Only this user.")] = None,
    topic: Annotated[str | None, option("Only this topic.")] = None,
    after: Annotated[str, option("Start after this name.")] = "",
    limit: Annotated[int, option("Maximum number, up to 1000.")] = 1000,
    database: Database = None,
) -> CommandResult:
    mentioned = {role: name for role, name in (("user", user), ("topic", topic)) if name is not None}
    page = opened(session, database).read.page("instances", after, limit, mentioned).to_json()
    return CommandResult(page, entries_page(page["items"]))
