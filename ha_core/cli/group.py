"""`switchyard group` and `groups`: how far behind groups are, wherever their records are."""

from __future__ import annotations

from typing import Annotated

import typer

from ha_core.cli.output import table
from ha_core.cli.session import Session, connected
from ha_core.operations.inventory import GroupLag, group_lag, lags, look_at_groups
from ha_core.plan.verdict import duration, listed
from ha_core.present.page import number

MAX_ROWS = 1_000


def add_to(app: typer.Typer) -> None:
    @app.command("group", help="A group's committed offsets, its lag, and where the record to be read next lies.")
    @connected
    def group(session: Session, name: Annotated[str, typer.Argument(metavar="GROUP")]) -> None:
        found = group_lag(session.environment, name)
        session.out.result(found.to_json())
        where = "; ".join(f"coordinated in {cluster}: {state}" for cluster, state in found.coordinators.items())
        session.out.show(f"group {name}, {where or 'coordinated nowhere that answers'}")
        rows = [
            (
                p.topic,
                p.partition,
                p.committed,
                number(p.end),
                number(p.lag_records),
                p.next,
                p.coordinator,
                "now" if p.age_s is None else f"{duration(p.age_s)} ago",
            )
            for p in found.partitions
        ]
        columns = ("topic", "partition", "committed", "end", "lag records", "next record in", "committed in", "as of")
        if rows:
            session.out.show(table(columns, rows))
        else:
            session.out.show(_nothing(found))
        if found.left_over:
            session.out.show(f"commits from before it moved away are left in {', '.join(found.left_over)}")
        for cluster, why in found.unasked.items():
            session.out.show(f"{cluster} cannot be asked: {why}")

    @app.command("groups", help="All groups of all clusters with their lag.")
    @connected
    def groups(session: Session) -> None:
        environment = session.environment
        view = environment.store.load()
        look = look_at_groups(environment, view)
        found = lags(environment, view, look)
        session.out.result({"groups": [one.to_json() for one in found], "unasked": dict(look.why)})
        columns = ("group", "coordinated in", "topics", "partitions", "lag records", "as of")
        session.out.show(
            table(columns, map(_row, found[:MAX_ROWS])) if found else "no cluster that answers has a group"
        )
        if len(found) > MAX_ROWS:
            session.out.show(f"… and {len(found) - MAX_ROWS} more: --json has them all")
        for cluster, why in look.why.items():
            session.out.show(f"{cluster} cannot be asked, its groups are as last seen: {why}")


def _nothing(found: GroupLag) -> str:
    """What may be said where no commit is known."""
    if found.unasked:
        return f"what it has committed is not known: {listed(found.unasked)} cannot be asked, and nothing was recorded"
    return "it has committed nothing"


def _row(one: GroupLag) -> tuple[object, ...]:
    where = "; ".join(f"{cluster}: {state}" for cluster, state in one.coordinators.items())
    topics = sorted({p.topic for p in one.partitions})
    age = "now" if one.age_s is None else f"{duration(one.age_s)} ago"
    return one.group, where, listed(topics), len(one.partitions), number(one.lag_records), age
