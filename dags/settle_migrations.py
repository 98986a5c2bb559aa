"""
### Advance open migrations

A migration with a **predicted** cut reaches its cuts by itself. Then one revision per topic is left to do: the last
sequences of its producers are read, and the target becomes the writer. This looks every few minutes at all migrations,
by whatever command or run they were started, and does that; until then the topic's records are written to both
clusters.

Then the groups follow, if the migration is to take them along; if they cannot, this run fails once, and its
log has the command that moves them. The topics stay moved.

It also continues interrupted migrations (a proposed cut that is never opened would make producers wait when the log
reaches it), and ends overdue ones under a fence (*finish after*).

Without open migrations it is skipped. Its log shows the progress of each topic, and its obstacles.
Without Airflow: `switchyard settle`.
"""

from datetime import timedelta

from ha_core.operators.dags import LONG, end_run, switchyard_dag
from ha_core.operators.upkeep import SettleMigrationsOperator

with switchyard_dag(
    "settle_migrations",
    "Settle migrations",
    "Ends migrations whose logs have reached their cuts; continues interrupted ones.",
    __doc__,
    "upkeep",
    schedule=timedelta(minutes=5),  # a migration that is not ended is written to both clusters without end
    retries=1,
):
    end_run(SettleMigrationsOperator(task_id="settle", **LONG))
