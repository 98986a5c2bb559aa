"""`switchyard history`: what was done, by whom, and how long each step took."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ha_core.cli.output import table
from ha_core.cli.session import Session, connected
from ha_core.model import Operation
from ha_core.operations.errors import RefusedError
from ha_core.operations.requests import format_scope
from ha_core.plan.verdict import listed


def add_to(app: typer.Typer) -> None:
    @app.command("history", help="All operations, or every entry of one.")
    @connected
    def history(
        session: Session,
        operation: Annotated[str | None, typer.Argument(metavar="OPERATION")] = None,
        limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many operations, the newest.")] = 50,
        before: Annotated[
            str | None, typer.Option(metavar="OPERATION", help="Older ones than this: the next page.")
        ] = None,
    ) -> None:
        if operation is None:
            _operations(session, limit, before)
        else:
            _entries(session, operation)


def _operations(session: Session, limit: int, before: str | None) -> None:
    operations = session.environment.store.operations(limit, before)
    session.out.result(
        {"operations": [o.model_dump(mode="json", exclude_none=True, exclude={"schema_"}) for o in operations]}
    )
    session.out.show(
        table(
            ("operation", "kind", "state", "started", "scope", "from", "to", "by", "reason", "result"),
            [_row(one) for one in operations],
        )
    )
    if len(operations) == limit:
        session.out.show(f"older ones: switchyard history --before {operations[-1].id}")


def _entries(session: Session, operation_id: str) -> None:
    store = session.environment.store
    found = session.environment.operation(operation_id)
    if found is None:
        raise RefusedError(f"There is no operation {operation_id}. `switchyard history` lists them.")
    entries = store.history(operation_id)
    session.out.result(
        {
            "operation": found.model_dump(mode="json", exclude_none=True, exclude={"schema_"}),
            "history": [e.model_dump(mode="json", exclude_none=True, exclude={"schema_"}) for e in entries],
        }
    )
    session.out.show(f"{found.id}: {found.kind}, {found.state}, by {found.by}: {found.reason}")
    request = found.request
    between = f", {request.origin} → {request.target}" if request is not None else ""
    if scope_words(found):
        session.out.show(f"scope: {scope_words(found)}{between}")
    session.out.show(
        table(
            ("at", "epoch", "step", "outcome", "ms", "detail"),
            [
                (
                    e.at,
                    e.epoch,
                    e.step,
                    e.outcome,
                    "" if e.ms is None else f"{e.ms:.1f}",
                    json.dumps(e.detail, ensure_ascii=False) if e.detail else "",
                )
                for e in entries
            ],
        )
    )


def _row(one: Operation) -> tuple[object, ...]:
    origin, target = (one.request.origin, one.request.target) if one.request is not None else ("", "")
    return one.id, one.kind, one.state, one.started, scope_words(one), origin, target, one.by, one.reason, one.result


def scope_words(one: Operation) -> str:
    """What an operation is about, bounded."""
    if one.request is not None:
        return listed(format_scope(one.request.scope))
    return listed(one.evidence.about)
