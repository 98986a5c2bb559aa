"""
### Take a cluster out of service

A **masked** cluster gets nothing new, and requests for it fail at once instead of hanging: no switch may have it as
its target, its topics cannot be read or written, and everything else continues. Use it before maintenance, or when a
cluster can no longer be trusted.

`look` lists the dependents of the cluster: topics that are written there, topics with older records there, groups,
users. If topics are **written** there, `mask` refuses, for they are written nowhere else: move them first with the
`switch` DAG (`migrate_from_fault` if the cluster is dead), or tick *Even if it is written*.

Masking is one revision; the task ends when every gateway serves it. A cluster that is masked already is left alone, and
the task is skipped. The way back: `unmask_cluster`. Without Airflow: `switchyard mask CLUSTER --reason …`.
"""

from ha_core.operators import forms
from ha_core.operators.clusters import LookAtClusterOperator, MaskClusterOperator
from ha_core.operators.dags import end_run, switchyard_dag

FORCE = forms.decision(
    "Even if it is written", "Mask it even if topics are written there. They stall until they move or it is back."
)

with switchyard_dag(
    "mask_cluster",
    "Mask a cluster",
    "Takes a cluster out of service: requests for it fail at once, nothing new moves to it.",
    __doc__,
    "cluster",
    forms.of_cluster(forms.reason(), force=FORCE),
    max_active_runs=4,
):
    mask = MaskClusterOperator(task_id="mask")
    LookAtClusterOperator(task_id="look", change="mask") >> mask
    end_run(mask)
