"""
### Move live clients from one cluster to another

A **switch** moves users (or single instances, topics, groups of theirs) with everything that belongs together:
the topics that they use get a new writer, their groups a new coordinator, their bindings a new cluster.
All of it changes in one revision, the *cut*. Clients stay connected and notice a pause of less than a second:
offsets continue, no record is lost and none is duplicated.

| task | what it does | if it fails |
|---|---|---|
| `plan` | finds the topics and groups to move, with the reasons, and every objection | nothing was changed |
| `approve` | asks an operator, if you want that; holds no lock | nothing was changed |
| `acquire` | takes the locks of everything that moves | nothing was changed |
| `compare` | compares mirrored topics with their copies: by default a sample | undone |
| `prepare` | keeps all clients in the origin by maps, then creates missing topics in the target | undone |
| `adopt` | joins the groups in the target on behalf of their members | undone |
| `cut_over` | copies, fence, drain, ends, group offsets, **cut**: the part that clients feel | undone, if not cut |
| `verify` | every gateway serves it; the old cluster was not written; mirrors follow | the cut stays; see the log |
| `record` | writes the result | repeat it: clear the task |
| `report` | the result of the run, in its first line | it fails if any task failed |
| `release` | always runs: no fence and no lock is left | clear the task |

The form begins as a **dry run**: it stops after `plan`, and its result lists the moves, and every objection with
its remedy. After a crash, a cleared task continues the same operation; after an undo it starts over.
Topics with a **mirror** go to their copy: nothing is created, old records are read from it, and after the cut the old
cluster is the copy. `plan` shows the copies' lag; missing records are copied before clients wait for anything.
The way back is another switch with *From* and *To* exchanged. Without Airflow: `switchyard switch --help`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import PATIENT, SLOW, STEP, switchyard_dag
from ha_core.operators.switch import (
    AdoptGroupsOperator,
    CompareCopiesOperator,
    PlanSwitchOperator,
    carry_out,
)

PARAMS = {
    forms.FIRST: forms.dry_run(
        "Only the task **plan**: the topics and groups to move, the reasons, and every objection."
    ),
    "scope": forms.entries(
        "Scope",
        "As on the command line, one entry a line. **user:NAME**: the user with all topics and groups that it uses, "
        "declared or seen by the gateways. **user:NAME+CLIENT-ID**: one client of it. **user:NAME#TOPIC**, "
        "**user:NAME##GROUP**: one topic, one group of it. **user:NAME+#TOPIC**: its clients that use the "
        "topic, or the whole user if their client ids are not stable. **topic:NAME**: the topic alone; groups and "
        "bindings stay. **topic:NAME:0,4-7**: partitions of it. In names %, + and # are written %25, %2B and %23.",
        minItems=1,
    ),
    "from": forms.cluster("From", "The cluster that serves them now."),
    "to": forms.cluster("To", "The cluster that is to serve them. Missing topics are created there."),
    "reason": forms.reason(),
    "include_other_users": forms.flag(
        "Others come along",
        "A topic has one writer, so other users of a moving topic come along with it. Off: the move is refused, "
        "and the task **plan** names the others.",
    ),
    **forms.of_switch("; the log names exactly what is unknown"),
    **forms.lag_bounds(),
    "approval": forms.approval(),
    "drain_timeout_s": forms.drain_timeout_s(
        "How long clients may wait under the fence. After that the move is undone."
    ),
}

with switchyard_dag(
    "switch",
    "Switch: move live clients",
    "Moves users, instances, groups or topics from one cluster to another, without the clients noticing.",
    __doc__,
    "move",
    PARAMS,
    max_active_runs=8,  # locks prevent concurrent runs for the same scope; others may run in parallel
    run_timeout=PATIENT,
):
    plan = PlanSwitchOperator(task_id="plan")
    compare = CompareCopiesOperator(task_id="compare", **STEP, **SLOW)
    adopt = AdoptGroupsOperator(task_id="adopt", **STEP)
    carry_out(plan, "Move them from {{ params['from'] }} to {{ params.to }}?", adopt, before=[compare])
