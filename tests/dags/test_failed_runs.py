"""A run is as red as its worst task, and its result says why in the first line. Nothing but Airflow is needed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from airflow.sdk import TriggerRule

from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operators.base import SwitchyardOperator
from ha_core.operators.ending import OutcomeOperator
from ha_core.operators.spark import SparkJobOperator
from ha_core.present.run_page import MENDED
from tests.dags.conftest import Run
from tests.dags.names import DAGS

MOVE = {"from": "east", "to": "west", "reason": "a test", "dry_run": False}
CHANGING: dict[str, tuple[str, dict[str, Any]]] = {
    "switch": ("cut_over", {**MOVE, "scope": ["user:alice"]}),
    "switch_cluster": ("switch", MOVE),
    "migrate_from_fault": ("cut_over", {**MOVE, "topics": ["orders"], "unread": "wait"}),
    "migrate_topics": ("migrate", {**MOVE, "topics": ["orders"]}),
    "rollback_migration": ("rollback", {"operation": "no-such-operation", "dry_run": False}),
    "mask_cluster": ("mask", {"cluster": "east", "reason": "a test", "dry_run": False}),
    "unmask_cluster": ("unmask", {"cluster": "east", "dry_run": False}),
    "refresh_bindings": ("difference", {"declaration": "bad: [", "dry_run": False}),
    "give_up_cluster": ("give_up", {"cluster": "east", "reason": "a test", "dry_run": False}),
    "link_mirror": ("link", {**MOVE, "topics": ["orders"]}),
    "unlink_mirror": ("unlink", {"topics": ["orders"], "cluster": "west", "reason": "a test", "dry_run": False}),
    "delete_topics": ("delete", {"topics": ["orders"], "reason": "a test", "dry_run": False}),
    "throttle_mirror": (
        "throttle",
        {"topics": ["orders"], "max_bytes_s": "none", "reason": "a test", "dry_run": False},
    ),
    "mirror_flows": ("look", {"name": "all", "properties": "clusters = A", "reason": "a test", "dry_run": False}),
    "fail_over_cluster": ("fail_over", {"cluster": "east", "reason": "a test"}),
    "rehearse": ("plan", {**MOVE, "scope": ["user:shop"]}),
    "move_group": ("move", {"group": "billing", "flow": "east->west", "reason": "a test", "dry_run": False}),
    "reconcile_returned_cluster": ("reconcile", {"cluster": "east", "reason": "a test", "dry_run": False}),
    "change_access": (
        "change",
        {"delete": "users: [{name: [alice]}]", "reason": "a test", "dry_run": False},
    ),
    "verify_mirror": ("verdict", {}),
    "check_origins": ("check", {}),
    "check_parity": ("check", {}),
    "age_migrations": ("age", {}),
    "settle_migrations": ("settle", {}),
    "sync_mirrors": ("sync", {}),
    "record_facts": ("look", {}),
}
"""DAG → a task of it that does something, and a form."""
PASSED_ON = {
    TriggerRule.ALL_SUCCESS,
    TriggerRule.NONE_FAILED,
    TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
}
"""A task that has one of these is `upstream_failed` after one that failed."""


def of(task: Any) -> type:
    """Its operator, also where it is mapped."""
    return getattr(task, "operator_class", type(task))


def fails_with(dag: Any, task: Any) -> Iterator[Any]:
    """The tasks that do not succeed when `task` fails."""
    yield task
    for later in (dag.get_task(name) for name in task.downstream_task_ids):
        if later.is_teardown:
            continue
        assert later.trigger_rule in PASSED_ON or issubclass(of(later), OutcomeOperator), later.task_id
        yield from fails_with(dag, later)


@pytest.mark.parametrize("dag_id", DAGS)
def test_every_failed_task_fails_a_leaf_that_is_no_teardown(dagbag: Any, dag_id: str) -> None:
    dag = dagbag.dags[dag_id]

    for task in (one for one in dag.tasks if not one.is_teardown):
        leaves = [one for one in fails_with(dag, task) if not one.downstream_task_ids]
        assert [one.task_id for one in leaves if not one.is_teardown], task.task_id


@pytest.mark.parametrize("dag_id", DAGS)
def test_nothing_is_released_or_reported_while_a_batch_still_runs(dagbag: Any, dag_id: str) -> None:
    dag = dagbag.dags[dag_id]
    ends = {task.task_id for task in dag.tasks if task.is_teardown or issubclass(of(task), OutcomeOperator)}

    for task in (one for one in dag.tasks if one.is_mapped):
        assert ends <= task.downstream_task_ids, task.task_id  # a task between them fails before the last has ended


@pytest.mark.parametrize("dag_id", DAGS)
def test_a_release_that_fails_fails_the_run(dagbag: Any, dag_id: str) -> None:
    assert all(task.on_failure_fail_dagrun for task in dagbag.dags[dag_id].tasks if task.is_teardown)


def stub(dag: Any, monkeypatch: pytest.MonkeyPatch, works: Callable[[Any], Any]) -> None:
    """In place of all that a task does: `works`, which is given the task's id."""
    for operator in {of(task) for task in dag.tasks}:
        if issubclass(operator, OutcomeOperator):
            monkeypatch.setattr(operator, "details", lambda *_: {})
            monkeypatch.setattr(operator, "operations", lambda *_: ())
        elif issubclass(operator, SwitchyardOperator):
            monkeypatch.setattr(operator, "work", lambda self: works(self.task_id))
        elif issubclass(operator, SparkJobOperator):
            monkeypatch.setattr(operator, "execute", lambda self, context: works(self.task_id))


def answer(task_id: str) -> Any:
    return [{"number": 1}] if task_id in {"batches", "parts"} else {}


def noting(begun: list[str]) -> Callable[[str], Any]:
    """Tasks that do nothing, and which of them were begun."""

    def works(task_id: str) -> Any:
        begun.append(task_id)
        return answer(task_id)

    return works


@pytest.mark.airflow
@pytest.mark.parametrize("dag_id", DAGS)
def test_a_failed_task_fails_its_run_and_is_named_in_the_result(
    run_alone: Run, dagbag: Any, dag_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, form = CHANGING[dag_id]

    def works(task_id: str) -> Any:
        if task_id == failing:
            raise unchanged("It was planted.")
        return answer(task_id)

    stub(dagbag.dags[dag_id], monkeypatch, works)

    outcome = run_alone(dag_id, form)

    assert outcome.tasks[failing] == "failed"
    assert outcome.state == "failed"
    if "report" in outcome.tasks:
        assert outcome.results["report"]["outcome"] == "REFUSED: nothing changed. It was planted."
        assert outcome.shown["report"] == f"REFUSED: nothing changed. It was planted. Next: {MENDED}"


@pytest.mark.airflow
def test_the_page_of_a_run_shows_its_result_as_far_as_there_is_room(
    run_alone: Run, dagbag: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def works(_task_id: str) -> Any:
        raise unchanged("many words " * 100)

    stub(dagbag.dags["mask_cluster"], monkeypatch, works)

    outcome = run_alone("mask_cluster", CHANGING["mask_cluster"][1])

    shown = outcome.shown["report"]
    assert shown is not None
    assert shown.startswith("REFUSED: nothing changed. many words")
    assert shown.endswith(f"many words… Next: {MENDED}") or shown.endswith(f"many… Next: {MENDED}")
    assert 240 < len(shown) <= 250  # more would not fit Airflow's column, and the task could not end


@pytest.mark.airflow
def test_a_release_that_fails_for_good_reports_a_possible_fence_and_the_remedy(
    run_alone: Run, dagbag: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def works(task_id: str) -> Any:
        if task_id == "release":
            raise RefusedError("ZooKeeper is away.")
        return answer(task_id)

    stub(dagbag.dags["switch"], monkeypatch, works)

    outcome = run_alone("switch", CHANGING["switch"][1])

    assert outcome.state == "failed"
    (alarm,) = (record for record in caplog.records if record.levelname == "CRITICAL")
    assert "A FENCE MAY STILL STAND" in alarm.getMessage()
    assert outcome.run_id in alarm.getMessage()
    assert "ZooKeeper is away." in alarm.getMessage()
    assert "switchyard resume" in alarm.getMessage()


@pytest.mark.airflow
@pytest.mark.parametrize("dag_id", [dag_id for dag_id in DAGS if "dry_run" in CHANGING[dag_id][1]])
def test_a_key_that_the_form_lacks_is_refused_before_anything_is_done(
    run_alone: Run, dagbag: Any, dag_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    stub(dagbag.dags[dag_id], monkeypatch, noting(begun))
    form = {**CHANGING[dag_id][1]}
    del form["dry_run"]

    outcome = run_alone(dag_id, {**form, "dryrun": False})

    assert outcome.state == "failed"
    assert set(begun) <= {"release"}
    said = outcome.results["report"]["outcome"]
    assert said.startswith("REFUSED: nothing changed. The form of this DAG has no field 'dryrun' (is 'dry_run' meant?)")


@pytest.mark.airflow
@pytest.mark.parametrize("dag_id", ["switch", "migrate_from_fault", "migrate_topics", "give_up_cluster"])
def test_a_rejected_run_starts_nothing_and_names_who_rejected_it(
    run_alone: Run, dagbag: Any, dag_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    no = {"chosen_options": ["Reject"], "params_input": {}, "responded_by_user": {"id": "2", "name": "bob"}}
    stub(dagbag.dags[dag_id], monkeypatch, noting(begun))
    monkeypatch.setattr("ha_core.operators.dags.ApproveOperator.execute", lambda self, context: no)

    outcome = run_alone(dag_id, {**CHANGING[dag_id][1], "approval": "anybody"})

    assert set(begun) <= {"plan", "release"}
    assert outcome.results["report"]["outcome"] == "REJECTED by bob: nothing changed"
    assert outcome.state == "success"
