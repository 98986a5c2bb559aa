"""
### Put a cluster back into service

Takes the mask off a cluster, **after a health probe**: a cluster that does not answer the service account stays masked.
Nothing moves back by itself: use the `switch` DAG for that. If topics were moved while it was dead, the DAG
`check_origins` finds the records that returned with it.

`look` lists its dependents. Unmasking is one revision; the task ends when every gateway serves it. A cluster that is
not masked is left alone, and the task is skipped. Without Airflow: `switchyard unmask CLUSTER`.
"""

from ha_core.operators import forms
from ha_core.operators.clusters import LookAtClusterOperator, UnmaskClusterOperator
from ha_core.operators.dags import end_run, switchyard_dag

with switchyard_dag(
    "unmask_cluster",
    "Unmask a cluster",
    "Puts a cluster back into service, after a health probe.",
    __doc__,
    "cluster",
    forms.of_cluster(forms.usual_reason("back in service")),
    max_active_runs=4,
):
    unmask = UnmaskClusterOperator(task_id="unmask")
    LookAtClusterOperator(task_id="look", change="unmask") >> unmask
    end_run(unmask)
