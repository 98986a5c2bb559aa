"""`switchyard migrate-from-fault`: topics of a cluster that is dead already."""

from __future__ import annotations

from typing import Annotated

import typer

from ha_core.cli.session import Session, connected
from ha_core.cli.switch import carry_out
from ha_core.operations.requests import fault_request


def add_to(app: typer.Typer) -> None:
    @app.command("migrate-from-fault", help="Give topics of a dead cluster a new home: producers go on at once.")
    @connected
    def migrate_from_fault(
        session: Session,
        topics: Annotated[
            list[str], typer.Argument(metavar="TOPIC…", help="Names, or patterns of what was last seen there.")
        ],
        origin: Annotated[str, typer.Option("--from", help="The dead cluster.")],
        target: Annotated[str, typer.Option("--to", help="The cluster that is to serve them.")],
        unread: Annotated[
            str,
            typer.Option(
                "--unread",
                help="Readers below the cut: wait (until the dead cluster is back) | skip (go on behind it).",
            ),
        ],
        reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")],
        groups: Annotated[
            bool,
            typer.Option("--groups/--no-groups", help="Groups that read them come along, at their last known offsets."),
        ] = True,
        force: Annotated[bool, typer.Option("--force", help="Give the cluster up although it answers.")] = False,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would move, and the verdicts.")] = False,
        yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
        drain_timeout: Annotated[
            float, typer.Option("--drain-timeout", help="Seconds until gateways that do not drain stop the move.")
        ] = 10.0,
    ) -> int:
        request = fault_request(
            session.environment,
            topics,
            origin,
            target,
            unread=unread,
            reason=reason,
            force=force,
            with_groups=groups,
            drain_timeout_s=drain_timeout,
        )
        return carry_out(session, request, dry_run, yes)
