"""
### Apply declared bindings

Bindings decide which cluster serves a client. This compares a declaration (YAML) with the stored bindings, shows the
difference line by line, changes it in **one revision**, and ends when every gateway serves that.

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
    local_names: primary             # remote topics of this flow's source: by the source's names
  bob: {}                            # no bindings: they are removed
```

A binding alone moves neither records nor committed offsets. If it changes for a user that is **in use**, the task
`difference` fails and says so: the `switch` DAG moves live clients. It fails as well if local names would hide topics
or clients are connected that would keep a position of another log. Without a difference everything is skipped.
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
        "Accept warnings",
        "Change the binding of users that are in use, too: their records and offsets stay in the old cluster. Change "
        "local names, although they hide topics or clients are connected.",
    ),
}

with switchyard_dag(
    "refresh_bindings",
    "Refresh bindings",
    "Declared bindings: difference shown, one revision, every gateway serves it.",
    __doc__,
    "bindings",
    PARAMS,  # one run at a time: each run compares with the result of the run before
):
    difference = CompareBindingsOperator(task_id="difference")
    apply = RefreshBindingsOperator(task_id="apply")
    difference >> apply
    end_run(apply)
