"""`switchyard usage`: what users use, so that a move takes along what belongs together."""

from __future__ import annotations

from typing import Annotated

import typer

from ha_core.cli.output import table
from ha_core.cli.session import Session, connected
from ha_core.operations import registry

app = typer.Typer(help="List and declare what users use.", no_args_is_help=True)


@app.command("list", help="Topics and groups of all users, or of some.")
@connected
def list_usage(session: Session, users: Annotated[list[str] | None, typer.Argument(metavar="[USER]…")] = None) -> None:
    usage = session.environment.store.usage()
    chosen = {name: usage[name] for name in sorted(usage) if not users or name in users}
    session.out.result(
        {"usage": {n: u.model_dump(mode="json", exclude_none=True, exclude={"schema_"}) for n, u in chosen.items()}}
    )
    rows = [
        (user, f"{kind} {name}", use.instance, use.how, use.since)
        for user, used in chosen.items()
        for kind, things in (("topic", used.topics), ("group", used.groups))
        for name, uses in sorted(things.items())
        for use in uses
    ]
    session.out.show(table(("user", "uses", "instance", "how", "since"), rows) if rows else "No usage is known.")


@app.command("declare", help="Declare topics and groups of a user before its first request shows them.")
@connected
def declare(
    session: Session,
    user: Annotated[str, typer.Argument(metavar="USER")],
    topic: Annotated[list[str] | None, typer.Option("--topic", help="A topic that it uses; several.")] = None,
    group: Annotated[list[str] | None, typer.Option("--group", help="A group that it uses; several.")] = None,
    instance: Annotated[str, typer.Option("--instance", help="Client id.")] = "",
) -> None:
    topics, groups = tuple(topic or ()), tuple(group or ())
    if not topics and not groups:
        raise typer.BadParameter("name at least one --topic or --group")
    registry.declare_usage(session.environment, user, topics, groups, instance)
    session.out.result({"user": user, "topics": topics, "groups": groups})
    session.out.show(f"{user} uses {', '.join([*topics, *(f'group {g}' for g in groups)])}.")
