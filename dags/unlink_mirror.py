"""
### End the copy of topics in another cluster

The mirrors of the topics end in one revision: from then on they are not copied. The copies stay as they are, or are
deleted with all their records. They have to be gone before the same topics are mirrored to that cluster again.

A topic without a mirror there is refused by name, and so is the deletion of a copy that is needed: the topic's map
names it, a user is bound to it, a group whose coordinator is there would lose its offsets, or the cluster was lost once
and its lost tail is not counted. Nothing is changed then.

A **pattern** that would link a topic again leaves it out from then on. A pattern that is named here is removed: later
topics get no copy by it, and mirrors that it has made stay until their topics are named here. Without Airflow:
`switchyard mirror unlink TOPIC… --to CLUSTER --reason … [--delete-copy]`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import end_run, switchyard_dag
from ha_core.operators.mirrors import UnlinkMirrorOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only show whether they are mirrored there."),
    "topics": forms.topics("Names, one a line. Or patterns as they were given to **link_mirror**."),
    "cluster": forms.cluster("To", "The cluster that has the copies."),
    "from": forms.optional_text("From", "The cluster of a pattern. Needed if a pattern has several."),
    "delete_copy": forms.decision("Delete the copies", "Delete the topics there, with all their records."),
    "reason": forms.reason(),
}

with switchyard_dag(
    "unlink_mirror",
    "Unlink a mirror",
    "Ends the copy of topics in another cluster; the copies stay, or are deleted.",
    __doc__,
    "mirror",
    PARAMS,
    max_active_runs=4,
):
    unlink = UnlinkMirrorOperator(task_id="unlink")
    end_run(unlink)
