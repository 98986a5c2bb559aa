"""Four eyes: no run with a task `approve` changes anything until a user other than the one who asked approves it.

It is a setting of the installation, `[switchyard] four_eyes` in Airflow's configuration, on schedulers, workers and DAG
processors. No field of a form turns it off, and neither does a task `approve` that is marked as a success by hand: each
task behind it looks at the answer itself.
"""

from __future__ import annotations

from typing import Any

from ha_core.hooks.airflow_names import conf
from ha_core.operators.dag_run import APPROVAL, approval_of, responder, triggered_by

SECTION, OPTION = "switchyard", "four_eyes"
APPROVE = "Approve"
SETTING = f"This installation demands four eyes ([{SECTION}] {OPTION} in Airflow's configuration)"


def required() -> bool:
    """:raises AirflowConfigException: the setting is neither true nor false."""
    return bool(conf.getboolean(SECTION, OPTION, fallback=False))


def own_approval(context: Any, who: str) -> str:
    """The problem with an approval by `who`; empty: none."""
    if who and who != triggered_by(context):
        return ""
    asked = f"{who} asked for this run and approved it." if who else "The approver of this run is not known."
    return f"{asked} {SETTING}: another user has to approve. Trigger it again, and let another user approve it."


def objection(context: Any) -> str:
    """Why a task behind an approval must not change anything; empty: it may."""
    task = context["task"]
    if APPROVAL not in task.dag.task_ids or not required():
        return ""
    if APPROVAL not in {one.task_id for one in task.get_flat_relatives(upstream=True)}:
        return ""
    answer = approval_of(context)
    if APPROVE not in ((answer or {}).get("chosen_options") or ()):
        return f"{SETTING}, and no user has approved this run. Trigger it again, and let another user approve it."
    return own_approval(context, responder(answer))
