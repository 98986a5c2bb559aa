"""
### Keep a copy of topics in another cluster

A **mirror** is a topic of the same name, partitions, configuration and access rules in another cluster, to which every
record is copied as it was written: key, value, headers, time, compression. The job `mirror` on Spark copies as long as
the mirror stands; `switchyard mirrors` shows how far each partition is.

| task | what it does | if it fails |
|---|---|---|
| `plan` | finds out whether anything speaks against it | nothing was changed |
| `approve` | asks a human, if you want that; holds no lock | nothing was changed |
| `link` | leads everybody to the source by maps, creates the topics, writes the mirrors | undone; clear the task |
| `report` | the result of the run: in its first line what became of it | it fails where anything failed |
| `release` | always runs: no lock is left behind | clear the task |

Clients notice nothing: gateways lead nobody to the copy. A `switch` of a mirrored topic goes to its copy; to move it to
any other cluster, end its mirror first (`unlink_mirror`). The form begins as a **dry run**. Without Airflow:
`switchyard mirror link --help`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import LONG, PATIENT, ask, end_run, switchyard_dag
from ha_core.operators.mirrors import LinkMirrorOperator, PlanMirrorOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only the task **plan**: what would be mirrored, and what speaks against it."),
    "topics": forms.topics("Names, one a line; no patterns."),
    "from": forms.cluster("From", "The cluster that they are written in."),
    "to": forms.cluster("To", "The cluster that gets the copies. The topics are created there."),
    "settings_left_alone": forms.optional_entries(
        "Settings left alone", "Settings that are not kept as in the source, names or patterns, one a line."
    ),
    "max_bytes_s": forms.max_bytes_s("How much of each topic is copied in a second at most.", default="none"),
    "reason": forms.reason(),
    "approval": forms.approval(),
}

with switchyard_dag(
    "link_mirror",
    "Link a mirror",
    "Keeps a copy of topics in another cluster, up to date all the time.",
    __doc__,
    "mirror",
    PARAMS,
    max_active_runs=4,
    run_timeout=PATIENT,
):
    link = LinkMirrorOperator(task_id="link", **LONG)
    ask(PlanMirrorOperator(task_id="plan"), "Mirror them from {{ params['from'] }} to {{ params.to }}?", link)
    end_run(link)
