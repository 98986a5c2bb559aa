"""`switchyard origins`: clusters that were given up and may be back."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from ha_core.cli.exits import FAILURE, SUCCESS
from ha_core.cli.session import Session, connected
from ha_core.moves.origin.returned import check_origins, words

app = typer.Typer(help="Clusters that were given up and may be back.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Keeps `check` a word of its own."""


@app.command(
    "check", help="Close the extents of clusters that answer again where they truly end, and say what came back."
)
@connected
def check(
    session: Session,
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]…", help="Names or patterns; all.")] = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Do without what the cluster held when it died, and has not any more.")
    ] = False,
    serve_skipped: Annotated[
        bool, typer.Option("--serve-skipped", help="Readers get what a forced move let them skip.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")] = "the cluster answers again",
) -> int:
    out = session.out
    result = check_origins(
        session.environment,
        topics or (),
        accept_loss=accept_loss,
        serve_skipped=serve_skipped,
        dry_run=dry_run,
        reason=reason,
    )
    out.result(result.to_json())
    for one in result.found:
        out.show(Text(words(one), style="bold red" if one.outcome == "less" else ""))
    for name, why in sorted(result.away.items()):
        out.show(f"{name} is away: {why}")
    for text in result.put_off:
        out.show(f"left for the next check: {text}")
    if not result.found and not result.away and not result.put_off:
        out.show("No extent waits for its cluster.")
    return FAILURE if result.less or any(r.result != "succeeded" for r in result.reports) else SUCCESS
