"""`switchyard age`: what is left of migrations, and what keeps it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ha_core.cli.exits import FAILURE, SUCCESS
from ha_core.cli.output import table
from ha_core.cli.session import Session, connected
from ha_core.operations.lifecycle.aging import Aging, Old, age

MAX_ROWS = 200


def add_to(app: typer.Typer) -> None:
    @app.command("age", help="Drop the extents that nobody can read or needs any more; say what keeps the others.")
    @connected
    def age_now(
        session: Session,
        topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]…", help="Names or patterns; all.")] = None,
        delete_origin: Annotated[
            bool, typer.Option("--delete-origin", help="Delete origin topics of which nothing is left in any map.")
        ] = False,
        accept_loss: Annotated[
            bool, typer.Option("--accept-loss", help="Do without records that were lost in an origin.")
        ] = False,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look.")] = False,
        reason: Annotated[
            str, typer.Option("--reason", help="Why; kept in the history.")
        ] = "nothing of it can be read or is needed any more",
    ) -> int:
        result = age(
            session.environment,
            topics or (),
            delete_origin=delete_origin,
            accept_loss=accept_loss,
            dry_run=dry_run,
            reason=reason,
        )
        session.out.result(result.to_json())
        _show(session, result, dry_run)
        return FAILURE if any(report.result != "succeeded" for report in result.reports) else SUCCESS


def _show(session: Session, result: Aging, dry_run: bool) -> None:
    out = session.out
    shown = sorted(result.extents, key=lambda old: (old.aged, old.topic, old.partition))[:MAX_ROWS]
    if shown:
        out.show(table(("topic", "partition", "cluster", "offsets", "status", "what keeps it"), map(_row, shown)))
    if len(result.extents) > len(shown):
        out.show(f"… and {len(result.extents) - len(shown)} more: --json has them all")
    aged = sum(old.aged for old in result.extents)
    done = "would be dropped" if dry_run else "dropped"
    out.show(f"{aged} of {len(result.extents)} old extents are aged and {done if aged else 'none is dropped'}")
    for cluster, names in sorted(result.deleted.items()):
        out.show(f"{'would be deleted' if dry_run else 'deleted'} in {cluster}: {', '.join(names) or 'nothing'}")
    for what, why in sorted(result.kept.items()):
        out.show(f"not deleted: {what}: {why}")
    for text in result.put_off:
        out.show(f"left for the next run: {text}")
    if result.left_over:
        out.show(f"no longer needed: {', '.join(result.left_over[:20])}")


def _row(old: Old) -> tuple[object, ...]:
    status = Text("Aged", style="green") if old.aged else Text("Migrated", style="yellow")
    reasons = "; ".join(block.text for block in old.blocks)
    return old.topic, old.partition, old.extent.cluster, f"[{old.extent.start}, {old.extent.end})", status, reasons
