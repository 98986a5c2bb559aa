"""
### A lost cluster is back: count the lost tail, and make it the standby

A forced switch of mirrored topics loses the records that the lost cluster had acknowledged and no copy had.
Since then clients read and write the copy; these records, the **loss**, are in no topic any more and are never served.

When the cluster answers again, this counts the loss exactly: for each partition the records, their bytes, and their
offsets there. The log has the commands that fetch them. Then each topic is **mirrored back**: the cluster gets the
records written since, and becomes the standby. When it has caught up (`switchyard mirrors`), the `switch` DAG moves
clients back, without a loss this time.

The mirrored records are **compared** with the copies first, by default a sample: if the cluster has other records, the
run fails and names the first offset, and the topic is not mirrored back.

If a cluster is back with **less** than was copied, without the topic, or with another topic of its name, the run fails
and names it. Delete the topic there, link it again, and close the count by *Accept the loss*, with the topics named; do
so too if the cluster **never** returns.

It may be repeated at any time: counted tails stay counted. Without Airflow:
`switchyard mirror reconcile CLUSTER --reason …`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import PATIENT, SLOW, end_run, switchyard_dag
from ha_core.operators.mirrors import ReconcileOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only count."),
    "cluster": forms.cluster("Cluster", "The one that was lost, and is back."),
    "topics": forms.some_topics(),
    "reason": forms.reason(),
    "mirror": forms.flag("Mirror back", "Make the cluster the standby of these topics.", default=True),
    "verify": forms.verify(
        "Mirrored records are compared with the copies first; a topic that differs is not mirrored back."
    ),
    "accept_loss": forms.decision(
        "Accept the loss", "Accept the loss of tails that cannot be counted, for the named topics."
    ),
}

with switchyard_dag(
    "reconcile_returned_cluster",
    "Reconcile a returned cluster",
    "Counts the records that only a lost cluster had, and makes it the standby.",
    __doc__,
    "mirror",
    PARAMS,
    run_timeout=PATIENT,
):
    end_run(ReconcileOperator(task_id="reconcile", **SLOW))
