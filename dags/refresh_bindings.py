"""
### Make the bindings as they are declared

Bindings say which cluster serves whom. This compares a declaration (YAML) with what is stored, shows the difference
line by line, changes it in **one revision**, and ends when every gateway serves that.

```yaml
complete: false          # true: users that are not named lose their bindings
bindings:
  alice:
    cluster: east                    # the user
    instances: {billing-1: west}     # one of its clients
    topics: {orders: west}           # a topic, for this user
    groups: {billing: west}          # a group, for this user
  bob: {}                            # no bindings: they are removed
```

A binding alone moves neither records nor committed offsets. Where it changes for somebody who is **in use**, the task
`difference` fails and says so: what is alive is moved by the `switch` DAG. Nothing differs: everything is skipped.
Without Airflow: `switchyard bindings set --file FILE`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from ha_core.operators import OutcomeOperator, RefreshBindingsOperator, ReleaseOperator, forms

DECLARED = {
    "declaration": "{{ params.declaration or '' }}",
    "path": "{{ params.path or '' }}",
    "reason": "{{ params.reason }}",
    "accept_warnings": "{{ params.accept_warnings }}",
}

with DAG(
    dag_id="refresh_bindings",
    dag_display_name="Refresh bindings",
    description="Declared bindings: difference shown, one revision, every gateway serves it.",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1,  # a difference is taken against what the run before has made
    params={
        forms.FIRST: forms.dry_run("Only show the difference."),
        "declaration": Param(
            None,
            type=["null", "string"],
            format="multiline",
            title="Declaration",
            description_md="The YAML text. Leave it empty to read the file below.",
            section=forms.WHAT,
        ),
        "path": Param(
            None,
            type=["null", "string"],
            title="File",
            description_md="Path of the YAML file on the workers.",
            section=forms.WHAT,
        ),
        "reason": forms.usual_reason("bindings as declared"),
        "accept_warnings": forms.decision(
            "Accept warnings",
            "Change the binding of users that are in use, too. Their records and offsets stay behind.",
        ),
    },
    tags=["switchyard", "bindings"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=2)},
) as dag:
    difference = RefreshBindingsOperator(task_id="difference", apply=False, **DECLARED)
    apply = RefreshBindingsOperator(task_id="apply", dry_run="{{ params.dry_run }}", **DECLARED)
    release = ReleaseOperator(task_id="release")
    report = OutcomeOperator(task_id="report")

    difference >> apply >> report
    apply >> release.as_teardown(on_failure_fail_dagrun=True)
    dag.add_result(report.output)
