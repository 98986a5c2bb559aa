"""
### Give up a cluster that is gone for good

After a forced move readers wait for the records of the dead cluster. If it **never comes back**, give it up here: its
remaining records of the topics are lost for good, its extents leave the maps, and readers that waited continue after
them at once. Afterwards `switchyard clusters remove` works, when nothing else refers to the cluster.

**This cannot be taken back.** If the cluster returns later all the same, its records are not served again; they can
only be copied by hand, as new records.

The form begins as a **dry run**: `plan` counts what would be lost.

| in the result | meaning |
|---|---|
| `known_lost` | offsets that the cluster is known to have given out: lost for certain |
| `most_lost` | the range up to the cut, an upper bound: the end of the log since it was last seen is unknown |
| `groups` | groups that had not read all of it, and where each continues |
| `pointing` | bindings, topics and groups that still refer to the cluster, and have to move first |
| `never_moved` | topics that were last seen there and were not moved: `migrate_from_fault` |

| task | what it does | if it fails |
|---|---|---|
| `plan` | counts the loss; refuses topics still written there, and a cluster that answers | nothing was changed |
| `approve` | asks an operator, if you want that; holds no lock | nothing was changed |
| `give_up` | drops the extents, many topics in one revision; in a dry run nothing | clear it: it continues |
| `report` | the result of the run, in its first line | it fails if any task failed |
| `release` | always runs: no lock is left | clear the task |

Without Airflow: `switchyard origins give-up CLUSTER --reason …`.
"""

from ha_core.operators import forms
from ha_core.operators.clusters import CountLossOperator, GiveUpOperator
from ha_core.operators.dags import LONG, PATIENT, ask, end_run, switchyard_dag

PARAMS = {
    forms.FIRST: forms.dry_run("Only count what would be lost."),
    "cluster": forms.cluster("Cluster", "The one that never comes back."),
    "topics": forms.some_topics(),
    "reason": forms.reason(),
    "approval": forms.approval(),
    "force": forms.decision(
        "Even if it answers", "Give the cluster up even if it answers and its records could still be read."
    ),
}

with switchyard_dag(
    "give_up_cluster",
    "Give up a cluster for good",
    "The remaining records of a cluster that never comes back are lost for good: readers continue after them.",
    __doc__,
    "cluster",
    PARAMS,
    run_timeout=PATIENT,
):
    plan = CountLossOperator(task_id="plan", **LONG)
    give_up = GiveUpOperator(task_id="give_up", **LONG)
    ask(plan, "Give up all records of {{ params.cluster }}, for good?", give_up)
    end_run(give_up)
