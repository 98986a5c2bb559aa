"""
### Change users, rights and quotas

Entries of the platform, many at once, all of them in **one** change, or none. Gateways enforce it within seconds.
`plan` checks every entry and shows the effect; `change` makes the change.

*Put* and *Delete* are YAML or JSON: a list for each kind, with the values that REST and `switchyard platform put` take.

```
put:     users:
           - {name: alice, owner: shop, groups: [tills, counters]}
           - {name: bob, disabled: true}
         rules:
           - {principal: "User:alice", operation: read, resource_type: topic, name: orders}
           - {principal: "Group:tills", operation: write, resource_type: topic, name: till-, pattern: prefixed}
         quotas:
           - {user: alice, topic: orders, producer_byte_rate: 1000000, consumer_byte_rate: null}
delete:  rules:
           - {principal: "User:alice", operation: write, resource_type: topic, name: orders}
         quotas:
           - {user: bob}
```

Fields that are left out stay as they are, in new entries they have their defaults. To delete an entry, name the fields
that it is known by. Any kind will do: users, rules, quotas, topics, instances, clusters and settings. Entries that are
so already change nothing, so a run may be repeated. Invalid entries are listed all together, and then nothing is
changed.

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
from ha_core.operators.dags import PATIENT, ask, result_of_dag, switchyard_dag
from ha_core.operators.ending import OutcomeOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only check, and show what would be changed."),
    "put": forms.optional_text(
        "Put",
        "YAML or JSON, a list for each kind: **users: [{name: alice, owner: shop}]**. Omitted fields stay.",
        format="multiline",
    ),
    "delete": forms.optional_text(
        "Delete",
        "Entries in the same form. Their keys suffice: **quotas: [{user: alice, topic: orders}]**. An entry that does "
        "not exist is no error.",
        format="multiline",
    ),
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
    result_of_dag(dag, report)
