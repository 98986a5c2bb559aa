"""`switchyard migrations` and `settle`: what has moved or moves, and the end of what has reached its cuts."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ha_core.cli.exits import FAILURE, SUCCESS
from ha_core.cli.output import table
from ha_core.cli.session import Session, connected
from ha_core.operations.crossing.settling import crossing_operations, wait_for
from ha_core.operations.migration.listing import Migration, migrations

_STYLES = {"Migrating": "yellow", "Migrated": "green", "Aged": "dim"}


def add_to(app: typer.Typer) -> None:
    @app.command("migrations", help="Topics that were moved or move: status, cut, progress, age, what blocks.")
    @connected
    def show(
        session: Session,
        running: Annotated[bool, typer.Option("--running", help="Only those that cross over now.")] = False,
    ) -> None:
        found = migrations(session.environment, running)
        session.out.result({"migrations": [one.to_json() for one in found]})
        if not found:
            session.out.show("no topic crosses over" if running else "no topic was ever moved")
            return
        columns = ("topic", "status", "from", "to", "cut", "progress", "age", "operation", "groups", "what blocks")
        session.out.show(table(columns, [_row(one) for one in found]))

    @app.command("settle", help="End the crossings that have reached their cuts; continue interrupted ones.")
    @connected
    def settle(
        session: Session,
        operations: Annotated[list[str] | None, typer.Argument(metavar="[OPERATION…]", help="Default: all.")] = None,
        wait: Annotated[bool, typer.Option("--wait", help="Until all of them have ended.")] = False,
        timeout: Annotated[float | None, typer.Option("--timeout", min=0.0, help="Seconds to wait.")] = None,
    ) -> int:
        environment = session.environment
        chosen = tuple(operations) if operations else crossing_operations(environment)
        looks = wait_for(environment, chosen, timeout if wait else 0.0)
        rows = [
            {
                "operation": look.operation.id,
                "state": look.operation.state,
                "progress": look.progress.words if look.progress else "",
                "error": look.error,
            }
            for look in looks
        ]
        session.out.result({"operations": rows})
        session.out.show(
            table(("operation", "state", "progress", "error"), [tuple(row.values()) for row in rows])
            if rows
            else "no topic crosses over"
        )
        failed = any(look.error or look.operation.state == "failed" for look in looks)
        return FAILURE if failed or (wait and not all(look.ended for look in looks)) else SUCCESS


def _row(one: Migration) -> tuple[object, ...]:
    first = one.status.partitions[0]
    return (
        one.status.topic,
        Text(one.status.status, style=_STYLES[one.status.status]),
        first.origin,
        first.target,
        one.cut,
        one.progress,
        "" if one.age_s is None else age_words(one.age_s),
        one.operation.id if one.operation else "",
        one.groups,
        "; ".join(one.blocks),
    )


def age_words(seconds: float) -> str:
    """The two largest units of an age."""
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min {int(seconds) % 60} s" if minutes else f"{seconds:.0f} s"
