"""`drill`: rehearsed switches there and home, and their reports."""

from pathlib import Path
from typing import Annotated, cast

from typer import Argument

from ha_core.cli.command import CommandResult, CommandRun, DryRun, Reason, Yes, command, option
from ha_core.cli.exits import ATTENTION, FAILURE, SUCCESS
from ha_core.model import Drill, DrillSchedule
from ha_core.model.drill import DrillKind
from ha_core.operations.drill.canary import Canary, settings_of
from ha_core.operations.drill.rehearsal import DrillOrder, Rehearsal, begun, go_home, propose
from ha_core.operations.engine.errors import unchanged
from ha_core.present.drills import drill_page, drills_page, often
from ha_core.present.moves import proposal_page

_Scope = Annotated[list[str], Argument(metavar="SCOPE…", help="As of `switchyard switch`, without cluster:NAME.")]
_Kind = Annotated[str, option("planned | forced (the origin is taken for dead; of the canary's topic alone).")]
_DrillId = Annotated[str, Argument(metavar="DRILL")]
_RtoTarget = Annotated[int | None, option("Target: longest time without writes, in milliseconds.", min=0)]
_LostTarget = Annotated[int | None, option("Target: lost records.", "--rpo-target-records", min=0)]


@command("drill run", "Switch a scope to another cluster and home again, measured; exit code 1 unless it passed.")
def run(
    session: CommandRun,
    scope: _Scope,
    origin: Annotated[str, option("Cluster that serves them now.", "--from")],
    target: Annotated[str, option("Cluster that serves them during the drill.", "--to")],
    reason: Reason,
    kind: _Kind = "planned",
    canary: Annotated[
        Path | None, option("librdkafka settings of a client at the gateways, whose records are measured.")
    ] = None,
    canary_topic: Annotated[
        str, option("Topic that the canary writes, and reads in a group of the same name.")
    ] = "switchyard-canary",
    hold_s: Annotated[float, option("Seconds in the other cluster.", "--hold-s", min=0.0)] = 10.0,
    budget_ms: Annotated[int, option("Go home at once if the scope was away for longer.", min=1)] = 10_000,
    home_within_s: Annotated[
        float, option("Seconds in which the way home must become free.", "--home-within-s", min=0.0)
    ] = 600.0,
    rto_target_ms: _RtoTarget = None,
    lost_target: _LostTarget = None,
    schedule: Annotated[str, option("The schedule that this drill fulfils.", metavar="NAME")] = "",
    dry_run: DryRun = False,
    yes: Yes = False,
) -> CommandResult:
    environment = session.environment
    order = DrillOrder(
        *(_kind(kind), tuple(scope), origin, target, reason, hold_s, budget_ms, home_within_s),
        *(rto_target_ms, lost_target, schedule),
    )
    if schedule and schedule not in {one.name for one in environment.store.drill_schedules()}:
        raise unchanged(f"There is no schedule {schedule}. `switchyard drill list` shows all.")
    settings = None if canary is None else settings_of(canary)
    proposal = propose(environment, order)
    if answer := session.judge(proposal, proposal_page(proposal), "Drill it now, there and home?", dry_run, yes):
        return answer
    drill = begun(environment, order, proposal)
    client = None if settings is None else Canary(settings, canary_topic, drill.id)
    session.out.progress(f"drill {drill.id}")
    done = Rehearsal(environment, order, drill, client).run()
    return CommandResult(done, drill_page(done), SUCCESS if done.result == "passed" else FAILURE)


@command("drill list", "Drills and their schedules; exit code 6 if a drill is overdue or its scope is still away.")
def show_all(session: CommandRun) -> CommandResult:
    store = session.environment.store
    drills, schedules = store.drills(), store.drill_schedules()
    now = session.environment.now()
    late = {one.name: days for one in schedules if (days := one.overdue_days(drills, now)) is not None}
    document = {"drills": drills, "schedules": schedules, "overdue_days": late}
    waits = late or any(one.away for one in drills)
    return CommandResult(document, drills_page(drills, schedules, late), ATTENTION if waits else SUCCESS)


@command("drill show", "The report of one drill.")
def show(session: CommandRun, drill: _DrillId) -> CommandResult:
    found = session.environment.store.read(Drill, drill)
    if found is None:
        raise unchanged(f"There is no drill {drill}. `switchyard drill list` shows all.")
    return CommandResult(found[0], drill_page(found[0]))


@command("drill home", "Bring the scope of a drill home whose process has died, or whose way home was not free.")
def home(session: CommandRun, drill: _DrillId, reason: Reason) -> CommandResult:
    done = go_home(session.environment, drill, reason)
    return CommandResult(done, drill_page(done), SUCCESS)


@command("drill schedule", "Repeat a drill: `drill list` and `status --check` name it when it is overdue.")
def schedule(
    session: CommandRun,
    name: Annotated[str, Argument(metavar="NAME")],
    scope: _Scope,
    origin: Annotated[str, option("Cluster that serves them.", "--from")],
    target: Annotated[str, option("Cluster that serves them during the drill.", "--to")],
    every_days: Annotated[int, option("Days between two drills.", min=1, max=1_000)] = 92,
    kind: _Kind = "planned",
    rto_target_ms: _RtoTarget = None,
    lost_target: _LostTarget = None,
) -> CommandResult:
    environment = session.environment
    DrillOrder(_kind(kind), tuple(scope), origin, target, "a schedule").request("there")  # refuses what is illegal
    stored = DrillSchedule(
        name=name,
        kind=_kind(kind),
        scope=tuple(scope),
        origin=origin,
        target=target,
        every_days=every_days,
        by=environment.by,
        since=environment.now(),
        rto_target_ms=rto_target_ms,
        lost_target=lost_target,
    )
    environment.store.write_drill_schedule(stored)
    return CommandResult(stored, [f"a drill of {' '.join(scope)} is due {often(stored)}"])


@command("drill unschedule", "Stop expecting a drill.")
def unschedule(session: CommandRun, name: Annotated[str, Argument(metavar="NAME")]) -> CommandResult:
    if not session.environment.store.remove_drill_schedule(name):
        raise unchanged(f"There is no schedule {name}. `switchyard drill list` shows all.")
    return CommandResult({"result": "removed", "schedule": name}, [f"schedule {name} is removed"])


def _kind(text: str) -> DrillKind:
    if text not in ("planned", "forced"):
        raise unchanged(f"--kind {text!r} is none of planned, forced.")
    return cast(DrillKind, text)
