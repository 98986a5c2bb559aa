"""
### Keep standbys as their sources, besides records

The job `mirror` does this all the time. This DAG does the same every 15 minutes, so that it is done, and seen, also
while the job is away; run it by hand to have it done at once.

| what | how |
|---|---|
| partitions | the standby grows as its source; more there than in the source is for a human |
| settings | as in the source, but for those that only name brokers or that a copy must not have |
| access rules | as in the source, topic by topic, where both clusters have an authoriser |
| writers | a rule of the standby's brokers lets nobody write to a copy, and none where there is no mirror any more |
| groups' offsets | commits on mirrored topics, never backwards, never for groups that live on the standby |

The run fails where somebody has to do something, and says what. The rest (a group that has members on the standby, a
cluster without an authoriser) is in the task's log and in `switchyard mirrors`. Without Airflow:
`switchyard mirror sync`.
"""

from datetime import timedelta

from ha_core.operators import forms
from ha_core.operators.dags import BACKGROUND, LONG, end_run, switchyard_dag
from ha_core.operators.mirrors import SyncMirrorsOperator

PARAMS = {
    forms.FIRST: forms.scheduled_dry_run("Only look."),
    "topics": forms.some_topics(),
    "to": forms.optional_text("To", "The cluster that has the copies. Needed where a topic has several."),
}

with switchyard_dag(
    "sync_mirrors",
    "Sync mirrors",
    "Partitions, settings, access rules and groups' offsets of mirrors, brought to their standbys.",
    __doc__,
    "mirror",
    PARAMS,
    schedule=timedelta(minutes=15),  # it brings over what is missing, and takes nothing away
):
    end_run(SyncMirrorsOperator(task_id="sync", **BACKGROUND, **LONG))
