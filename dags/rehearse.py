"""
### Rehearse a switch: there, and home again

A **drill** switches a scope to another cluster and, some seconds later, home. It measures how long clients were without
service, and counts lost and repeated records. The report is kept: `switchyard drill list`, `switchyard drill show`.

| task | what it does | if it fails |
|---|---|---|
| `plan` | finds what moves, and every objection | nothing was changed |
| `approve` | asks an operator, if you want that; holds no lock | nothing was changed |
| `drill` | switches there, holds, switches home | repeat it: it brings the scope home first |
| `report` | the result of the run, in its first line | it fails if any task failed |
| `release` | always runs: no fence and no lock is left | clear the task |

With a **canary**, a client of the drill's own writes and reads while the scope moves, and its longest pause is
measured. Its settings are a file on the worker, with the gateways and a user's login. Without one the time of the
fences counts.

A **forced** drill takes the origin for dead, and loses what no copy has: it moves the canary's topic and nothing else.
A scope that was away for longer than the **budget** goes home at once. Without Airflow: `switchyard drill run`.
"""

from datetime import timedelta

from ha_core.operators import forms
from ha_core.operators.dags import ask, end_run, switchyard_dag
from ha_core.operators.drills import DrillOperator, PlanDrillOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only the task **plan**: what moves, and every objection."),
    "scope": forms.entries(
        "Scope", "As of the DAG **switch**, one entry a line: **user:NAME**, **topic:NAME** and so on.", minItems=1
    ),
    "from": forms.cluster("From", "The cluster that serves them now, and again after the drill."),
    "to": forms.cluster("To", "The cluster that serves them during the drill."),
    "reason": forms.reason(),
    "kind": forms.field(
        "Kind",
        "**planned**, or **forced**: the origin is taken for dead; of the canary's topic alone.",
        "string",
        enum=["planned", "forced"],
        default="planned",
    ),
    "canary": forms.optional_text(
        "Canary", "File on the worker with librdkafka's settings of the canary's client. Empty: no canary.", forms.HOW
    ),
    "canary_topic": forms.field(
        "Canary's topic", "It exists in **From**.", "string", forms.HOW, default="switchyard-canary", minLength=1
    ),
    "hold_s": forms.field(
        "Hold, seconds", "Time in the other cluster.", "number", forms.HOW, default=10, minimum=0, maximum=3600
    ),
    "budget_ms": forms.field(
        "Budget, milliseconds",
        "A scope that was away for longer goes home at once.",
        "integer",
        forms.HOW,
        default=10_000,
        minimum=1,
    ),
    "rto_target_ms": forms.field(
        "RTO target, milliseconds",
        "Longest time without writes. Empty: none.",
        ["null", "integer"],
        forms.HOW,
        default=None,
        minimum=0,
    ),
    "lost_target": forms.field(
        "RPO target, records", "Lost records. Empty: none.", ["null", "integer"], forms.HOW, default=None, minimum=0
    ),
    "schedule": forms.optional_text(
        "Schedule", "The schedule that this drill fulfils (**switchyard drill schedule**).", forms.HOW
    ),
    "approval": forms.approval(),
}

with switchyard_dag(
    "rehearse",
    "Rehearse a switch",
    "Switches a scope to another cluster and home again, measures it, and keeps the report.",
    __doc__,
    "move",
    PARAMS,
    max_active_runs=1,
    run_timeout=timedelta(days=2),
):
    plan = PlanDrillOperator(task_id="plan")
    drill = DrillOperator(task_id="drill", execution_timeout=timedelta(hours=2))
    ask(plan, "Rehearse a switch from {{ params['from'] }} to {{ params.to }} and home?", drill)
    end_run(drill)
