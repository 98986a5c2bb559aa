"""
### Move topics to another cluster, while their clients work

Topics get a new **writer**; their older records are read where they are, and every offset stays what it was. Clients
stay, and groups with their bindings unless you want them to *move*. There are two ways to find the cut, the offset at
which the writer changes:

- **barrier**: a fence of some milliseconds, at once, for all topics of a batch together.
- **predicted**: no fence. The cut is ahead of the log, which reaches it by itself; no client waits. It takes as long
  as the *preparation*, and each partition needs traffic to get there. Meanwhile produce waits for all replicas in sync.

Topics with transactional producers take the barrier in any case; `plan` lists them.

| task | what it does | if it fails |
|---|---|---|
| `plan` | finds the topics, their ends, rates and cuts, and every objection | nothing was changed |
| `approve` | asks an operator, if you want that; holds no lock | nothing was changed |
| `batches` | splits the topics into batches, one operation each | nothing was changed |
| `migrate` | per batch: creates topics, proposes cuts, opens when every gateway follows | that batch is undone |
| `await_cuts` | settles topics at their cuts, then moves their groups | crossing continues; see the log |
| `report` | the result of the run, in its first line | it fails if any task failed |
| `release` | always runs: no fence is left; open crossings continue | clear the task |

The form begins as a **dry run**. **Stop** a run between batches by marking it as failed: open batches continue,
the others are not started. **Way back**: the DAG `rollback_migration`, as long as nothing was written to the target.
Without Airflow: `switchyard migrate --help`; `switchyard migrations` shows their progress.
"""

from datetime import timedelta

from ha_core.operators import forms
from ha_core.operators.dags import LONG, ask, end_run, switchyard_dag
from ha_core.operators.migration import (
    AwaitCutsSensor,
    ListBatchesOperator,
    MigrateBatchOperator,
    PlanMigrationOperator,
    ReleaseMigrationOperator,
    ReportMigrationOperator,
)
from ha_core.operators.moved_topics import OUTLETS

BATCHES_AT_ONCE = 2
"""Each batch asks both clusters for thousands of partitions: more would overload them."""

PARAMS = {
    forms.FIRST: forms.dry_run("Only the task **plan**: ends, rates, cuts, cost and every objection."),
    "topics": forms.topics(
        "Names, single partitions such as **orders:0,4-7**, or patterns such as **orders-\\***. One a line."
    ),
    "from": forms.cluster("From", "The cluster that holds them now."),
    "to": forms.cluster("To", "The cluster that is to hold them. Missing topics are created there."),
    "reason": forms.reason(),
    "groups": forms.choice(
        "Groups",
        "*move*: groups with commits or members on the topics get their coordinator in the target too, with offsets as "
        "they are and live members without a rebalance. One batch under a *barrier* takes them in the same revision; "
        "otherwise each operation moves them, under a fence of some ms, when its topics have crossed over. It sets a "
        "binding **user##group** for each of their users. Before the old cluster's topics can be deleted all groups "
        "have to move.",
        {"leave": "leave: only topics move", "move": "move: those that read them come along"},
    ),
    "cut": forms.choice(
        "Cut",
        "How the cut is found, see above. A *barrier* has ended when the run ends.",
        {"barrier": "barrier: a fence of some ms", "predicted": "predicted: no fence, takes minutes"},
    ),
    "preparation_s": forms.field(
        "Preparation, seconds",
        "Predicted: how far ahead of its log a cut lies. Gateways need a second or two.",
        "number",
        forms.HOW,
        default=300,
        minimum=0,
        maximum=604_800,
    ),
    "cut_at": forms.optional_entries(
        "Cuts by hand",
        "Predicted: **TOPIC:PARTITION=OFFSET**, one a line. The others are cut by their rates.",
        forms.HOW,
        min_length=5,
    ),
    "rates": forms.optional_text(
        "Rates",
        "Path of a summary of the job *offsets*. Empty: the rates that *record_facts* has found within the last hour; "
        "partitions without a rate have their log ends read twice, seconds apart.",
        forms.HOW,
    ),
    "settings_left_alone": forms.settings_left_alone(),
    "finish_after_s": forms.field(
        "Finish after, seconds",
        "Idle partitions never reach their cuts. Partitions that have not crossed over after so many seconds are "
        "cut at their end, under a fence. Empty: never.",
        ["null", "number"],
        forms.HOW,
        default=None,
        exclusiveMinimum=0,
    ),
    "topics_per_batch": forms.per_batch(
        "Topics in a batch", "A batch is one operation: it can be looked at and rolled back by itself."
    ),
    "approval": forms.approval(),
    "drain_timeout_s": forms.drain_timeout_s("How long gateways may take to follow. After that the batch is undone."),
}

with switchyard_dag(
    "migrate_topics",
    "Migrate topics",
    "Moves topics from one cluster to another, with or without a fence, without the clients noticing.",
    __doc__,
    "move",
    PARAMS,
    max_active_runs=4,  # locks prevent concurrent runs for the same topics
    run_timeout=timedelta(days=30),
):
    plan = PlanMigrationOperator(task_id="plan", **LONG)
    batches = ListBatchesOperator(task_id="batches")
    migrate = MigrateBatchOperator.partial(
        task_id="migrate",
        doc_md=MigrateBatchOperator.__doc__,
        max_active_tis_per_dagrun=BATCHES_AT_ONCE,
        **LONG,
        **OUTLETS,
    ).expand(batch=batches.output)
    await_cuts = AwaitCutsSensor(
        task_id="await_cuts",
        operation_ids=migrate.output,
        poke_interval=timedelta(seconds=15),
        timeout=timedelta(days=7),
        **LONG,
        **OUTLETS,
    )
    ask(plan, "Migrate topics from {{ params['from'] }} to {{ params.to }}?", batches)
    ends = end_run(await_cuts, ReleaseMigrationOperator, ReportMigrationOperator)
    migrate >> ends  # if one batch fails `await_cuts` fails at once, while others still run
