"""
### Declare flows of MirrorMaker 2

A **declaration** holds the keys of an *mm2.properties*. Workers on any host run its flows and follow its changes:
`switchyard mirror-maker --declared NAME --zookeeper …`, or the Spark job `flows --declared NAME`.

`look` reads the keys, asks the clusters that they name, and logs the flows, remarks and errors. `change` stores the
declaration in one revision. Within seconds its workers stop flows that are gone or changed, and start new and changed
ones; other flows keep running. *Withdraw* deletes the declaration: its workers stop its flows; topics and copies stay.

A declaration must not contain passwords: write references such as `${env:BACKUP_PASSWORD}`, which each worker resolves
on its own host. Airflow's host also resolves them, to ask the clusters; if it cannot, tick *Do not ask the clusters*.
Without Airflow: `switchyard flows declare NAME FILE --reason …`, `switchyard flows withdraw NAME --reason …`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import end_run, switchyard_dag
from ha_core.operators.flows import ChangeFlowsOperator, LookAtFlowsOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only show the flows, remarks and errors."),
    "action": forms.choice(
        "Action",
        "*check* reads the keys, asks the clusters, and changes nothing.",
        {
            "declare": "declare: store new or changed properties",
            "withdraw": "withdraw: workers stop its flows",
            "check": "check: change nothing",
        },
        forms.WHAT,
    ),
    "name": forms.field(
        "Name",
        "Name of the declaration. **switchyard flows declared** lists all declarations.",
        "string",
        pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
    ),
    "properties": forms.optional_text(
        "Properties",
        "The keys of an mm2.properties, one per line, such as **clusters = primary, backup**; or YAML with the same "
        "keys. No passwords: write references such as **${env:BACKUP_PASSWORD}**. Leave it empty for *withdraw*.",
        format="multiline",
    ),
    "reason": forms.reason(),
    "unprobed": forms.flag(
        "Do not ask the clusters", "If references have no value on Airflow's hosts. Then only the keys are checked."
    ),
}

with switchyard_dag(
    "mirror_flows",
    "Declare flows of MirrorMaker 2",
    "Declares, changes, checks or withdraws flows that workers run.",
    __doc__,
    "mirror",
    PARAMS,
):
    change = ChangeFlowsOperator(task_id="change")
    LookAtFlowsOperator(task_id="look") >> change
    end_run(change)
