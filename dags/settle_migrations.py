"""
### Look after migrations that are under way

A migration with a **predicted** cut runs into its cuts by itself. What is left to do then is one revision per topic:
the last sequences of its producers are read, and the target becomes the writer. This looks every few minutes at all
migrations, whoever started them, and does that; until then the topic's records are written to both clusters.

Then the groups follow, where the migration was asked to take them along; if they cannot, this run fails once, and its
log has the command that moves them. The topics stay moved.

It also continues what was interrupted (a proposed cut that is never opened would hold producers up when the log
reaches it), and ends behind a fence what was to have ended by now (*finish after*).

With nothing under way it is skipped. Its log says of each topic how far it is, and what holds it up.
Without Airflow: `switchyard settle`.
"""

from datetime import timedelta

from ha_core.operators.dags import LONG, end_run, switchyard_dag
from ha_core.operators.upkeep import SettleMigrationsOperator

with switchyard_dag(
    "settle_migrations",
    "Settle migrations",
    "Ends migrations whose logs have run into their cuts; continues interrupted ones.",
    __doc__,
    "upkeep",
    schedule=timedelta(minutes=5),  # what nobody ends is written twice for ever
    retries=1,
):
    end_run(SettleMigrationsOperator(task_id="settle", **LONG))
