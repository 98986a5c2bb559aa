"""A fence that is too old, and a move that takes longer than its RTO, are alarms, once each."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.dags import airflow_home

assert airflow_home  # before anything of airflow: the package below imports it

from ha_core.operators.deadlines import Watch, run_deadline, run_is_late  # noqa: E402
from tests.kit.operations import a_switch  # noqa: E402
from tests.kit.waiting import until  # noqa: E402

STARTED = datetime(2026, 11, 21, 10, tzinfo=UTC)


def watch(age_s: float = 0.0, **more: Any) -> Watch:
    return Watch(lambda: None, 1.0, 60.0, now=lambda: STARTED + timedelta(seconds=age_s), **more)


def forced(state: str) -> Any:
    operation = a_switch(state=state)
    request = operation.request.changed(mode="forced", unread="wait")
    return operation.changed(request=request)


def test_a_fence_that_is_older_than_a_second_is_an_alarm_once(caplog: pytest.LogCaptureFixture) -> None:
    found = watch()

    for at_s in (10.0, 10.9, 11.1, 12.0, 13.0):
        found.look(a_switch(state="fenced"), at_s)

    (words,) = found.missed
    assert words.startswith("A FENCE IS OLDER THAN 1 s: operation switch-1 fences")
    assert [record.levelno for record in caplog.records] == [logging.CRITICAL]


def test_a_fence_that_was_lifted_in_time_is_no_alarm() -> None:
    found = watch()

    for at_s, state in ((10.0, "fenced"), (10.9, "fenced"), (11.2, "cut"), (12.0, "fenced"), (12.9, "fenced")):
        found.look(a_switch(state=state), at_s)

    assert found.missed == []


@pytest.mark.parametrize(
    ("operation", "age_s", "alarms"),
    [
        pytest.param(forced("running"), 61.0, 1, id="forced and late"),
        pytest.param(forced("running"), 59.0, 0, id="forced and in time"),
        pytest.param(forced("succeeded"), 61.0, 0, id="forced and ended"),
        pytest.param(a_switch(state="running"), 3_600.0, 0, id="planned: clients are served meanwhile"),
    ],
)
def test_only_a_move_away_from_a_dead_cluster_has_an_rto(operation: Any, age_s: float, alarms: int) -> None:
    found = watch(age_s)

    found.look(operation, 1.0)

    assert len(found.missed) == alarms


def test_the_watch_looks_by_itself_while_its_task_works() -> None:
    fenced = a_switch(state="fenced")
    found = Watch(lambda: fenced, 0.01, 60.0)

    with found:
        until(lambda: bool(found.missed), "an alarm")

    assert len(found.missed) == 1


def test_a_store_that_does_not_answer_does_not_end_the_watch() -> None:
    answers = iter([ConnectionError("away"), a_switch(state="fenced"), a_switch(state="fenced")])

    def read() -> Any:
        answer = next(answers, a_switch(state="fenced"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    with (found := Watch(read, 0.01, 60.0)):
        until(lambda: bool(found.missed), "an alarm")


def test_airflow_raises_the_alarm_of_a_run_that_is_late(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SWITCHYARD__RTO_S", "15")

    deadline = run_deadline()
    run = {"dag_id": "fail_over_cluster", "dag_run_id": "manual__1"}
    asyncio.run(run_is_late(**deadline.callback.kwargs, context={"dag_run": run}))

    assert deadline.interval == timedelta(seconds=15)
    assert deadline.callback.path == "ha_core.operators.deadlines.run_is_late"
    (record,) = caplog.records
    assert "A MOVE IS OLDER THAN ITS RTO: the run fail_over_cluster/manual__1" in record.getMessage()
