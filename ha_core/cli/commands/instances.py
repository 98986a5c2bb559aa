"""`instances`: issues a client id of its own to each client of a shared user."""

from typing import Annotated

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, command, option
from ha_core.cli.platform import PageOptions, WriteOptions, listed
from ha_core.operations.clusters.registered import declare_usage

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
    write: WriteOptions,
    description: Annotated[str, option("The client that it is for.")] = "",
) -> CommandResult:
    registry = write.opened(session)
    issued = registry.new_instance(user, topic, description)
    answer = write.create(session, registry, issued)
    if write.dry_run:
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
    page: PageOptions,
    user: Annotated[str | None, option("Only this user.")] = None,
    topic: Annotated[str | None, option("Only this topic.")] = None,
) -> CommandResult:
    return listed(session, page, "instances", {"user": user, "topic": topic})
