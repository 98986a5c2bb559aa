"""Waiting for cuts: a worker checks, then a trigger waits until there is work."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags import airflow_home

assert airflow_home  # before anything of airflow: the package below imports it

from airflow.sdk.exceptions import AirflowSensorTimeout, TaskDeferred  # noqa: E402

from ha_core.hooks.zookeeper import SwitchyardHook  # noqa: E402
from ha_core.operations.running import settling  # noqa: E402
from ha_core.operators.migration import AwaitCutsSensor  # noqa: E402
from ha_core.operators.triggers import CrossingTrigger  # noqa: E402
from ha_core.store.errors import StoreUnavailableError  # noqa: E402

WEEK = timedelta(days=7)


def sensor(monkeypatch: pytest.MonkeyPatch, *looks: bool) -> AwaitCutsSensor:
    """A sensor whose checks have these results, in this order."""
    left = list(looks)
    monkeypatch.setattr(AwaitCutsSensor, "poke", lambda *_: left.pop(0))
    return AwaitCutsSensor(
        task_id="await_cuts", operation_ids=["one", "two"], dry_run=False, poke_interval=15, timeout=WEEK
    )


def context() -> dict[str, Any]:
    task = SimpleNamespace(dag=SimpleNamespace(task_ids=[]), task_id="await_cuts")
    return {"params": {}, "task": task, "ti": SimpleNamespace(xcom_push=lambda **_: None)}


def test_the_sensor_does_not_wait_when_all_crossings_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sensor(monkeypatch, True).execute(context()) is None


def test_the_sensor_waits_in_a_trigger_with_one_deadline_for_all_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    task = sensor(monkeypatch, False, False)

    with pytest.raises(TaskDeferred) as first:
        task.execute(context())
    until = first.value.kwargs["until"]
    with pytest.raises(TaskDeferred) as again:
        task.execute_complete(context(), until=until, event={"due": True})

    assert isinstance(first.value.trigger, CrossingTrigger)
    assert first.value.trigger.operation_ids == ["one", "two"]
    assert WEEK - timedelta(minutes=1) < first.value.timeout <= WEEK
    assert again.value.kwargs["until"] == until


def test_the_sensor_fails_when_its_deadline_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()

    with pytest.raises(AirflowSensorTimeout):
        sensor(monkeypatch, False).execute_complete(context(), until=past)


def test_a_trigger_is_serialized_with_its_arguments() -> None:
    path, arguments = CrossingTrigger("state", ("one",), 15.0).serialize()

    assert path == "ha_core.operators.triggers.CrossingTrigger"
    assert CrossingTrigger(**arguments).serialize() == (path, arguments)


def test_a_trigger_retries_while_zookeeper_is_away_and_fires_when_something_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Any] = [False, StoreUnavailableError("zk:2181 is away"), False, True]

    def looked(_environment: Any, operation_ids: list[str]) -> bool:
        assert operation_ids == ["one"]
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    @contextmanager
    def environment(_hook: Any, _by: str) -> Iterator[None]:
        yield None

    monkeypatch.setattr(SwitchyardHook, "get_conn", environment)
    monkeypatch.setattr(settling, "anything_due", looked)

    async def run() -> list[Any]:
        return [event.payload async for event in CrossingTrigger("state", ["one"], 0.0).run()]

    assert asyncio.run(run()) == [{"due": True}]
    assert answers == []
