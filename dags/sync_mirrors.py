"""
### Sync standbys with their sources, besides records

The job `mirror` does this all the time. This DAG does the same every 15 minutes, so that it is done and visible
while the job is away; run it by hand to sync at once.

| what | how |
|---|---|
| partitions | the standby grows with its source; if it has more, an operator decides |
| settings | as in the source, except those that name brokers or that a copy must not have |
| access rules | as in the source, topic by topic, if both clusters have an authoriser |
| writers | guard ACLs deny writing to a copy; leftover guards of ended mirrors are removed |
| groups' offsets | commits on mirrored topics, never backwards, never for groups that are live on the standby |

The run fails if an operator has to act, and says why. Other differences (a group that has members on the standby, a
cluster without an authoriser) are in the task's log and in `switchyard mirrors`. Without Airflow:
`switchyard mirror sync`.
"""

from datetime import timedelta

from ha_core.operators import forms
from ha_core.operators.dags import BACKGROUND, LONG, end_run, switchyard_dag
from ha_core.operators.mirrors import SyncMirrorsOperator

PARAMS = {
    forms.FIRST: forms.scheduled_dry_run("Only look."),
    "topics": forms.some_topics(),
    "to": forms.optional_text("To", "The cluster that has the copies. Needed if a topic has several."),
}

with switchyard_dag(
    "sync_mirrors",
    "Sync mirrors",
    "Syncs partitions, settings, ACLs and groups' offsets of mirrors to their standbys.",
    __doc__,
    "mirror",
    PARAMS,
    schedule=timedelta(minutes=15),  # it adds what is missing, and removes no data
):
    end_run(SyncMirrorsOperator(task_id="sync", **BACKGROUND, **LONG))
