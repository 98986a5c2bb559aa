"""Behaviour of all operators: bounded results, timeouts, and keys that a form does not have."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags import airflow_home

assert airflow_home  # before anything of airflow: the package below imports it

from airflow.sdk.exceptions import AirflowTaskTerminated, AirflowTaskTimeout  # noqa: E402

from ha_core.operators.base import SwitchyardOperator, bounded  # noqa: E402
from ha_core.operators.forms import RefusedRequestError  # noqa: E402


class Working(SwitchyardOperator):
    """Does what it is told."""

    def __init__(self, *, does: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.does = does

    def work(self) -> Any:
        return self.does()


def context(**conf: Any) -> dict[str, Any]:
    dag = SimpleNamespace(task_ids=[], params={})
    return {
        "params": {},
        "dag": dag,
        "task": SimpleNamespace(dag=dag, task_id="work"),
        "dag_run": SimpleNamespace(conf=conf),
        "ti": SimpleNamespace(xcom_push=lambda **_: None),
    }


def test_a_long_list_in_a_result_is_cut_and_the_rest_is_counted() -> None:
    result = bounded({"topics": ["a", "b", "c"], "moves": {"reasons": {"x": 1, "y": 2, "z": 3}}, "n": 3}, max_items=2)

    assert result == {
        "topics": ["a", "b"],
        "moves": {"reasons": {"x": 1, "y": 2}, "left_out": {"reasons": 1}},
        "n": 3,
        "left_out": {"topics": 1},
    }


@pytest.mark.parametrize(
    ("rendered", "meant"), [(True, True), ("True", True), ("yes", True), ("0", False), (None, False)]
)
def test_a_boolean_may_be_rendered_as_text(rendered: Any, meant: bool) -> None:
    task = Working(task_id="work", dry_run=rendered)

    task.read_arguments()

    assert task.dry_run is meant


def test_a_boolean_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(RefusedRequestError, match="'Ture' is neither true nor false"):
        Working(task_id="work", dry_run="Ture").execute(context())


def test_the_docstring_of_an_operator_documents_its_task() -> None:
    assert Working(task_id="work").doc_md == "Does what it is told."


def test_a_killed_task_stops_at_once() -> None:
    with pytest.raises(AirflowTaskTerminated):
        Working(task_id="work").on_kill()


def test_a_task_that_timed_out_keeps_its_retries() -> None:
    def hangs() -> None:
        raise AirflowTaskTimeout("too long")

    task = Working(task_id="work", dry_run=False, does=hangs)
    with pytest.raises(AirflowTaskTimeout):
        task.execute(context())

    task.on_kill()  # Airflow calls it then, and would take an exception for an end without retries


def test_only_a_dag_with_a_strict_form_refuses_other_keys() -> None:
    assert Working(task_id="work", dry_run=False, does=lambda: 7).execute(context(team="payments")) == 7
    with pytest.raises(RefusedRequestError, match="no field 'team'"):
        Working(task_id="work", dry_run=False, does=lambda: 7, strict_form=True).execute(context(team="payments"))
