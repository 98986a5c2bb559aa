"""What runs that change mirrors tell in their first line."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags import airflow_home

assert airflow_home  # before anything of airflow: the package below imports it

from airflow.sdk.exceptions import AirflowSkipException  # noqa: E402

from ha_core.operations import reconciling, throttling, unlinking  # noqa: E402
from ha_core.operations.reconciled import Reconciled, TailFound  # noqa: E402
from ha_core.operators.mirrors import (  # noqa: E402
    ReconcileOperator,
    ThrottleMirrorOperator,
    UnlinkMirrorOperator,
)
from ha_core.operators.outcome import DRY_RUN, TOLD  # noqa: E402
from ha_core.present.mirrors import reconciled_page  # noqa: E402

COUNTED = TailFound("orders", 0, "switch-1", "counted", 20, 20, 25, 5, 900)


def told(monkeypatch: pytest.MonkeyPatch, result: Reconciled, **asked: Any) -> str:
    said = list[str]()
    monkeypatch.setattr(reconciling, "reconcile", lambda *_, **__: result)
    for name in ("would", "done"):
        monkeypatch.setattr(ReconcileOperator, name, lambda _, text, **__: said.append(text))
    monkeypatch.setattr(ReconcileOperator, "say", lambda *_: None)
    monkeypatch.setattr(ReconcileOperator, "finish_own", lambda _: [])
    monkeypatch.setattr(ReconcileOperator, "environment", None, raising=False)
    task = ReconcileOperator(task_id="reconcile", cluster="east", reason="r", verify="sample", **asked)
    task.read_arguments()
    task.work()
    (line,) = said
    return line


def test_a_dry_run_promises_no_mirror_where_nothing_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Reconciled("east", "b:1", (COUNTED._replace(outcome="gone", records=None),))
    line = told(monkeypatch, gone, topics=[], mirror=True, accept_loss=False, dry_run=True)
    assert line == "1 partition cannot be counted: the log says why and what to do"


def test_what_is_not_asked_for_or_was_done_before_is_not_told_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Reconciled("east", "b:1", (COUNTED,))
    dry = told(monkeypatch, found, topics=[], mirror=False, accept_loss=False, dry_run=True)
    assert dry == "would keep that 5 records of 1 partition of east lie beyond their copies"
    again = told(monkeypatch, found, topics=[], mirror=True, accept_loss=False, dry_run=False)
    assert "0 topics" not in again


@pytest.mark.parametrize(
    ("operator", "asked", "line"),
    [
        (ThrottleMirrorOperator, {"max_bytes_s": "2048", "target": ""}, "would limit 1 mirror to 2048 bytes a second"),
        (UnlinkMirrorOperator, {"target": "west", "delete_copy": False}, "would end 1 mirror in west"),
        (
            UnlinkMirrorOperator,
            {"target": "west", "delete_copy": True},
            "would end 1 mirror in west, and delete what was copied",
        ),
    ],
)
def test_the_last_word_of_a_dry_run_is_what_it_would_do(
    monkeypatch: pytest.MonkeyPatch, operator: type[Any], asked: dict[str, Any], line: str
) -> None:
    """And not that there is nothing to do."""
    pushed = dict[str, Any]()
    monkeypatch.setattr(throttling, "to_throttle", lambda *_: ["orders@west"])
    monkeypatch.setattr(unlinking, "judged", lambda *_: None)
    monkeypatch.setattr(operator, "finish_own", lambda _: ())
    monkeypatch.setattr(operator, "environment", None, raising=False)
    dag = SimpleNamespace(task_ids=[], params={})
    context = {
        "params": {},
        "dag": dag,
        "task": SimpleNamespace(dag=dag, task_id="work"),
        "dag_run": SimpleNamespace(conf={}),
        "ti": SimpleNamespace(xcom_push=lambda key, value, **_: pushed.update({key: value})),
    }
    task = operator(task_id="work", topics=["orders"], reason="r", dry_run=True, **asked)
    with pytest.raises(AirflowSkipException):
        task.execute(context)
    assert (pushed[TOLD]["kind"], pushed[TOLD]["text"]) == (DRY_RUN, line)


def test_the_command_that_fetches_a_lost_tail_says_where_a_login_belongs() -> None:
    plain = Reconciled("east", "b:1", (COUNTED,))
    login = Reconciled("east", "b:1", (COUNTED,), security="sasl")
    assert "--consumer.config" not in plain.fetch(COUNTED)
    assert "--bootstrap-server b:1 --consumer.config LOGIN.properties --topic orders" in login.fetch(COUNTED)
    assert any("security profile sasl" in str(line) for line in reconciled_page(login))
