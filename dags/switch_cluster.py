"""
### Move everything that a cluster serves

Every user that is bound to the cluster, every topic that is written there and every group goes to another one: in parts
that share no user, topic or group, each in an operation of its own, the smallest first. Clients notice of each part
as much as of a **switch**. Mirrored topics go to their copies.

| task | what it does | if it fails |
|---|---|---|
| `plan` | finds the parts, and every objection against one of them | nothing was changed |
| `approve` | asks an operator, if you want that; holds no lock | nothing was changed |
| `parts` | numbers the parts | nothing was changed |
| `switch` | per part: moves it, one after the other | that part is undone, and no other is started |
| `report` | the result of the run, in its first line | it fails if any task failed |
| `release` | always runs: no fence and no lock is left | clear the task |

The form begins as a **dry run**. **Stop** a run between two parts by marking it as failed; a repetition moves the
rest. New identities go to the default cluster: make it another one (`switchyard clusters add --default`).
Without Airflow: `switchyard switch cluster:NAME --from NAME --to NAME`.
"""

from datetime import timedelta

from ha_core.operators import forms
from ha_core.operators.dags import LONG, SLOW, ask, end_run, switchyard_dag
from ha_core.operators.migration import ListBatchesOperator, ReleaseMigrationOperator
from ha_core.operators.moved_topics import OUTLETS
from ha_core.operators.switch import PlanClusterSwitchOperator, ReportClusterSwitchOperator, SwitchBatchOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only the task **plan**: the parts, and every objection."),
    "from": forms.cluster("From", "The cluster to leave."),
    "to": forms.cluster("To", "The cluster that is to serve all of it. Missing topics are created there."),
    "reason": forms.reason(),
    **forms.of_switch(),
    "topics_per_batch": forms.per_batch(
        "Topics and groups in a part", "Topics and groups that share users stay in one part."
    ),
    **forms.lag_bounds(),
    "approval": forms.approval(),
    "drain_timeout_s": forms.drain_timeout_s("How long clients may wait under a fence. After that the part is undone."),
}

with switchyard_dag(
    "switch_cluster",
    "Switch a whole cluster",
    "Moves everything that a cluster serves to another one, part by part, without the clients noticing.",
    __doc__,
    "move",
    PARAMS,
    max_active_runs=1,
    run_timeout=timedelta(days=3),
):
    plan = PlanClusterSwitchOperator(task_id="plan", **LONG)
    parts = ListBatchesOperator(task_id="parts")
    switch = SwitchBatchOperator.partial(
        task_id="switch", doc_md=SwitchBatchOperator.__doc__, max_active_tis_per_dagrun=1, **SLOW, **OUTLETS
    ).expand(batch=parts.output)
    ask(plan, "Move all of {{ params['from'] }} to {{ params.to }}?", parts)
    end_run(switch, ReleaseMigrationOperator, ReportClusterSwitchOperator)
