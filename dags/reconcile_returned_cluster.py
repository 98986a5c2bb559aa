"""
### A cluster that was lost is back: count what nobody had copied, and make it the standby

A forced switch of mirrored topics leaves behind what the lost cluster had acknowledged and no copy had. Since then
clients read and write the copy; the rest, the **loss**, is in no topic any more and is never served.

When the cluster answers again, this counts the loss exactly: for each partition the records, their bytes, and where
they lie there. The log has the commands that fetch them, for whoever wants them back. Then each topic is **mirrored
back**: the cluster gets what was written since, and becomes the standby. When it has caught up (`switchyard mirrors`),
the `switch` DAG leads clients back, without a loss this time.

What was mirrored is **compared** with the copies first, a sample of it if nothing else is said: where the cluster has
other records, the run fails and names the first offset, and the topic is not mirrored back.

A cluster that is back with **less** than was copied, without the topic, or with another one of its name: nothing is
guessed, the run fails and says which. Delete the topic there, link it anew, and close the count by *Accept the loss*,
with the topics named; so too where the cluster **never** comes back.

It may be repeated at any time: what is counted stays counted. Without Airflow:
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
    "verify": forms.verify("What was mirrored is compared with the copies first; what differs is not mirrored back."),
    "accept_loss": forms.decision(
        "Accept the loss", "Do without what cannot be counted, of the topics that are named."
    ),
}

with switchyard_dag(
    "reconcile_returned_cluster",
    "Reconcile a returned cluster",
    "Counts what a lost cluster had and no copy, and makes it the standby.",
    __doc__,
    "mirror",
    PARAMS,
    run_timeout=PATIENT,
):
    end_run(ReconcileOperator(task_id="reconcile", **SLOW))
