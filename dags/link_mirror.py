"""
### Keep a copy of topics in another cluster

A **mirror** is a topic of the same name, partitions, configuration and ACLs in another cluster, to which every record
is copied as it was written: key, value, headers, time, compression. The job `mirror` on Spark copies until the mirror
ends; `switchyard mirrors` shows the lag of each partition.

| task | what it does | if it fails |
|---|---|---|
| `plan` | collects the objections | nothing was changed |
| `approve` | asks an operator, if you want that; holds no lock | nothing was changed |
| `link` | keeps all clients in the source by maps, creates the topics, writes the mirrors | undone; clear the task |
| `report` | the result of the run, in its first line | it fails if any task failed |
| `release` | always runs: no lock is left | clear the task |

Clients notice nothing: gateways send no client to the copy. A `switch` of a mirrored topic goes to its copy; to move it
to any other cluster, end its mirror first (`unlink_mirror`).

**Patterns** are kept. The job `mirror` looks for topics that they choose every few seconds, and links each as this DAG
links a named one; a topic that is refused is shown with its reason, on the page *Mirrors*, and tried again. Internal
topics of Kafka, of Switchyard and of MirrorMaker 2 are never chosen. The form begins as a **dry run**. Without Airflow:
`switchyard mirror link --help`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import LONG, PATIENT, ask, end_run, switchyard_dag
from ha_core.operators.mirrors import LinkMirrorOperator, PlanMirrorOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only the task **plan**: the topics to mirror, and every objection."),
    "topics": forms.topics(
        "Names, one a line. Or patterns such as **orders.\\***, which are kept: later topics get a copy too, within "
        "seconds. **\\*** stands for all topics of the cluster."
    ),
    "from": forms.cluster("From", "The cluster that they are written in."),
    "to": forms.cluster("To", "The cluster that gets the copies. The topics are created there."),
    "exclude": forms.optional_entries("Left out", "Topics that the patterns leave out, names or patterns, one a line."),
    "settings_left_alone": forms.optional_entries(
        "Settings left alone", "Settings that are not synced from the source, names or patterns, one a line."
    ),
    "max_bytes_s": forms.max_bytes_s("Limit for each topic.", default="none"),
    "remove_revoked_rights": forms.flag(
        "Remove revoked rights",
        "Access rules that the mirror has brought go when the source has revoked them; rules of the target stay.",
    ),
    "reason": forms.reason(),
    "approval": forms.approval(),
}

with switchyard_dag(
    "link_mirror",
    "Link a mirror",
    "Keeps a copy of topics in another cluster up to date.",
    __doc__,
    "mirror",
    PARAMS,
    max_active_runs=4,
    run_timeout=PATIENT,
):
    link = LinkMirrorOperator(task_id="link", **LONG)
    ask(PlanMirrorOperator(task_id="plan"), "Mirror them from {{ params['from'] }} to {{ params.to }}?", link)
    end_run(link)
