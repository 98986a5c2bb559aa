"""
### Move topics out of a dead cluster

For topics whose cluster has **died**: they are created in the target as they were last seen (`record_facts` looks every
few minutes; the log of `plan` shows the age), and producers write there at once.

The dead cluster cannot be asked for its log ends. So the cut is above anything that they can have grown to since they
were last seen, and **never changes again**: no offset ever means two records. The gap is a hole, as in compacted logs.
You choose for readers below the cut:

- **wait**: they get nothing until the cluster is back, then its records, then continue after the hole. Nothing is lost.
- **skip**: they continue at the first record in the target. Unread records are given up (they can be served later).

When the cluster returns, the DAG `check_origins` closes its extents at their true ends and reports the returned
records. If it never does: `give_up_cluster`.

| task | what it does | if it fails |
|---|---|---|
| `plan` | finds the topics, their last known facts with age, and every objection | nothing was changed |
| `approve` | asks an operator, if you want that; holds no lock | nothing was changed |
| `acquire` | takes the locks of everything that moves | nothing was changed |
| `prepare` | creates the topics in the target | undone |
| `cut_over` | fence, drain, group offsets as last known, **cut** | undone, if not cut |
| `verify` | every gateway serves the cut | the cut stays; see the log |
| `record` | writes the result | repeat it: clear the task |
| `report` | the result of the run, in its first line | it fails if any task failed |
| `release` | always runs: no fence and no lock is left | clear the task |

*Single partitions* (`orders:2`) can move without the rest of their topic: out of a dead cluster, or out of a live one
if no live broker can lead them without data loss. The log of `plan` shows the facts about each.

Any other move out of a cluster that still answers is refused: use `switch`, which loses nothing. Whole users move with
`switch`, mode *forced*. Without Airflow: `switchyard migrate-from-fault --help`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import PATIENT, switchyard_dag
from ha_core.operators.switch import PlanFaultMigrationOperator, carry_out

PARAMS = {
    forms.FIRST: forms.dry_run("Only **plan**: the topics to move, their last known facts, and every objection."),
    "topics": forms.topics(
        "Names, partitions such as **orders:0,4-7**, or patterns such as **orders-\\*** for topics last seen there. "
        "One a line."
    ),
    "from": forms.cluster("From", "The dead cluster."),
    "to": forms.cluster("To", "The cluster that is to serve them."),
    "unread": forms.unread(required=True),
    "damaged_copies": forms.damaged_copies(),
    "max_rate_records_s": forms.max_rate_records_s(),
    "settings_left_alone": forms.settings_left_alone(),
    "reason": forms.reason(),
    "groups": forms.flag(
        "Groups", "Groups that are known to have read them come along, at their last known offsets.", default=True
    ),
    "approval": forms.approval(),
    "force": forms.decision("Even if it answers", "Take the cluster for dead even if it answers."),
    "drain_timeout_s": forms.drain_timeout_s(
        "How long to wait for gateways to drop the dead cluster. After that the move is undone."
    ),
}

with switchyard_dag(
    "migrate_from_fault",
    "Migrate from a dead cluster",
    "Moves topics out of a dead cluster: producers continue at once, no offset ever changes.",
    __doc__,
    "move",
    PARAMS,
    max_active_runs=8,
    run_timeout=PATIENT,
):
    plan = PlanFaultMigrationOperator(task_id="plan")
    carry_out(plan, "Take {{ params['from'] }} for dead and write in {{ params.to }}?")
