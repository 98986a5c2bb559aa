"""Users of a form read its labels, not the options of a command."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags import airflow_home

assert airflow_home  # before anything of airflow: the package below imports it

from airflow.sdk.definitions.param import Param, ParamsDict  # noqa: E402

from ha_core.operations.engine.errors import unchanged  # noqa: E402
from ha_core.operators import forms  # noqa: E402
from ha_core.operators.base import SwitchyardOperator  # noqa: E402
from ha_core.operators.forms import RefusedRequestError  # noqa: E402
from ha_core.operators.labels import in_labels, labels_of, page_in_labels  # noqa: E402
from ha_core.operators.outcome import TOLD  # noqa: E402
from ha_core.present.page import Marked, Page, Table  # noqa: E402

PARAMS = ParamsDict(
    {
        "unread": forms.unread(required=False),
        "reason": forms.reason(),
        "drain_timeout_s": forms.drain_timeout_s("."),
        "added": Param("by a configuration"),
    }
)
LABELS = labels_of(PARAMS)


class Refused(SwitchyardOperator):
    """An operator that is refused."""

    def work(self) -> Any:
        raise unchanged("Say --unread wait.")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("Say --unread wait or --unread skip.", 'Say "Forced: unread records" wait or "Forced: unread records" skip.'),
        ("Say --reason.", 'Say "Reason".'),
        ("Give --drain-timeout longer than they take.", 'Give "Drain timeout, seconds" longer than they take.'),
        ("--reason: too short", '"Reason": too short'),
    ],
)
def test_an_option_is_replaced_by_the_label_of_its_field(told: str, said: str) -> None:
    assert in_labels(told, LABELS) == said


@pytest.mark.parametrize(
    "told",
    [
        "`switchyard mirror link TOPIC… --reason …`",  # to be typed
        "say --finish-with-barrier",  # no field of this form
        "say --added",  # a field without a title
        "user a--reason",
        "the option --reason-why",
    ],
)
def test_text_without_options_of_the_form_is_unchanged(told: str) -> None:
    assert in_labels(told, LABELS) == told


def test_a_page_keeps_its_marks_and_numbers() -> None:
    page: Page = [Marked("Say --reason.", "bad"), Table(("n", "remedy"), [(3, Marked("--reason", "error"))])]

    text, table = page_in_labels(page, LABELS)

    assert isinstance(text, Marked)
    assert (text, text.mark) == ('Say "Reason".', "bad")
    assert isinstance(table, Table)
    number, remedy = table.rows[0]
    assert number == 3
    assert isinstance(remedy, Marked)
    assert (remedy, remedy.mark) == ('"Reason"', "error")


@pytest.mark.parametrize(("changed", "shown"), [(False, "Nothing was changed. Ask again."), (None, "Ask again.")])
def test_a_refused_request_says_that_nothing_was_changed_only_if_so(changed: bool | None, shown: str) -> None:
    error = RefusedRequestError("Ask again.", changed)
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == shown


def test_a_refused_run_has_labels_in_its_outcome_and_its_log() -> None:
    pushed: dict[str, Any] = {}
    dag = SimpleNamespace(task_ids=[], params=PARAMS)
    context = {
        "params": {},
        "dag": dag,
        "task": SimpleNamespace(dag=dag, task_id="plan"),
        "dag_run": SimpleNamespace(conf={}),
        "ti": SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value})),
    }

    with pytest.raises(RefusedRequestError, match=r'^Nothing was changed\. Say "Forced: unread records" wait'):
        Refused(task_id="plan", dry_run=False).execute(context)

    assert pushed[TOLD]["text"] == 'Say "Forced: unread records" wait.'
