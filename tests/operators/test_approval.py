"""Who may approve a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags import airflow_home

assert airflow_home  # before anything of airflow: the package below imports it

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator  # noqa: E402

from ha_core.operators.approval import ApproveOperator  # noqa: E402


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What becomes of the question."""
    seen: list[str] = []
    monkeypatch.setattr(ApprovalOperator, "execute", lambda *_: seen.append("asked again"))
    monkeypatch.setattr(HITLOperator, "execute_complete", lambda *_: seen.append("taken"))
    return seen


def respond(approval: str, who: str, chosen: str) -> None:
    task = ApproveOperator(task_id="approve", approval=approval, dry_run=False, subject="Move them?")
    context: dict[str, Any] = {
        "params": {"approval": approval},
        "dag_run": SimpleNamespace(triggering_user_name="alice"),
    }
    event = {"chosen_options": [chosen], "responded_by_user": {"id": "1", "name": who}, "params_input": {}}
    task.execute_complete(context, event)


@pytest.mark.parametrize(
    ("approval", "who", "chosen", "becomes"),
    [
        ("somebody else", "alice", "Approve", "asked again"),
        ("somebody else", "alice", "Reject", "taken"),
        ("somebody else", "bob", "Approve", "taken"),
        ("anybody", "alice", "Approve", "taken"),
    ],
)
def test_the_user_who_triggered_a_run_cannot_approve_it_when_somebody_else_must(
    asked: list[str], approval: str, who: str, chosen: str, becomes: str
) -> None:
    respond(approval, who, chosen)

    assert asked == [becomes]
