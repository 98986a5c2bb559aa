"""`switchyard switch`, `resume`, `undo`: the planner's moves without Airflow."""

from __future__ import annotations

from typing import Annotated, Literal, cast

import typer

from ha_core.cli.exits import BAD_INPUT, FAILURE, SUCCESS, UNDONE
from ha_core.cli.failures import refusal_code
from ha_core.cli.session import Session, connected
from ha_core.model import MoveRequest
from ha_core.operations import engine
from ha_core.operations.errors import RefusedError
from ha_core.operations.report import Report
from ha_core.operations.requests import make_request
from ha_core.operations.switch.proposal import plan
from ha_core.present.moves import proposal_page, report_page

_Operation = Annotated[str, typer.Argument(metavar="OPERATION")]


def add_to(app: typer.Typer) -> None:
    @app.command("switch", help="Move users, instances, groups or topics from one cluster to another.")
    @connected
    def switch(
        session: Session,
        scope: Annotated[
            list[str],
            typer.Argument(metavar="SCOPE…", help="user:NAME[+INSTANCE | #TOPIC | ##GROUP] or topic:NAME; several."),
        ],
        origin: Annotated[str, typer.Option("--from", help="Cluster that serves them now.")],
        target: Annotated[str, typer.Option("--to", help="Cluster that is to serve them.")],
        reason: Annotated[str, typer.Option("--reason", help="Why; kept in the history.")],
        mode: Annotated[str, typer.Option("--mode", help="planned | forced (the origin is dead).")] = "planned",
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would move, and the verdicts.")] = False,
        yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
        include_followers: Annotated[
            bool, typer.Option("--include-followers", help="Others who use the topics follow them.")
        ] = False,
        unread: Annotated[
            str | None,
            typer.Option(
                "--unread", help="Forced, has to be said: readers below the cut wait (until it is back) | skip."
            ),
        ] = None,
        drain_timeout: Annotated[
            float, typer.Option("--drain-timeout", help="Seconds until gateways that do not drain stop the move.")
        ] = 10.0,
    ) -> int:
        request = make_request(
            scope,
            origin,
            target,
            mode=mode,
            reason=reason,
            drain_timeout_s=drain_timeout,
            include_followers=include_followers,
            unread=unread,
        )
        return carry_out(session, request, dry_run, yes)

    @app.command("resume", help="Continue an interrupted operation, or undo what it left behind.")
    @connected
    def resume(
        session: Session,
        operation: _Operation,
        at_once: Annotated[
            bool,
            typer.Option(
                "--finish-with-barrier", help="A migration with cuts ahead: cut at the logs' ends now, behind a fence."
            ),
        ] = False,
        without_origin: Annotated[
            bool,
            typer.Option(
                "--without-origin", help="A migration with cuts ahead whose origin is lost: end it with what is known."
            ),
        ] = False,
        unread: Annotated[
            str | None, typer.Option("--unread", help="Without origin: what readers below the cut do: wait | skip.")
        ] = None,
        force: Annotated[bool, typer.Option("--force", help="Without origin: although it answers.")] = False,
    ) -> int:
        if without_origin and unread not in ("wait", "skip"):
            raise RefusedError("Say what readers do that have not read all below the cuts: --unread wait or skip.")
        report = engine.resume(
            session.environment,
            operation,
            at_once,
            without_origin=cast(Literal["wait", "skip"], unread) if without_origin else None,
            force=force,
        )
        return show_report(session, report)

    @app.command("undo", help="Undo an operation that has not cut yet: fences, adopted members, created topics, locks.")
    @connected
    def undo(session: Session, operation: _Operation) -> int:
        report = engine.undo(session.environment, operation)
        show_report(session, report)
        return SUCCESS if report.result == "undone" else FAILURE


def carry_out(session: Session, request: MoveRequest, dry_run: bool, yes: bool) -> int:
    """Judge, show, ask and move; the exit code. An interrupted move of the same scope is settled first."""
    environment = session.environment
    if not dry_run:
        continued = engine.settle_interrupted(environment, request)
        if continued is not None:
            return show_report(session, continued)
    proposal = plan(environment, request, read=True)
    session.out.page(proposal_page(proposal))
    if dry_run:
        session.out.result(proposal.to_json())
        return refusal_code(proposal.verdicts) if proposal.refused else SUCCESS
    proposal.require_sound()
    if not (yes or session.out.confirm("Move them now?")):
        session.out.error("Nothing was changed: nobody confirmed. Say --yes, or run it in a terminal.")
        session.out.result({"result": "refused", "error": "nobody confirmed; say --yes"})
        return BAD_INPUT
    operation = engine.start(environment, proposal, by=environment.by, recheck=not yes)
    session.out.progress(f"operation {operation.id}")
    return show_report(session, engine.run_all(environment, operation.id))


def show_report(session: Session, report: Report) -> int:
    """The end of an operation, for people and machines; the exit code."""
    out = session.out
    out.result(report.to_json())
    out.page(report_page(report))
    if report.result == "undone":
        return UNDONE
    return SUCCESS if report.result in {"succeeded", "crossing"} and not report.error else FAILURE
