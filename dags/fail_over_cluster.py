"""
### A cluster is dead: go on in the others

Everything that the cluster serves goes on elsewhere, at once: mirrored topics at their **copies**, the others from
above all that the dead cluster can hold. Two fields are enough: the cluster, and the reason.

| task | what it does | if it fails |
|---|---|---|
| `fail_over` | moves everything, part after part, by force | earlier parts stay moved; cleared, it moves the rest |
| `report` | the result of the run, in its first line | it fails if the task failed |
| `release` | always runs: no fence and no lock is left | clear the task |

It is refused while the cluster answers. There is no dry run and no approval: each second is one without service. To
look first, use **switch_cluster** with a dry run.

Without Airflow: `switchyard switch cluster:NAME --from NAME --to NAME --mode forced --unread wait --reason …`.

Records that no copy had are counted when the cluster is back: **reconcile_returned_cluster**. Readers of topics without
a copy **wait** for records that only the dead cluster has, unless you choose otherwise.
"""

from datetime import timedelta

from ha_core.operators import forms
from ha_core.operators.dags import end_run, switchyard_dag
from ha_core.operators.deadlines import run_deadline
from ha_core.operators.failover import FailOverOperator, ReportFailOverOperator
from ha_core.operators.migration import ReleaseMigrationOperator

PARAMS = {
    "cluster": forms.cluster("Cluster", "The one that is dead."),
    "reason": forms.reason(),
    "to": forms.optional_text("To", "The cluster that goes on. Empty: the one that has most of its copies.", forms.HOW),
    "unread": forms.choice(
        "Readers that have not read everything",
        "They have records of topics without a copy still to read, which only the dead cluster has.",
        {"wait": "wait for the cluster", "skip": "go on above them"},
    ),
    "damaged_copies": forms.choice(
        "Topics whose copies are damaged",
        "The others move in any case, unless you refuse.",
        {"leave": "leave them in the dead cluster", "refuse": "refuse: move nothing", "good-part": "use the good part"},
    ),
    "drain_timeout_s": forms.drain_timeout_s("How long clients may wait under a fence. After that the part is undone."),
}

with switchyard_dag(
    "fail_over_cluster",
    "Fail over a cluster",
    "A cluster is dead: everything that it serves goes on elsewhere, at once.",
    __doc__,
    "move",
    PARAMS,
    max_active_runs=1,
    run_timeout=timedelta(days=1),
    deadline=run_deadline(),
):
    fail_over = FailOverOperator(task_id="fail_over", execution_timeout=timedelta(hours=4))
    end_run(fail_over, ReleaseMigrationOperator, ReportFailOverOperator)
