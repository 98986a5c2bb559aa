"""
### Apply declared bindings

Bindings say which cluster serves whom. This compares a declaration (YAML) with what is stored, shows the difference
line by line, changes it in **one revision**, and ends when every gateway serves that.

```yaml
complete: false          # true: users that are not named lose their bindings
bindings:
  alice:
    cluster: east                    # the user
    instances: {billing-1: west}     # one of its clients
    client_ids: [streams]            # strips what Kafka Streams adds to client ids
    topics: {orders: west}           # a topic, for this user
    groups: {billing: west}          # a group, for this user
    read: nearest                    # mirrored topics: from the copy in the gateway's zone, or in a cluster named here
  bob: {}                            # no bindings: they are removed
```

A binding alone moves neither records nor committed offsets. Where it changes for somebody who is **in use**, the task
`difference` fails and says so: what is alive is moved by the `switch` DAG. Nothing differs: everything is skipped.
Without Airflow: `switchyard bindings set --file FILE`.
"""

from ha_core.operators import forms
from ha_core.operators.bindings import CompareBindingsOperator, RefreshBindingsOperator
from ha_core.operators.dags import end_run, switchyard_dag

PARAMS = {
    forms.FIRST: forms.dry_run("Only show the difference."),
    "declaration": forms.optional_text(
        "Declaration", "The YAML text. Leave it empty to read the file below.", format="multiline"
    ),
    "path": forms.optional_text("File", "Path of the YAML file on the workers."),
    "reason": forms.usual_reason("bindings as declared"),
    "accept_warnings": forms.decision(
        "Accept warnings", "Change the binding of users that are in use, too. Their records and offsets stay behind."
    ),
}

with switchyard_dag(
    "refresh_bindings",
    "Refresh bindings",
    "Declared bindings: difference shown, one revision, every gateway serves it.",
    __doc__,
    "bindings",
    PARAMS,  # one run at a time: a difference is taken against what the run before has made
):
    difference = CompareBindingsOperator(task_id="difference")
    apply = RefreshBindingsOperator(task_id="apply")
    difference >> apply
    end_run(apply)
