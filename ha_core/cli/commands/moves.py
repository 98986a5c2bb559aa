"""`switch`, `migrate-from-fault`, `resume`, `undo`: the planner's moves without Airflow."""

from __future__ import annotations

from typing import Annotated, Literal, cast

import typer

from ha_core.cli.command import Answer, DrainTimeout, DryRun, OperationId, Reason, Session, Yes, command, of_report
from ha_core.cli.exits import SUCCESS, refusal_code
from ha_core.model import MoveRequest
from ha_core.operations import engine
from ha_core.operations.errors import RefusedError
from ha_core.operations.requests import fault_request, make_request
from ha_core.operations.switch.proposal import plan
from ha_core.present.moves import proposal_page


@command("switch", "Move users, instances, groups or topics from one cluster to another.")
def switch(
    session: Session,
    scope: Annotated[
        list[str],
        typer.Argument(metavar="SCOPE…", help="user:NAME[+INSTANCE | #TOPIC | ##GROUP] or topic:NAME; several."),
    ],
    origin: Annotated[str, typer.Option("--from", help="Cluster that serves them now.")],
    target: Annotated[str, typer.Option("--to", help="Cluster that is to serve them.")],
    reason: Reason,
    mode: Annotated[str, typer.Option("--mode", help="planned | forced (the origin is dead).")] = "planned",
    dry_run: DryRun = False,
    yes: Yes = False,
    include_followers: Annotated[
        bool, typer.Option("--include-followers", help="Others who use the topics follow them.")
    ] = False,
    unread: Annotated[
        str | None,
        typer.Option("--unread", help="Forced, has to be said: readers below the cut wait (until it is back) | skip."),
    ] = None,
    drain_timeout: DrainTimeout = 10.0,
) -> Answer:
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
    return _carry_out(session, request, dry_run, yes)


@command("migrate-from-fault", "Give topics of a dead cluster a new home: producers go on at once.")
def migrate_from_fault(
    session: Session,
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC…", help="Names, or patterns of what was last seen there.")
    ],
    origin: Annotated[str, typer.Option("--from", help="The dead cluster.")],
    target: Annotated[str, typer.Option("--to", help="The cluster that is to serve them.")],
    unread: Annotated[
        str,
        typer.Option("--unread", help="Readers below the cut: wait (until the dead cluster is back) | skip them."),
    ],
    reason: Reason,
    groups: Annotated[
        bool,
        typer.Option("--groups/--no-groups", help="Groups that read them come along, at their last known offsets."),
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Give the cluster up although it answers.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    drain_timeout: DrainTimeout = 10.0,
) -> Answer:
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
    return _carry_out(session, request, dry_run, yes)


@command("resume", "Continue an interrupted operation, or undo what it left behind.")
def resume(
    session: Session,
    operation: OperationId,
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
) -> Answer:
    if without_origin and unread not in ("wait", "skip"):
        raise RefusedError("Say what readers do that have not read all below the cuts: --unread wait or skip.")
    report = engine.resume(
        session.environment,
        operation,
        at_once,
        without_origin=cast(Literal["wait", "skip"], unread) if without_origin else None,
        force=force,
    )
    return of_report(report)


@command("undo", "Undo an operation that has not cut yet: fences, adopted members, created topics, locks.")
def undo(session: Session, operation: OperationId) -> Answer:
    return of_report(engine.undo(session.environment, operation), wanted="undone")


def _carry_out(session: Session, request: MoveRequest, dry_run: bool, yes: bool) -> Answer:
    """Judge, show, ask and move. An interrupted move of the same scope is brought to its end first."""
    environment = session.environment
    if not dry_run:
        continued = engine.settle_interrupted(environment, request)
        if continued is not None:
            return of_report(continued)
    proposal = plan(environment, request, read=True)
    session.out.page(proposal_page(proposal))
    if dry_run:
        return Answer(proposal.to_json(), code=refusal_code(proposal.verdicts) if proposal.refused else SUCCESS)
    proposal.require_sound()
    session.confirm(yes, "Move them now?")
    operation = engine.start(environment, proposal, by=environment.by, recheck=not yes)
    session.out.progress(f"operation {operation.id}")
    return of_report(engine.resume(environment, operation.id))
