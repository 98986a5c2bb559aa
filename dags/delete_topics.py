"""
### Delete topics in all clusters

A topic that was moved lies in several clusters, and its map leads to all of them. This deletes it everywhere, with its
map, its mirrors and what is remembered of it. Clients see it as deleted from the first revision on; when the run has
succeeded its name is free, and a topic that is created under it begins anew.

The records are lost for good, and nothing brings them back. A dry run says how many there are, where, and which groups
read them now. A cluster that does not answer refuses the deletion, because the topic would be back with it. *Although a
cluster is away* deletes elsewhere; the name stays taken until that cluster answers and the run is repeated.
Without Airflow: `switchyard topics delete TOPIC… --reason …`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import end_run, switchyard_dag
from ha_core.operators.topics import DeleteTopicsOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only look what would be deleted."),
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
