"""`switchyard group`: how far behind a group is, wherever its records are."""

from __future__ import annotations

from typing import Annotated

import typer

from ha_core.cli.output import table
from ha_core.cli.session import Session, connected
from ha_core.moves.migration.lag import group_lag


def add_to(app: typer.Typer) -> None:
    @app.command("group", help="A group's committed offsets, its lag, and where the record to be read next lies.")
    @connected
    def group(session: Session, name: Annotated[str, typer.Argument(metavar="GROUP")]) -> None:
        found = group_lag(session.environment, name)
        session.out.result(found.to_json())
        where = "; ".join(f"coordinated in {cluster}: {state}" for cluster, state in found.coordinators.items())
        session.out.show(f"group {name}, {where or 'coordinated nowhere that answers'}")
        rows = [
            (p.topic, p.partition, p.committed, _number(p.end), _number(p.lag_records), p.next, p.coordinator)
            for p in found.partitions
        ]
        columns = ("topic", "partition", "committed", "end", "lag records", "next record in", "committed in")
        session.out.show(table(columns, rows) if rows else "it has committed nothing")
        if found.left_over:
            session.out.show(f"commits from before it moved away are left in {', '.join(found.left_over)}")
        if found.unasked:
            session.out.show(f"cannot be asked: {', '.join(found.unasked)}")


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)
