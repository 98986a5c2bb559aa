"""`switch`, `migrate-from-fault`, `resume`, `undo`: the planner's moves without Airflow."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from typer import Argument

from ha_core.cli.command import (
    Answer,
    DrainTimeout,
    DryRun,
    OperationId,
    Reason,
    Session,
    Yes,
    command,
    of_report,
    option,
)
from ha_core.model import MoveRequest
from ha_core.operations import engine
from ha_core.operations.errors import RefusedError
from ha_core.operations.requests import fault_request, make_request
from ha_core.operations.switch.proposal import plan
from ha_core.present.moves import proposal_page

UNREAD = "Readers that have not read all: wait (until the origin is back) | skip (go on at the cut)."


@command("switch", "Move users, instances, groups or topics from one cluster to another.")
def switch(
    session: Session,
    scope: Annotated[
        list[str], Argument(metavar="SCOPE…", help="user:NAME[+INSTANCE | #TOPIC | ##GROUP] or topic:NAME.")
    ],
    origin: Annotated[str, option("Cluster that serves them now.", "--from")],
    target: Annotated[str, option("Cluster that is to serve them.", "--to")],
    reason: Reason,
    mode: Annotated[str, option("planned | forced (the origin is dead).")] = "planned",
    dry_run: DryRun = False,
    yes: Yes = False,
    include_followers: Annotated[bool, option("Others who use the topics come along.", "--include-followers")] = False,
    unread: Annotated[str | None, option(f"Forced, required. {UNREAD}")] = None,
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
    topics: Annotated[list[str], Argument(metavar="TOPIC…", help="Names, or patterns of what was last seen there.")],
    origin: Annotated[str, option("The dead cluster.", "--from")],
    target: Annotated[str, option("The cluster that is to serve them.", "--to")],
    unread: Annotated[str, option(UNREAD)],
    reason: Reason,
    groups: Annotated[
        bool, option("Groups that read them come along, at their last known offsets.", "--groups/--no-groups")
    ] = True,
    force: Annotated[bool, option("Take the cluster for dead even if it answers.", "--force")] = False,
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
        bool, option("A migration with cuts ahead: cut at the logs' ends now, behind a fence.", "--finish-with-barrier")
    ] = False,
    without_origin: Annotated[
        bool, option("A migration with cuts ahead whose origin is lost: end it with what is known.", "--without-origin")
    ] = False,
    unread: Annotated[str | None, option(f"With --without-origin, required. {UNREAD}")] = None,
    force: Annotated[bool, option("With --without-origin: even if it answers.", "--force")] = False,
) -> Answer:
    if without_origin and unread not in ("wait", "skip"):
        raise RefusedError("Say what readers do that have not read all below the cuts: --unread wait or skip.")
    readers = cast(Literal["wait", "skip"], unread) if without_origin else None
    return of_report(engine.resume(session.environment, operation, at_once, without_origin=readers, force=force))


@command("undo", "Undo an operation that has not cut yet: fences, adopted members, created topics, locks.")
def undo(session: Session, operation: OperationId) -> Answer:
    return of_report(engine.undo(session.environment, operation), wanted="undone")


def _carry_out(session: Session, request: MoveRequest, dry_run: bool, yes: bool) -> Answer:
    """Judge, show, ask and move. An interrupted move of the same scope is brought to its end first."""
    environment = session.environment
    if not dry_run and (continued := engine.settle_interrupted(environment, request)):
        return of_report(continued)
    proposal = plan(environment, request, read=True)
    if answer := session.judge(proposal, proposal_page(proposal), "Move them now?", dry_run, yes):
        return answer
    operation = engine.start(environment, proposal, recheck=not yes)
    session.out.progress(f"operation {operation.id}")
    return of_report(engine.resume(environment, operation.id))
