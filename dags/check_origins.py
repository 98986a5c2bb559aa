"""
### Clusters that were dead at a cut and may be back

A forced move cuts above anything that the dead cluster can hold, so where its records truly end is known only when it
answers again. This looks for that, every few minutes: it closes the old extents at their **true end** in one revision
and says for every partition what came back, records that nobody knew of included. They are served in their place, and
no client offset changes. Nothing is ever added there: since the cut the writer has been another cluster.

A cluster that comes back with **less** than was known of it has lost records. Then nothing is concluded: readers wait,
the partitions are marked, the run fails once, and a human decides: restore the records, or run this by hand with the
topics named and *Accept the loss* ticked.

A cluster that **never comes back** is given up by a human: `give_up_cluster`.

Readers that were told to skip go on skipping, unless *Serve what was skipped* is ticked for the topics that are named.
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
        "Accept the loss", "Do without what the cluster held when it died and no longer has. Name the topics."
    ),
    "serve_skipped": forms.decision(
        "Serve what was skipped", "Readers get what a forced move let them skip. Name the topics."
    ),
    "reason": forms.usual_reason("the cluster answers again"),
}

with switchyard_dag(
    "check_origins",
    "Check for returned clusters",
    "Closes the extents of clusters that answer again where they truly end, and says what came back.",
    __doc__,
    "upkeep",
    PARAMS,
    schedule=timedelta(minutes=5),  # it only finds out what is true, and decides nothing
):
    end_run(CheckOriginsOperator(task_id="check", **BACKGROUND, **LONG))
