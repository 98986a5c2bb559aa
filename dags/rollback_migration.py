"""
### Take a migration back

For a migration with a **predicted** cut that is under way: its cuts are withdrawn, its topics are as before, and what
was created in the target is deleted again. Clients notice nothing, and there is no fence.

That is possible **as long as nothing was written to the target**. Once a partition has crossed its cut, clients have
been told of records there: then this fails, changes nothing, and names the migration back that does the same job with
every offset kept. All topics of the operation go back, or none.

The operation's id is in the result of the run of `migrate_topics`, and `switchyard migrations` shows it.
Without Airflow: `switchyard rollback OPERATION`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from ha_core.operators import OutcomeOperator, ReleaseOperator, forms
from ha_core.operators.migration import RollbackMigrationOperator

with DAG(
    dag_id="rollback_migration",
    dag_display_name="Roll a migration back",
    description="Withdraws cuts that lie ahead, as long as nothing was written to the target.",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=4,
    params={
        forms.FIRST: forms.dry_run("Only say whether there is a way back."),
        "operation": Param(
            type="string",
            minLength=1,
            title="Operation",
            description_md="Its id, such as **migrate-20260101-120000-0a1b**.",
            section=forms.WHAT,
        ),
    },
    tags=["switchyard", "move"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=2)},
) as dag:
    rollback = RollbackMigrationOperator(
        task_id="rollback", operation_id="{{ params.operation }}", dry_run="{{ params.dry_run }}"
    )
    release = ReleaseOperator(task_id="release")
    report = OutcomeOperator(task_id="report")

    rollback >> report
    rollback >> release.as_teardown(on_failure_fail_dagrun=True)
    dag.add_result(report.output)
