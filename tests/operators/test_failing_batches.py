"""Retries of a failed part of a cluster, or batch of a migration."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags import airflow_home

assert airflow_home  # before anything of airflow: the package below imports it

from airflow.sdk.exceptions import AirflowFailException  # noqa: E402

from ha_core.model import MoveRequest, MoveSet, Scope  # noqa: E402
from ha_core.operations.engine.errors import StepFailedError  # noqa: E402
from ha_core.operations.engine.report import Report  # noqa: E402
from ha_core.operations.migration.planning import MigrationBatch  # noqa: E402
from ha_core.operations.running import engine  # noqa: E402
from ha_core.operators.migration import MigrateBatchOperator  # noqa: E402
from ha_core.operators.outcome import TOLD  # noqa: E402
from ha_core.operators.switch import SwitchBatchOperator  # noqa: E402
from ha_core.plan.facts.verdict import Verdict, error  # noqa: E402
from ha_core.plan.move.step_verdicts import copies_damaged, copies_differ, not_compared  # noqa: E402
from tests.kit.operations import a_switch  # noqa: E402

REQUEST = MoveRequest(scope=Scope(topics=("orders",)), origin="east", target="west", reason="r")
BATCH = MigrationBatch(number=1, request=REQUEST, moves=MoveSet(topics=("orders",)))
DIFFERS = copies_differ("east", "west", {("orders", 0): (5, "another value")})
DAMAGED = copies_damaged(REQUEST, {"orders": "orders-0: another producer writes to the copy"}, ["orders"], others=True)


def run(
    monkeypatch: pytest.MonkeyPatch, operator: type[MigrateBatchOperator], *verdicts: Verdict, told: Any = None
) -> None:
    """Run the task of a part whose operation is undone for these verdicts.

    :param told: filled with the task's XComs.
    """
    pushed = {} if told is None else told
    operation = a_switch(id="switch-1", request=REQUEST, state="undone")
    report = Report("switch-1", "undone", 0, error="It was undone.", verdicts=verdicts)
    monkeypatch.setattr(engine, "start", lambda *_: operation)
    monkeypatch.setattr(engine, "resume", lambda *_: report)
    found = SimpleNamespace(operation=lambda _: None, operation_of=lambda *_: operation)
    monkeypatch.setattr(operator, "environment", found, raising=False)
    monkeypatch.setattr(operator, "proposal", lambda _, key="": {"batches": [1]} if not key else BATCH.model_dump())
    dag = SimpleNamespace(task_ids=[], params={})
    context: dict[str, Any] = {
        "params": {},
        "dag": dag,
        "task": SimpleNamespace(dag=dag, task_id="switch"),
        "dag_run": SimpleNamespace(conf={}, dag_id="d", run_id="r", run_after=datetime(2026, 11, 23, tzinfo=UTC)),
        "ti": SimpleNamespace(xcom_push=lambda key, value, **_: pushed.update({key: value})),
    }
    operator(task_id="switch", batch=1, dry_run=False).execute(context)


@pytest.mark.parametrize("operator", [MigrateBatchOperator, SwitchBatchOperator])
@pytest.mark.parametrize("verdicts", [DIFFERS, DAMAGED])
def test_a_part_whose_copy_differs_or_is_damaged_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, operator: type[MigrateBatchOperator], verdicts: tuple[Verdict, ...]
) -> None:
    told = dict[str, Any]()
    with pytest.raises(AirflowFailException, match="It was undone"):
        run(monkeypatch, operator, *verdicts, told=told)
    # And in the report of the run the remedy comes first
    assert told[TOLD]["short"].startswith(f"topic orders ({verdicts[0].code}): {verdicts[0].remedy}")


@pytest.mark.parametrize(
    "verdicts",
    [(), (not_compared("east", "west", "timed out"),), (error("locked", "topic orders", "It is.", cause="busy"),)],
)
def test_a_part_that_failed_for_a_transient_reason_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, verdicts: tuple[Verdict, ...]
) -> None:
    with pytest.raises(StepFailedError):
        run(monkeypatch, SwitchBatchOperator, *verdicts)


def test_each_damaged_copy_is_a_verdict_with_its_alternatives() -> None:
    leave = REQUEST.model_copy(update={"mode": "forced", "damaged_copies": "leave", "unread": "wait"})

    (refused,), (alone,) = DAMAGED, copies_damaged(leave, {"orders": "orders-0: it ends at 3"}, (), others=False)

    assert (refused.code, refused.about, refused.cause) == ("copy-damaged", "topic orders", "asked")
    assert refused.remedy.startswith("With --damaged-copies good-part it moves to its copy")
    assert "With --damaged-copies leave the others move" in refused.remedy
    assert "--damaged-copies" not in alone.remedy
    # And none advises to delete a log that may be the last one
    assert all("Delete nothing there while east may not come back" in verdict.remedy for verdict in (refused, alone))
    assert alone.text.endswith("Nothing else is to move.")
