"""
### Delete topics in all clusters

A topic that was moved has logs in several clusters, and its map names all of them. This deletes it everywhere, with its
map, its mirrors and stored facts about it. For clients it is deleted from the first revision on; when the run has
succeeded its name is free, and a new topic of that name starts empty.

The records are lost for good. A dry run shows how many there are, in which clusters, and the groups that read them now.
If a cluster does not answer the deletion is refused, because the topic would return with it. *Although a cluster is
away* deletes elsewhere; the name stays taken until that cluster answers and the run is repeated.
Without Airflow: `switchyard topics delete TOPIC… --reason …`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import end_run, switchyard_dag
from ha_core.operators.migration import DeleteTopicsOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only show what would be deleted."),
    "topics": forms.topics("Names, one a line."),
    "accept_away": forms.decision(
        "Although a cluster is away", "Delete although a cluster does not answer. The names stay taken until it does."
    ),
    "reason": forms.reason(),
}

with switchyard_dag(
    "delete_topics",
    "Delete topics",
    "Deletes topics in all clusters, with their maps and mirrors: their names are free again.",
    __doc__,
    "move",
    PARAMS,
    max_active_runs=4,
):
    delete = DeleteTopicsOperator(task_id="delete")
    end_run(delete)
