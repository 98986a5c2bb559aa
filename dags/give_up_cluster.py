"""
### Give up a cluster that is gone for good

After a forced move readers wait for what the dead cluster holds. If it **never comes back**, say so here: what it still
holds of the topics is lost for ever, its extents leave the maps, and readers who waited go on behind them at once.
Afterwards `switchyard clusters remove` works, when nothing else refers to the cluster.

**This cannot be taken back.** If the cluster comes back later all the same, nothing of this is served any more; and
what is on its disks can only be copied by hand, as new records.

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

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, TriggerRule

from ha_core.operators import ApproveSwitchOperator, GiveUpOperator, OutcomeOperator, ReleaseOperator, forms

with DAG(
    dag_id="give_up_cluster",
    dag_display_name="Give up a cluster for good",
    description="What a cluster that never comes back still holds is lost for ever: readers go on behind it.",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=1,
    params={
        forms.FIRST: forms.dry_run("Only count what would be lost."),
        "cluster": forms.cluster("Cluster", "The one that never comes back, with what it holds."),
        "topics": forms.some_topics(),
        "reason": forms.reason(),
        "approval": forms.approval(),
        "force": forms.decision(
            "Although it answers", "Give the cluster up although it answers, and what it holds could still be read."
        ),
    },
    tags=["switchyard", "cluster"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=5)},
) as dag:
    plan = GiveUpOperator(task_id="plan", only_look=True)
    approve = ApproveSwitchOperator(
        task_id="approve",
        asked="{{ params.approval != 'nobody' and not params.dry_run }}",
        subject="Give up what {{ params.cluster }} holds, for good?",
        body="{{ ti.xcom_pull(task_ids='plan', key='table') }}",
        retries=1,
    )
    give_up = GiveUpOperator(
        task_id="give_up", looked=plan.output, trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
    )
    release = ReleaseOperator(task_id="release")
    report = OutcomeOperator(task_id="report")

    plan >> approve >> give_up >> report
    give_up >> release.as_teardown(on_failure_fail_dagrun=True)
    dag.add_result(report.output)
