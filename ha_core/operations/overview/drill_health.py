"""Problems of drills: a scope that is still away, and a schedule whose drill is overdue."""

import shlex
from collections.abc import Iterator

from ha_core.operations.engine.environment import Environment
from ha_core.plan.facts.problem import Problem
from ha_core.plan.facts.verdict import duration

AWAY_S = 1_800.0


def drill_problems(environment: Environment) -> Iterator[Problem]:
    drills = environment.store.drills()
    for drill in drills:
        if drill.away or drill.result == "running":
            where = "is still in" if drill.away else "may be in"
            home = f"switchyard drill home {drill.id} --reason drill-away"
            yield Problem(
                "drill-away",
                f"drill {drill.id}",
                f"It has not ended. {' '.join(drill.scope)} {where} {drill.target}, and belongs to {drill.origin}.",
                f"`{home}`, unless the drill still runs.",
                home,
                since=drill.started,
                patience_s=AWAY_S,
            )
    for schedule in environment.store.drill_schedules():
        if (days := schedule.overdue_days(drills, environment.now())) is not None:
            run = f"switchyard drill run {shlex.join(schedule.scope)} --from {schedule.origin} --to {schedule.target}"
            options = f"--kind {schedule.kind} --schedule {schedule.name} --reason drill-overdue"
            yield Problem(
                "drill-overdue",
                f"drill schedule {schedule.name}",
                f"Its drill was due {duration(days * 86_400)} ago.",
                f"`{run} {options}`, with its canary's settings; or `switchyard drill unschedule {schedule.name}`.",
                f"{run} {options} --dry-run",
                since=schedule.due_at(drills).isoformat(),
                form={
                    "scope": "\n".join(schedule.scope),
                    "from": schedule.origin,
                    "to": schedule.target,
                    "kind": schedule.kind,
                    "schedule": schedule.name,
                },
            )
