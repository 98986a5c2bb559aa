"""`switchyard age`: what is left of migrations, and what keeps it."""

from __future__ import annotations

from typing import Annotated

import typer

from ha_core.cli.exits import FAILURE, SUCCESS
from ha_core.cli.session import Session, connected
from ha_core.operations.lifecycle.aging import age
from ha_core.present.lifecycle import aging_page


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
        session.out.page(aging_page(result, dry_run))
        return FAILURE if any(report.result != "succeeded" for report in result.reports) else SUCCESS
