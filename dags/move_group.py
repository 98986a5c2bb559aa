"""
### Move a group to the other cluster of a flow

The group has stopped: it has no members in either cluster. `look` translates each of its offsets by the exact map of
the flow's copies, and logs them. `move` commits them in the target, in one operation of the history; start the group
there. Its offsets in the source stay as they are.

An offset that is not known exactly refuses the move, by its name, unless *Accept repeated records* is ticked. One that
would lose records refuses it always. For the way back name the flow the other way round: topics that came from there
are its own topics again.

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
        "From where to where it moves, as **primary->backup**, by the aliases of the declaration.",
        "string",
        pattern="^.+->.+$",
    ),
    "reason": forms.reason(),
    "declaration": forms.optional_text(
        "Declaration", "The declaration that has the flow. Empty: the only one that has it.", forms.HOW
    ),
    "wait_s": forms.field(
        "Wait, seconds", "Until the group has no members.", "number", forms.HOW, default=0, minimum=0, maximum=600
    ),
    "repeat": forms.decision(
        "Accept repeated records", "Where an exact offset is not known, commit a lower one: its records come twice."
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
