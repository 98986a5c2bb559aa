"""
### Let migrations age

After a migration the old cluster still has the records from before the cut. This looks at every old extent each hour,
drops those that are **Aged** (no client can read them, no group needs them) in one revision for many topics, and shows
why each of the others stays:

| kept by | meaning | what to do |
|---|---|---|
| held | its log still has records below the cut | wait for retention; a compacted topic does not age by itself |
| lagging | a group with members has not got past the cut | wait |
| dead | a group without members has committed an offset below the cut | reset its offsets, or delete the group |
| written | a producer writes to the old cluster past the gateways | find it, and stop it |
| unconfirmed | the cluster was dead at the cut | bring it back: `check_origins` finds its true end |
| lost | the old log ends before the cut, or the topic is gone | check the address; then *Accept the loss* |
| masked | the cluster is out of service, and is not asked | unmask it when it is healthy |
| unasked | the cluster does not answer | bring it back; gone for good: `give_up_cluster` |

Readers below a dropped extent continue at the next one, as after retention. With *Delete origin topics* the topic in
the old cluster is deleted when all of its partitions are aged and none has a record.
Without Airflow: `switchyard age`.
"""

from datetime import timedelta

from ha_core.operators import forms
from ha_core.operators.dags import BACKGROUND, LONG, end_run, switchyard_dag
from ha_core.operators.upkeep import AgeMigrationsOperator

PARAMS = {
    forms.FIRST: forms.scheduled_dry_run("Only look."),
    "topics": forms.some_topics(),
    "delete_origin": forms.decision(
        "Delete origin topics", "Delete the topic in the old cluster once no map refers to it and it holds no record."
    ),
    "accept_loss": forms.decision(
        "Accept the loss", "Accept that records of an old cluster are lost. Name the topics."
    ),
    "reason": forms.usual_reason("nothing of it can be read or is needed any more"),
}

with switchyard_dag(
    "age_migrations",
    "Age migrations",
    "Drops old extents that no client can read and no group needs; shows why the others stay.",
    __doc__,
    "upkeep",
    PARAMS,
    schedule=timedelta(hours=1),  # it drops only unreadable extents; topics are deleted only on request
):
    end_run(AgeMigrationsOperator(task_id="age", **BACKGROUND, **LONG))
