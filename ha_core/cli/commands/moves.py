"""`switch`, `migrate-from-fault`, `resume`, `undo`: moves, without Airflow."""

from functools import partial
from typing import Annotated, Literal, cast

from typer import Argument

from ha_core.cli.command import (
    CommandResult,
    CommandRun,
    DrainTimeout,
    DryRun,
    LeaveSetting,
    OperationId,
    Reason,
    WhyUndone,
    Yes,
    carry_out,
    command,
    of_report,
    option,
)
from ha_core.cli.commands.migrate import carry_out_batches
from ha_core.model import MoveRequest
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.migration.planning import TOPICS_PER_BATCH
from ha_core.operations.proposal.proposal import plan
from ha_core.operations.proposal.requests import chosen_scope, fault_request, make_request
from ha_core.operations.running import engine
from ha_core.operations.running.whole_cluster import continue_interrupted, plan_cluster, require_whole
from ha_core.present.moves import cluster_page, proposal_page

DAMAGED = (
    "Topics whose copies are damaged: refuse (nothing moves) | leave (they stay in the origin, the others move) | "
    "good-part (move to the part of the copy that is known to be good)."
)
VERIFY = "Compare copies first: none | sample (a tenth, at most 30 s) | full (slow: reads all of both)."
RATE = (
    "Forced. Maximum records per second of one partition of the origin; a lower rate puts the cut less far ahead. "
    "Records that the origin acknowledged above the cut are not served when it is back. Default: 10,000,000."
)
UNREAD = "Readers that have not read everything: wait (until the origin is back) | skip (go on at the cut)."


@command("switch", "Move users, instances, groups or topics from one cluster to another.")
def switch(
    session: CommandRun,
    scope: Annotated[
        list[str],
        Argument(
            metavar="SCOPE…",
            help="user:NAME[+INSTANCE | #TOPIC | ##GROUP | +#TOPIC (its instances that use the topic, else the user)], "
            "topic:NAME; or cluster:NAME alone.",
        ),
    ],
    origin: Annotated[str, option("Cluster that serves them now.", "--from")],
    target: Annotated[str, option("Cluster that will serve them.", "--to")],
    reason: Reason,
    mode: Annotated[str, option("planned | forced (the origin is dead).")] = "planned",
    dry_run: DryRun = False,
    yes: Yes = False,
    include_other_users: Annotated[
        bool, option("Other users of the topics move, too.", "--include-other-users")
    ] = False,
    unread: Annotated[str | None, option(f"Forced, required. {UNREAD}")] = None,
    max_rate: Annotated[int | None, option(RATE, "--max-rate-records-s", metavar="N")] = None,
    damaged_copies: Annotated[str, option(f"Forced. {DAMAGED}")] = "refuse",
    verify: Annotated[str, option(f"Planned. {VERIFY}")] = "sample",
    batch_topics: Annotated[
        int, option("cluster:NAME: topics and groups in one operation, at most.", min=1, max=10_000)
    ] = TOPICS_PER_BATCH,
    pause: Annotated[float, option("cluster:NAME: seconds between two operations.", min=0.0)] = 0.0,
    warn_lag_records: Annotated[int, option("Warn if a topic's copy lacks more records.", min=0)] = 100_000,
    warn_lag_ms: Annotated[int, option("Warn if a copy's lag is longer.", min=0)] = 60_000,
    refuse_lag_records: Annotated[int | None, option("Refuse if a topic's copy lacks more records.", min=0)] = None,
    refuse_lag_ms: Annotated[int | None, option("Refuse if a copy's lag is longer.", min=0)] = None,
    leave_setting: LeaveSetting = None,
    drain_timeout: DrainTimeout = 10.0,
) -> CommandResult:
    parameters = {
        "mode": mode,
        "reason": reason,
        "drain_timeout_s": drain_timeout,
        "unread": unread,
        "max_rate_records_s": max_rate,
        "warn_lag_records": warn_lag_records,
        "warn_lag_ms": warn_lag_ms,
        "refuse_lag_records": refuse_lag_records,
        "refuse_lag_ms": refuse_lag_ms,
        "damaged_copies": damaged_copies,
        "verify": verify,
        "settings_left_alone": tuple(leave_setting or ()),
    }
    if require_whole(scope, origin):
        environment = session.environment
        continued = [] if dry_run else continue_interrupted(environment, origin, target)
        proposal = plan_cluster(environment, origin, target, topics_per_batch=batch_topics, **parameters)
        if continued and proposal.nothing_to_do:
            return carry_out_batches(session, (), wait=False, pause_s=0, recheck=False, continued=continued)
        if answer := session.judge(proposal, cluster_page(proposal), "Move all of it now?", dry_run, yes):
            return answer
        return carry_out_batches(session, proposal.batches, False, pause, recheck=not yes, continued=continued)
    scope = chosen_scope(session.environment, scope)
    request = make_request(scope, origin, target, **parameters, include_other_users=include_other_users)
    return _move(session, request, dry_run, yes)


@command("migrate-from-fault", "Move topics of a dead cluster to a live one: producers go on at once.")
def migrate_from_fault(
    session: CommandRun,
    topics: Annotated[
        list[str], Argument(metavar="TOPIC…", help="Names, partitions such as 'orders:0,4-7', or patterns.")
    ],
    origin: Annotated[str, option("The dead cluster.", "--from")],
    target: Annotated[str, option("The cluster that will serve them.", "--to")],
    unread: Annotated[str, option(UNREAD)],
    reason: Reason,
    groups: Annotated[
        bool, option("Groups that read them move, too, to their last known offsets.", "--groups/--no-groups")
    ] = True,
    damaged_copies: Annotated[str, option(DAMAGED)] = "refuse",
    max_rate: Annotated[int | None, option(RATE, "--max-rate-records-s", metavar="N")] = None,
    force: Annotated[bool, option("Take the cluster for dead even if it answers.", "--force")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    leave_setting: LeaveSetting = None,
    drain_timeout: DrainTimeout = 10.0,
) -> CommandResult:
    request = fault_request(
        session.environment,
        topics,
        origin,
        target,
        unread=unread,
        reason=reason,
        force=force,
        groups=groups,
        damaged_copies=damaged_copies,
        max_rate_records_s=max_rate,
        settings_left_alone=tuple(leave_setting or ()),
        drain_timeout_s=drain_timeout,
    )
    return _move(session, request, dry_run, yes)


@command("resume", "Continue an interrupted operation, or undo what it has left.")
def resume(
    session: CommandRun,
    operation: OperationId,
    at_once: Annotated[
        bool, option("A migration with cuts ahead: cut at the log ends now, under a fence.", "--finish-with-barrier")
    ] = False,
    without_origin: Annotated[
        bool, option("A migration with cuts ahead whose origin is lost: end it by recorded facts.", "--without-origin")
    ] = False,
    unread: Annotated[str | None, option(f"With --without-origin, required. {UNREAD}")] = None,
    force: Annotated[bool, option("With --without-origin: even if it answers.", "--force")] = False,
) -> CommandResult:
    if without_origin and unread not in ("wait", "skip"):
        raise RefusedError("Decide about readers that have not read all records below the cuts: --unread wait or skip.")
    readers = cast(Literal["wait", "skip"], unread) if without_origin else None
    return of_report(engine.resume(session.environment, operation, at_once, without_origin=readers, force=force))


@command("undo", "Undo an operation that has not cut yet: fences, adopted members, created topics, locks.")
def undo(session: CommandRun, operation: OperationId, reason: WhyUndone = "") -> CommandResult:
    return of_report(engine.undo(session.environment, operation, reason), wanted="undone")


def _move(session: CommandRun, request: MoveRequest, dry_run: bool, yes: bool) -> CommandResult:
    return carry_out(session, request, partial(plan, read=True), proposal_page, "Move them now?", dry_run, yes)
