"""
### Declare flows of MirrorMaker 2

A **declaration** has the keys of an *mm2.properties*. Workers on any host run its flows, and follow it while it
changes: `switchyard mirror-maker --declared NAME --zookeeper …`, or the Spark job `flows --declared NAME`.

`look` reads the keys, asks the clusters that they name, and logs the flows, remarks and errors. `change` stores the
declaration, in one revision; within seconds its workers stop flows that are gone or changed, start new ones, and leave
the others alone. *Withdraw* deletes the declaration: its workers stop its flows, and topics and copies stay.

Passwords do not belong into it: write references such as `${env:BACKUP_PASSWORD}`, which each worker resolves on its
own host. This host resolves them too, for the look at the clusters; tick *Do not ask the clusters* if it cannot.
Without Airflow: `switchyard flows declare NAME FILE --reason …`, `switchyard flows withdraw NAME --reason …`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import end_run, switchyard_dag
from ha_core.operators.flows import ChangeFlowsOperator, LookAtFlowsOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only show the flows, remarks and errors."),
    "action": forms.choice(
        "Action",
        "*check* reads the keys and asks the clusters, and changes nothing.",
        {
            "declare": "declare: store the properties, new or changed",
            "withdraw": "withdraw: the workers stop its flows",
            "check": "check: only look",
        },
        forms.WHAT,
    ),
    "name": forms.field(
        "Name",
        "Of the declaration. **switchyard flows declared** lists all.",
        "string",
        pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
    ),
    "properties": forms.optional_text(
        "Properties",
        "The keys of an mm2.properties, one a line, such as **clusters = primary, backup**; or YAML with the same "
        "keys. No passwords: write references such as **${env:BACKUP_PASSWORD}**. Empty for *withdraw*.",
        format="multiline",
    ),
    "reason": forms.reason(),
    "unprobed": forms.flag(
        "Do not ask the clusters", "For references that have no value on Airflow's hosts: only the keys are checked."
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
