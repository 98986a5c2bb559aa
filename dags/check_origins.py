"""
### Clusters that were dead at a cut and may be back

A forced move cuts above anything that the dead cluster can hold, so the true ends of its logs are known only when it
answers again. This looks for that, every few minutes: it closes the old extents at their **true end** in one revision
and reports the returned records of every partition, those that were unknown before included. Readers get them at their
own offsets, and no client offset changes. Nothing is ever added there: since the cut the writer is another cluster.

A cluster that returns with **less** than was known of it has lost records. Then readers wait, the partitions are
marked, the run fails once, and an operator decides: restore the records, or run this by hand with the topics named and
*Accept the loss* ticked.

A cluster that **never comes back** is given up by an operator: `give_up_cluster`.

Readers that were to skip keep skipping, unless *Serve what was skipped* is ticked for the named topics.
Without Airflow: `switchyard origins check`.
"""

from datetime import timedelta

from ha_core.operators import forms
from ha_core.operators.dags import BACKGROUND, LONG, end_run, switchyard_dag
from ha_core.operators.upkeep import CheckOriginsOperator

PARAMS = {
    forms.FIRST: forms.scheduled_dry_run("Only look."),
    "topics": forms.some_topics(),
    "accept_loss": forms.decision(
        "Accept the loss", "Accept that records are lost that the cluster had when it died. Name the topics."
    ),
    "serve_skipped": forms.decision(
        "Serve what was skipped", "Readers get the records that a forced move let them skip. Name the topics."
    ),
    "reason": forms.usual_reason("the cluster answers again"),
}

with switchyard_dag(
    "check_origins",
    "Check for returned clusters",
    "Closes the extents of clusters that answer again at their true ends, and reports the returned records.",
    __doc__,
    "upkeep",
    PARAMS,
    schedule=timedelta(minutes=5),  # it only records facts, and decides nothing
):
    end_run(CheckOriginsOperator(task_id="check", **BACKGROUND, **LONG))
