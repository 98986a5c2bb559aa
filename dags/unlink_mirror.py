"""
### End the copy of topics in another cluster

The mirrors of the topics end in one revision: from then on nobody copies. The copies stay as they are; delete them with
Kafka's own tools when nobody needs them, before the same topics are mirrored to that cluster again.

A topic without a mirror there is refused by name, and nothing is changed. Without Airflow:
`switchyard mirror unlink TOPIC… --to CLUSTER --reason …`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import end_run, switchyard_dag
from ha_core.operators.mirrors import UnlinkMirrorOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only look whether they are mirrored there."),
    "topics": forms.topics("Names, one a line."),
    "cluster": forms.cluster("Cluster", "The cluster that has the copies."),
    "reason": forms.reason(),
}

with switchyard_dag(
    "unlink_mirror",
    "Unlink a mirror",
    "Ends the copy of topics in another cluster; what was copied stays.",
    __doc__,
    "mirror",
    PARAMS,
    max_active_runs=4,
):
    unlink = UnlinkMirrorOperator(task_id="unlink")
    end_run(unlink)
