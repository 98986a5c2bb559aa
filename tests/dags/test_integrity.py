"""Every DAG can be read, says what it is, and ends without a trace."""

from datetime import timedelta
from typing import Any

import pytest

from tests.dags import airflow_home
from tests.dags.conftest import read_dags
from tests.dags.names import ASKED, AT_ONCE, DAGS, LOOKING, PLATFORM, SCHEDULED, UPKEEP

MAX_IN_SEQUENCE = 12


def longest_path(dag: Any) -> int:
    length: dict[str, int] = {}
    for task in dag.topological_sort():
        length[task.task_id] = 1 + max((length[one] for one in task.upstream_task_ids), default=0)
    return max(length.values())


def test_every_file_is_read_without_an_error(dagbag: Any) -> None:
    assert dagbag.import_errors == {}
    assert set(dagbag.dags) == set(DAGS)


@pytest.mark.parametrize("dag_id", DAGS)
def test_every_dag_has_a_documentation_a_description_a_tag_and_an_owner(dagbag: Any, dag_id: str) -> None:
    dag = dagbag.dags[dag_id]

    assert len(dag.doc_md) > 200
    assert dag.description
    assert "switchyard" in dag.tags
    assert {task.owner for task in dag.tasks} == {"switchyard"}
    assert all(task.doc_md for task in dag.tasks)


@pytest.mark.parametrize("dag_id", DAGS)
def test_every_field_of_the_form_has_a_title_and_a_text(dagbag: Any, dag_id: str) -> None:
    params = dagbag.dags[dag_id].params
    for name in params:
        schema = params.get_param(name).schema
        assert schema.get("title"), name
        assert schema.get("description_md"), name


@pytest.mark.parametrize("dag_id", [*ASKED, *AT_ONCE, *PLATFORM, *LOOKING])
def test_a_dag_that_is_asked_for_has_no_schedule(dagbag: Any, dag_id: str) -> None:
    dag = dagbag.dags[dag_id]

    assert dag.schedule is None
    assert 1 <= dag.max_active_runs <= 8


@pytest.mark.parametrize("dag_id", DAGS)
def test_at_most_twelve_tasks_stand_in_a_sequence(dagbag: Any, dag_id: str) -> None:
    assert longest_path(dagbag.dags[dag_id]) <= MAX_IN_SEQUENCE


def longest_s(task: Any) -> float:
    """How long a task may take, with its repetitions and what it waits for without a worker."""
    delay = task.retry_delay or timedelta()
    waits = getattr(task, "response_timeout", None) or timedelta(seconds=getattr(task, "timeout", 0))
    return float((((task.retries or 0) + 1) * (task.execution_timeout + delay) + waits).total_seconds())


@pytest.mark.parametrize("dag_id", DAGS)
def test_every_task_has_a_timeout_and_the_run_a_longer_one_so_that_release_is_never_cut_off(
    dagbag: Any, dag_id: str
) -> None:
    dag = dagbag.dags[dag_id]

    assert dag.dagrun_timeout.total_seconds() > sum(longest_s(task) for task in dag.tasks)


def test_tasks_depend_on_each_other_only_in_the_order_of_the_steps(dagbag: Any) -> None:
    switch, migrate = dagbag.dags["switch"], dagbag.dags["migrate_topics"]
    arrows = {task.task_id: task.downstream_task_ids for task in switch.tasks}

    assert arrows == {
        "plan": {"approve", "acquire"},  # `approve` is skipped if no approval is needed
        "approve": {"acquire"},
        "acquire": {"compare", "release"},  # its teardown
        "compare": {"prepare"},
        "prepare": {"adopt"},
        "adopt": {"cut_over"},
        "cut_over": {"verify"},
        "verify": {"record"},
        "record": {"release", "report"},
        "release": set(),
        "report": set(),
    }
    assert migrate.get_task("plan").downstream_task_ids == {"approve", "batches"}


def test_only_scheduled_tasks_wait_for_a_slot_in_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    from ha_core.operators.dags import BACKGROUND

    own = {task.pool for dag in read_dags().dags.values() for task in dag.tasks}
    monkeypatch.setitem(BACKGROUND, "pool", "switchyard")
    pooled = {
        (dag_id, task.task_id)
        for dag_id, dag in read_dags().dags.items()
        for task in dag.tasks
        if task.pool == "switchyard"
    }

    assert own == {"default_pool"}, "a task whose pool does not exist is never started"
    assert pooled == {
        ("record_facts", "look"),
        ("record_facts", "history"),
        ("record_facts", "rates"),
        ("check_origins", "check"),
        ("check_parity", "check"),
        ("age_migrations", "age"),
        ("sync_mirrors", "sync"),
    }


@pytest.mark.parametrize("dag_id", SCHEDULED)
def test_a_scheduled_dag_runs_one_at_a_time_and_does_not_catch_up(dagbag: Any, dag_id: str) -> None:
    dag = dagbag.dags[dag_id]

    assert dag.schedule
    assert not dag.catchup
    assert dag.max_active_runs == 1
    assert dag.is_paused_upon_creation is False


@pytest.mark.parametrize("dag_id", [*ASKED, *AT_ONCE, *UPKEEP])
def test_release_runs_after_every_task_that_changes_something(dagbag: Any, dag_id: str) -> None:
    release = dagbag.dags[dag_id].get_task("release")

    assert release.is_teardown
    assert release.on_failure_fail_dagrun
    assert release.retries > 0
    changing = set(dagbag.dags[dag_id].task_ids) - {"release", "report"}
    assert {task.task_id for task in release.get_flat_relatives(upstream=True)} == changing


def test_from_fence_to_cut_is_one_task_and_no_lock_is_held_during_an_approval(dagbag: Any) -> None:
    switch = dagbag.dags["switch"]

    before = {task.task_id for task in switch.get_task("acquire").get_flat_relatives(upstream=True)}

    assert before == {"plan", "approve"}
    assert switch.get_task("acquire").is_setup
    assert switch.get_task("cut_over").upstream_task_ids >= {"adopt"}
    assert switch.get_task("cut_over").retries == 0


def test_a_switch_requires_a_reason_and_both_clusters(dagbag: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    for name in ("from", "to", "reason"):
        with pytest.raises(ParamValidationError):
            dagbag.dags["switch"].params.get_param(name).resolve()


def test_names_that_airflow_has_moved_come_from_one_module() -> None:
    """Airflow 3.1 has them elsewhere: a direct import keeps its DAG from being read there."""
    moved = ("airflow.sdk.exceptions", "airflow.sdk.configuration")
    direct = [
        str(file.relative_to(airflow_home.PROJECT))
        for part in ("ha_core", "dags", "plugins")
        for file in (airflow_home.PROJECT / part).rglob("*.py")
        if any(f"from {name} import" in file.read_text() for name in moved)
    ]

    assert direct == ["ha_core/hooks/airflow_names.py"]
