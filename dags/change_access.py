"""
### Change users, rights and quotas

Users, rights and quotas of the platform, many at once: one per line, all of them in **one** change, or none.
Gateways enforce it within seconds. `plan` checks every line and shows its effect; `change` makes the change.

```
users      alice owner=shop contact=shop@example.org groups=tills,counters     (or: super)
rights     User:alice read,describe topic orders
           Group:tills write topic till- prefixed host 10.0.0.7                (behind the name also: deny)
           User:ops describe cluster
quotas     user=alice topic=orders producer_byte_rate=1000000
           instance=app request_percentage=50 consumer_byte_rate=none
           user=alice none
```

A name with blanks is written in quotes, `*` for a name means all, `<default>` in a quota means all without one of their
own. A line without effect changes nothing, so a run may be repeated. Invalid lines are listed all together, and then
nothing is changed.

**No password is in a form, a result or a log.** *Keys* names a file on the workers with the output of
`switchyard users entry`. A user without keys there gets a password by REST,
`POST /switchyard-platform/v1/passwords/generated` of this server: the platform generates it, returns it once, and keeps
only keys of it.

The users who triggered and approved the run, and the reason, are in the platform's history:
`switchyard platform history KIND`. Without Airflow: `switchyard users|rights|quotas …`.
"""

from ha_core.operators import forms
from ha_core.operators.access import ChangeAccessOperator, PlanAccessOperator
from ha_core.operators.dag_run import PLAN
from ha_core.operators.dags import PATIENT, ask, switchyard_dag
from ha_core.operators.ending import OutcomeOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only check, and show what would be changed."),
    "create": forms.optional_entries("Create users", "**alice owner=shop groups=tills**, one a line."),
    "grant": forms.optional_entries("Grant rights", "**User:alice read,describe topic orders**, one a line."),
    "revoke": forms.optional_entries("Revoke rights", "As they were granted. A right that does not exist is no error."),
    "quotas": forms.optional_entries(
        "Set quotas",
        "**user=alice topic=orders producer_byte_rate=1000000**, one a line. Omitted limits stay.",
    ),
    "disable": forms.optional_entries(
        "Disable users", "Names, one a line. They are disconnected and may do nothing; their rights and quotas stay."
    ),
    "enable": forms.optional_entries("Enable users", "Names of users who were disabled, one a line."),
    "reason": forms.reason(),
    "keys_file": forms.optional_text(
        "Keys", "Path of a file on the workers with keys of passwords, for users that are created.", forms.HOW
    ),
    "approval": forms.approval(),
}

with switchyard_dag(
    "change_access",
    "Change access",
    "Users, rights and quotas of the platform, many at once: shown first, made in one change.",
    __doc__,
    "platform",
    PARAMS,
    max_active_runs=4,
    run_timeout=PATIENT,
) as dag:
    plan = PlanAccessOperator(task_id=PLAN)
    change = ChangeAccessOperator(task_id="change")
    report = OutcomeOperator(task_id="report")
    ask(plan, "Change users, rights and quotas?", change)
    change >> report
    dag.add_result(report.output)
