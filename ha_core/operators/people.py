"""Who triggered a run, and who approved it."""

from __future__ import annotations

from typing import Any

APPROVAL = "approve"
"""The task that asks, in every DAG that has one."""
REJECT = "Reject"


def triggered_by(context: Any) -> str:
    """The user who triggered the run; empty for a run by the clock."""
    return str(getattr(context["dag_run"], "triggering_user_name", None) or "")


def responder(answer: Any) -> str:
    """Who gave an approval's answer; empty where nobody did in time."""
    user = answer.get("responded_by_user") if isinstance(answer, dict) else None
    return str((user or {}).get("name") or (user or {}).get("id") or "")


def rejected(answer: Any) -> bool:
    """Whether an approval's answer is a no; nobody having been asked is none."""
    return isinstance(answer, dict) and REJECT in (answer.get("chosen_options") or ())


def approval_of(context: Any) -> dict[str, Any] | None:
    """The answer to this run's approval; None where nobody was asked, or has answered yet."""
    task = context["task"]
    if APPROVAL not in task.dag.task_ids or task.task_id == APPROVAL:
        return None
    answer = context["ti"].xcom_pull(task_ids=APPROVAL)
    return answer if isinstance(answer, dict) else None


def people(context: Any) -> str:
    """`alice`, or `alice, approved by bob`; empty for a run by the clock."""
    who, approver = triggered_by(context), responder(approval_of(context))
    return f"{who or 'the clock'}, approved by {approver}" if approver else who
