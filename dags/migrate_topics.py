"""
### Move topics to another cluster, while their clients work

Topics get a new **writer**; what they hold so far is read where it is, and every offset stays what it was. Clients
stay, and groups with their bindings unless you want them to *move*. There are two ways to find the cut, the offset at
which the writer changes:

- **barrier**: a fence of some milliseconds, at once, for all topics of a batch together.
- **predicted**: no fence. The cut lies ahead of the log, which runs into it by itself; nobody waits. It takes as long
  as the *preparation*, and each partition needs traffic to get there. Meanwhile produce waits for all replicas in sync.

Topics with transactional producers take the barrier in any case; `plan` says which.

| task | what it does | if it fails |
|---|---|---|
| `plan` | finds the topics, their ends, rates and cuts, and every objection | nothing was changed |
| `approve` | asks a human, if you want that; holds no lock | nothing was changed |
| `batches` | cuts the topics into batches, one operation each | nothing was changed |
| `migrate` | per batch: creates topics, proposes cuts, opens when every gateway follows | that batch is undone |
| `await_cuts` | settles what has reached its cuts, then moves groups that are to | crossing goes on; see the log |
| `report` | the result of the run: in its first line what became of it | it fails where anything failed |
| `release` | always runs: no fence is left; open crossings go on | clear the task |

The form begins as a **dry run**. **Stop** a run between batches by marking it as failed: batches that are open go on,
the others are not started. **Way back**: the DAG `rollback_migration`, as long as nothing was written to the target.
Without Airflow: `switchyard migrate --help`; `switchyard migrations` shows how far they are.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Param, TriggerRule

from ha_core.operators import (
    ApproveOperator,
    AwaitCutsSensor,
    ListBatchesOperator,
    MigrateBatchOperator,
    PlanMigrationOperator,
    ReleaseMigrationOperator,
    ReportMigrationOperator,
    forms,
)
from ha_core.operators.dags import LONG, end_run, switchyard_dag

BATCHES_AT_ONCE = 2
"""Each batch asks both clusters for thousands of partitions: more would hurt them."""

PARAMS = {
    forms.FIRST: forms.dry_run("Only the task **plan**: ends, rates, cuts, cost and every objection."),
    "topics": forms.topics(
        "Names, single partitions such as **orders:0,4-7**, or patterns such as **orders-\\***. One a line."
    ),
    "from": forms.cluster("From", "The cluster that holds them now."),
    "to": forms.cluster("To", "The cluster that is to hold them. Missing topics are created there."),
    "reason": forms.reason(),
    "groups": Param(
        "leave",
        type="string",
        enum=["leave", "move"],
        values_display={"leave": "leave: only topics move", "move": "move: those that read them come along"},
        title="Groups",
        description_md="*move*: groups with commits or members on the topics get their coordinator in the target too, "
        "with offsets as they are and live members without a rebalance. One batch behind a *barrier* takes them in the "
        "same revision; otherwise each operation moves them, behind a fence of some ms, when its topics have crossed "
        "over. It sets a binding **user##group** for each of their users. Before the old cluster's topics can be "
        "deleted all groups have to move.",
        section=forms.HOW,
    ),
    "cut": Param(
        "barrier",
        type="string",
        enum=["barrier", "predicted"],
        values_display={"barrier": "barrier: a fence of some ms", "predicted": "predicted: no fence, takes minutes"},
        title="Cut",
        description_md="How the cut is found, see above. A *barrier* has ended when the run ends.",
        section=forms.HOW,
    ),
    "preparation_s": Param(
        300,
        type="number",
        minimum=0,
        maximum=604_800,
        title="Preparation, seconds",
        description_md="Predicted: how far ahead of its log a cut lies. Gateways need a second or two.",
        section=forms.HOW,
    ),
    "cut_at": Param(
        [],
        type=["array", "null"],
        items={"type": "string", "minLength": 5},
        title="Cuts by hand",
        description_md="Predicted: **TOPIC:PARTITION=OFFSET**, one a line. The others go by their rates.",
        section=forms.HOW,
    ),
    "rates": Param(
        None,
        type=["null", "string"],
        title="Rates",
        description_md="Path of a summary of the job *offsets*. Empty: what *record_facts* has found out within the "
        "last hour, and of what it does not know two looks at the log ends, seconds apart.",
        section=forms.HOW,
    ),
    "finish_after_s": Param(
        None,
        type=["null", "number"],
        exclusiveMinimum=0,
        title="Finish after, seconds",
        description_md="Partitions that nobody writes to never reach their cuts. So long after it was opened, what has "
        "not crossed over is cut at its end, behind a fence. Empty: never.",
        section=forms.HOW,
    ),
    "topics_per_batch": Param(
        200,
        type="integer",
        minimum=1,
        maximum=1_000,
        title="Topics in a batch",
        description_md="A batch is one operation: it can be looked at and rolled back by itself.",
        section=forms.SAFETY,
    ),
    "approval": forms.approval(),
    "drain_timeout_s": forms.drain_timeout_s(
        "How long gateways may take to follow. When it is over, the batch is undone."
    ),
}

with switchyard_dag(
    "migrate_topics",
    "Migrate topics",
    "Moves topics from one cluster to another, with or without a fence, without the clients noticing.",
    __doc__,
    "move",
    PARAMS,
    max_active_runs=4,  # locks keep runs of the same topics apart
    run_timeout=timedelta(days=30),
):
    plan = PlanMigrationOperator(task_id="plan", **LONG)
    approve = ApproveOperator(task_id="approve", subject="Migrate topics from {{ params['from'] }} to {{ params.to }}?")
    batches = ListBatchesOperator(task_id="batches", trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
    migrate = MigrateBatchOperator.partial(
        task_id="migrate", doc_md=MigrateBatchOperator.__doc__, max_active_tis_per_dagrun=BATCHES_AT_ONCE, **LONG
    ).expand(batch=batches.output)
    await_cuts = AwaitCutsSensor(
        task_id="await_cuts",
        operation_ids=migrate.output,
        poke_interval=timedelta(seconds=15),
        timeout=timedelta(days=7),
        **LONG,
    )
    release, report = ReleaseMigrationOperator(task_id="release"), ReportMigrationOperator(task_id="report")
    plan >> [approve, batches]  # where nobody is asked, it goes on at once
    approve >> batches
    end_run(await_cuts, release, report)
    migrate >> [report, release]  # where one batch fails `await_cuts` fails at once, while others are still at work
