"""
### Move a group to the other cluster of a flow

Stop the group first: it must have no members in either cluster. `look` translates each of its offsets by the exact map
of the flow's copies, and logs them. `move` commits them in the target, in one operation of the history; then start the
group there. Its offsets in the source stay as they are.

If an offset has no exact translation, the move is refused and the offset named, unless *Accept repeated records* is
ticked. If the group would lose records, the move is always refused. To go back, name the flow in the other direction:
topics that came from that cluster have their original names there.

Without Airflow: `switchyard flows move-group GROUP 'SOURCE->TARGET' --reason …`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import end_run, switchyard_dag
from ha_core.operators.flows import LookAtGroupOperator, MoveGroupOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only show the offsets in both clusters."),
    "group": forms.field("Group", "It must have no members.", "string", minLength=1),
    "flow": forms.field(
        "Flow",
        "Source and target of the move, such as **primary->backup**, by the aliases of the declaration.",
        "string",
        pattern="^.+->.+$",
    ),
    "reason": forms.reason(),
    "declaration": forms.optional_text(
        "Declaration", "The declaration that has the flow. Empty: the only declaration with this flow.", forms.HOW
    ),
    "wait_s": forms.field(
        "Wait, seconds", "Until the group has no members.", "number", forms.HOW, default=0, minimum=0, maximum=600
    ),
    "repeat": forms.decision(
        "Accept repeated records", "Where the exact offset is unknown, commit a lower one: the group rereads records."
    ),
}

with switchyard_dag(
    "move_group",
    "Move a group by a flow",
    "Commits a stopped group's offsets in the other cluster of a flow, at its exact records.",
    __doc__,
    "mirror",
    PARAMS,
    max_active_runs=4,
):
    move = MoveGroupOperator(task_id="move")
    LookAtGroupOperator(task_id="look") >> move
    end_run(move)
