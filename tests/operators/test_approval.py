"""Users who may approve a run."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from tests.dags import airflow_home

assert airflow_home  # before anything of airflow: the package below imports it

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator  # noqa: E402
from airflow.sdk.exceptions import AirflowSkipException  # noqa: E402

from ha_core.hooks.zookeeper import SwitchyardHook  # noqa: E402
from ha_core.operations.engine.environment import Environment  # noqa: E402
from ha_core.operators import four_eyes as four_eyes_setting  # noqa: E402
from ha_core.operators.dags import ApproveOperator  # noqa: E402
from ha_core.operators.forms import RefusedRequestError, approval  # noqa: E402
from ha_core.store.errors import StoreUnavailableError  # noqa: E402
from stack.memory_store import MemoryStore  # noqa: E402


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Outcomes of the question."""
    seen: list[str] = []
    monkeypatch.setattr(ApprovalOperator, "execute", lambda *_: seen.append("asked again"))
    monkeypatch.setattr(HITLOperator, "execute_complete", lambda *_: seen.append("taken"))
    return seen


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """The store behind the task's connection."""
    memory_store = MemoryStore()
    monkeypatch.setattr(SwitchyardHook, "get_conn", lambda _self, by: nullcontext(Environment(memory_store, by=by)))
    return memory_store


def context(approval: str = "anybody") -> dict[str, Any]:
    task = SimpleNamespace(dag=SimpleNamespace(task_ids=["approve"]), task_id="approve")
    return {
        "params": {"approval": approval, "reason": "drill"},
        "task": task,
        "dag_run": SimpleNamespace(triggering_user_name="alice", dag_id="switch", run_id="manual__1"),
    }


def question(approval: str = "anybody", dry_run: bool = False) -> ApproveOperator:
    return ApproveOperator(task_id="approve", approval=approval, dry_run=dry_run, subject="Move them?")


def respond(approval: str, who: str, chosen: str) -> None:
    event = {"chosen_options": [chosen], "responded_by_user": {"id": "1", "name": who}, "params_input": {}}
    question(approval).execute_complete(context(approval), event)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("approval", "who", "chosen", "becomes"),
    [
        ("somebody else", "alice", "Approve", "asked again"),
        ("somebody else", "alice", "Reject", "taken"),
        ("somebody else", "bob", "Approve", "taken"),
        ("anybody", "alice", "Approve", "taken"),
    ],
)
def test_the_user_who_triggered_a_run_cannot_approve_it_when_another_user_must(
    asked: list[str], approval: str, who: str, chosen: str, becomes: str
) -> None:
    respond(approval, who, chosen)

    assert asked == [becomes]


@pytest.mark.usefixtures("asked", "store")
@pytest.mark.parametrize(("approval", "names_asker"), [("somebody else", True), ("anybody", False)])
def test_a_question_says_whose_approval_does_not_count(approval: str, names_asker: bool) -> None:
    """Airflow shows the same page again after an approval that does not count, without a word about the answer."""
    asking = question(approval)
    asking.body = "topic orders moves"

    asking.execute(context(approval))

    begins = "**alice asked for this run, so another user has to approve it.**\n\n" if names_asker else ""
    assert asking.body == f"{begins}topic orders moves"


@pytest.mark.usefixtures("asked")
def test_a_run_is_recorded_as_waiting_from_its_question_to_the_answer(store: MemoryStore) -> None:
    question().execute(context())

    (waiting,) = store.waiting_approvals()
    assert (waiting.run, waiting.by, waiting.reason) == ("airflow:switch/manual__1", "alice", "drill")

    respond("anybody", "bob", "Approve")

    assert store.waiting_approvals() == []


@pytest.mark.usefixtures("asked")
def test_a_run_keeps_waiting_after_an_answer_that_does_not_count(store: MemoryStore) -> None:
    question("somebody else").execute(context("somebody else"))

    respond("somebody else", "alice", "Approve")

    assert [approval.run for approval in store.waiting_approvals()] == ["airflow:switch/manual__1"]


@pytest.mark.parametrize(("approval", "dry_run"), [("nobody", False), ("anybody", True)])
def test_a_run_without_a_question_is_not_recorded_as_waiting(
    store: MemoryStore, asked: list[str], approval: str, dry_run: bool
) -> None:
    with pytest.raises(AirflowSkipException):
        question(approval, dry_run).execute(context(approval))

    assert (store.waiting_approvals(), asked) == ([], [])


def test_approval_is_asked_for_while_zookeeper_is_away(monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
    def away(_self: SwitchyardHook, _by: str) -> Environment:
        raise StoreUnavailableError("no ZooKeeper answers")

    monkeypatch.setattr(SwitchyardHook, "get_conn", away)

    question().execute(context())
    respond("anybody", "bob", "Reject")

    assert asked == ["asked again", "taken"]


@pytest.fixture
def four_eyes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SWITCHYARD__FOUR_EYES", "True")


@pytest.mark.usefixtures("four_eyes")
def test_with_four_eyes_an_approval_by_the_user_who_asked_is_refused_whatever_the_form_has(
    store: MemoryStore, asked: list[str]
) -> None:
    question("nobody").execute(context("nobody"))
    assert asked == ["asked again"]

    with pytest.raises(RefusedRequestError, match=r"alice asked for this run and approved it\. .*another user has to"):
        respond("nobody", "alice", "Approve")

    assert (asked, store.waiting_approvals()) == (["asked again"], [])


@pytest.mark.usefixtures("four_eyes", "store")
@pytest.mark.parametrize(("who", "chosen"), [("bob", "Approve"), ("alice", "Reject")])
def test_with_four_eyes_another_user_approves_and_any_user_rejects(asked: list[str], who: str, chosen: str) -> None:
    respond("nobody", who, chosen)

    assert asked == ["taken"]


@pytest.mark.usefixtures("four_eyes", "store")
def test_with_four_eyes_a_dry_run_asks_no_user() -> None:
    with pytest.raises(AirflowSkipException):
        question("somebody else", dry_run=True).execute(context())


@pytest.mark.usefixtures("four_eyes")
def test_with_four_eyes_the_form_has_no_other_choice() -> None:
    schema = approval().schema

    assert schema["enum"] == ["somebody else"]


def answer_by(who: str, chosen: str = "Approve") -> dict[str, Any]:
    return {"chosen_options": [chosen], "responded_by_user": {"id": who, "name": who}}


@pytest.mark.usefixtures("four_eyes")
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "no user has approved this run"),  # marked as a success by hand, or skipped under an earlier setting
        (answer_by("alice"), "alice asked for this run and approved it"),
        (answer_by(""), "The approver of this run is not known"),
        (answer_by("bob"), ""),
    ],
)
def test_with_four_eyes_each_task_behind_the_question_looks_at_the_answer(
    answer: dict[str, Any] | None, words: str
) -> None:
    asking = SimpleNamespace(task_id="approve")
    task = SimpleNamespace(
        dag=SimpleNamespace(task_ids=["approve", "acquire"]),
        task_id="acquire",
        get_flat_relatives=lambda upstream: [asking] if upstream else [],
    )
    run = {**context(), "task": task, "ti": SimpleNamespace(xcom_pull=lambda task_ids: answer)}

    objection = four_eyes_setting.objection(run)

    assert words in objection
    assert bool(objection) == bool(words)


def test_a_setting_of_four_eyes_that_is_no_boolean_stops_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SWITCHYARD__FOUR_EYES", "si")

    with pytest.raises(Exception, match="four_eyes"):
        four_eyes_setting.required()
