"""
### Give up a cluster that is gone for good

After a forced move readers wait for what the dead cluster holds. If it **never comes back**, say so here: what it still
holds of the topics is lost for ever, its extents leave the maps, and readers who waited go on after them at once.
Afterwards `switchyard clusters remove` works, when nothing else refers to the cluster.

**This cannot be taken back.** If the cluster comes back later all the same, none of this is served again; what is
on its disks can only be copied by hand, as new records.

The form begins as a **dry run**: `plan` counts what would be lost.

| in the result | meaning |
|---|---|
| `known_lost` | offsets that the cluster is known to have given out: lost for certain |
| `most_lost` | the range up to the cut: what it took after it was last seen nobody knows, so this is an upper bound |
| `groups` | who had not read all of it, and where each goes on |
| `pointing` | bindings, topics and groups that still refer to the cluster, and have to move first |
| `never_moved` | topics that were last seen there and have no new home: `migrate_from_fault` |

| task | what it does | if it fails |
|---|---|---|
| `plan` | counts what is lost; refuses what is still written there, and a cluster that answers | nothing was changed |
| `approve` | asks a human, if you want that; holds no lock | nothing was changed |
| `give_up` | drops the extents, many topics in one revision; in a dry run nothing | clear it: it goes on |
| `report` | the result of the run: in its first line what became of it | it fails where anything failed |
| `release` | always runs: no lock is left behind | clear the task |

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
        "Even if it answers", "Give the cluster up even if it answers and what it holds could still be read."
    ),
}

with switchyard_dag(
    "give_up_cluster",
    "Give up a cluster for good",
    "What a cluster that never comes back still holds is lost for ever: readers go on after it.",
    __doc__,
    "cluster",
    PARAMS,
    run_timeout=PATIENT,
):
    plan = CountLossOperator(task_id="plan", **LONG)
    give_up = GiveUpOperator(task_id="give_up", **LONG)
    ask(plan, "Give up what {{ params.cluster }} holds, for good?", give_up)
    end_run(give_up)
