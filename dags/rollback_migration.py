"""
### Take a migration back

For a migration with a **predicted** cut that is still open: its cuts are withdrawn, its topics are as before, and
topics that were created in the target are deleted again. Clients notice nothing, and there is no fence.

That is possible **as long as nothing was written to the target**. Once a partition has crossed its cut, records there
were acknowledged: then this fails, changes nothing, and names the migration back that has the same effect with every
offset kept. All topics of the operation go back, or none.

The operation's id is in the result of the run of `migrate_topics`, and `switchyard migrations` shows it.
Without Airflow: `switchyard rollback OPERATION`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import end_run, switchyard_dag
from ha_core.operators.migration import RollbackMigrationOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only show whether there is a way back."),
    "operation": forms.field("Operation", "Its id, such as **migrate-20260101-120000-0a1b**.", "string", minLength=1),
    "reason": forms.optional_text("Reason", "Kept in the history, with the user who triggered the run."),
}

with switchyard_dag(
    "rollback_migration",
    "Roll a migration back",
    "Withdraws cuts ahead, as long as nothing was written to the target.",
    __doc__,
    "move",
    PARAMS,
    max_active_runs=4,
):
    end_run(RollbackMigrationOperator(task_id="rollback"))
