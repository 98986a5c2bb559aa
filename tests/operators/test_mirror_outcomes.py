"""First lines of runs that change mirrors."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.dags import airflow_home
from tests.kit.operations import a_switch

assert airflow_home  # before anything of airflow: the package below imports it

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException  # noqa: E402

from ha_core.model import MoveSet, SyncFinding  # noqa: E402
from ha_core.operations.absence import reconciling  # noqa: E402
from ha_core.operations.absence.reconciled import Reconciled  # noqa: E402
from ha_core.operations.copies.comparing import MirrorsCompared  # noqa: E402
from ha_core.operations.copies.syncing import passes  # noqa: E402
from ha_core.operations.copies.syncing.pair import Synced  # noqa: E402
from ha_core.operations.copies.syncing.passes import MirrorsSynced  # noqa: E402
from ha_core.operations.engine.errors import RefusedError  # noqa: E402
from ha_core.operations.mirror import linking, throttling, unlinking  # noqa: E402
from ha_core.operations.mirror.linking import LinkProposal  # noqa: E402
from ha_core.operations.mirror.patterns import are_patterns  # noqa: E402
from ha_core.operators.mirrors import (  # noqa: E402
    PlanMirrorOperator,
    ReconcileOperator,
    SyncMirrorsOperator,
    ThrottleMirrorOperator,
    UnlinkMirrorOperator,
)
from ha_core.operators.outcome import DRY_RUN, FAILED, NOTHING, TOLD, RunOutcome  # noqa: E402
from ha_core.operators.switch import ReportClusterSwitchOperator  # noqa: E402
from ha_core.plan.absence.reconciled import TailFound  # noqa: E402
from ha_core.plan.facts.verdict import info  # noqa: E402
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


def test_a_dry_run_promises_no_mirror_if_nothing_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Reconciled("east", "b:1", (COUNTED._replace(outcome="gone", records=None),))
    line = told(monkeypatch, gone, topics=[], mirror=True, accept_loss=False, dry_run=True)
    assert line == (
        "1 partition cannot be counted, or differs from its copy. The log has all of it. The first: orders-0: east "
        "does not have it any more: its lost tail from 20 on cannot be counted. To accept the loss: --accept-loss "
        "with the topic orders"
    )


def test_steps_not_requested_or_done_before_are_not_reported_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    reconciled = Reconciled("east", "b:1", (COUNTED,))
    dry = told(monkeypatch, reconciled, topics=[], mirror=False, accept_loss=False, dry_run=True)
    assert dry == "would keep that 5 records of 1 partition of east were not mirrored"
    would = Reconciled("east", "b:1", (COUNTED,), mirrored=("orders",), dry_run=True)
    dry = told(monkeypatch, would, topics=[], mirror=True, accept_loss=False, dry_run=True)
    assert dry == "would keep that 5 records of 1 partition of east were not mirrored, and mirror 1 topic to it"
    again = told(monkeypatch, reconciled, topics=[], mirror=True, accept_loss=False, dry_run=False)
    assert again == (
        "5 records of 1 partition of east were not mirrored: no client gets them, and the log has the commands that "
        "fetch them; no further topic is mirrored to it"
    )


def test_a_dry_run_gives_the_reason_for_a_topic_that_cannot_be_mirrored_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reconciled = Reconciled("east", "b:1", (COUNTED,), not_mirrored={"orders": "it has moved on since"}, dry_run=True)
    assert told(monkeypatch, reconciled, topics=[], mirror=True, accept_loss=False, dry_run=True) == (
        "would keep that 5 records of 1 partition of east were not mirrored. The log has all of it. The first: "
        "orders is not mirrored to east: it has moved on since"
    )


def test_a_failed_run_reports_its_problems_and_its_finished_part_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    differs = COUNTED._replace(topic="bills").differing(7, "another value")
    reconciled = Reconciled("east", "b:1", (COUNTED, differs), mirrored=("orders",))
    monkeypatch.setattr(ReconcileOperator, "push_result", lambda *_: None)
    with pytest.raises(AirflowFailException) as raised:
        told(monkeypatch, reconciled, topics=[], mirror=True, accept_loss=False, dry_run=False)
    assert str(raised.value).startswith(
        "Of east: 1 partition cannot be counted, or differs from its copy; mirrored to it from now on: 1 topic. The "
        "first: bills-0: below 20, its mirrored end, east has other records"
    )
    assert "another time" not in str(raised.value)


@pytest.mark.parametrize(
    ("operator", "asked", "line"),
    [
        (
            ThrottleMirrorOperator,
            {"max_bytes_s": "2048", "target": ""},
            "would have 1 mirror copied 2,048 bytes a second at most",
        ),
        (
            ThrottleMirrorOperator,
            {"max_bytes_s": "none", "target": ""},
            "would have 1 mirror copied as fast as it goes",
        ),
        (UnlinkMirrorOperator, {"target": "west", "delete_copy": False}, "would end 1 mirror in west"),
        (
            UnlinkMirrorOperator,
            {"target": "west", "delete_copy": True},
            "would end 1 mirror in west, and delete what was copied",
        ),
    ],
)
def test_a_dry_run_ends_with_its_preview(
    monkeypatch: pytest.MonkeyPatch, operator: type[Any], asked: dict[str, Any], line: str
) -> None:
    """And not with "nothing to do"."""
    monkeypatch.setattr(throttling, "to_throttle", lambda *_: ["orders@west"])
    monkeypatch.setattr(unlinking, "judged", lambda *_: None)
    monkeypatch.setattr(operator, "finish_own", lambda _: ())
    context, pushed = running(monkeypatch, operator)
    task = operator(task_id="work", topics=["orders"], reason="r", dry_run=True, **asked)
    with pytest.raises(AirflowSkipException):
        task.execute(context)
    assert (pushed[TOLD]["kind"], pushed[TOLD]["text"]) == (DRY_RUN, line)


def test_a_dry_run_of_an_existing_limit_would_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttling, "to_throttle", lambda *_: [])
    monkeypatch.setattr(ThrottleMirrorOperator, "finish_own", lambda _: ())
    context, pushed = running(monkeypatch, ThrottleMirrorOperator)
    asked: dict[str, Any] = {"topics": ["orders"], "target": "", "max_bytes_s": "2048", "reason": "r"}
    with pytest.raises(AirflowSkipException):
        ThrottleMirrorOperator(task_id="work", **asked, dry_run=True).execute(context)
    said = "nothing was changed: each is copied 2,048 bytes a second at most already"
    assert (pushed[TOLD]["kind"], pushed[TOLD]["text"]) == (NOTHING, said)


def test_the_command_that_fetches_a_lost_tail_has_a_place_for_the_login() -> None:
    plain = Reconciled("east", "b:1", (COUNTED,))
    login = Reconciled("east", "b:1", (COUNTED,), security="sasl")
    assert "--consumer.config" not in plain.fetch(COUNTED)
    assert "--bootstrap-server b:1 --consumer.config LOGIN.properties --topic orders" in login.fetch(COUNTED)
    assert any("security profile sasl" in str(line) for line in reconciled_page(login))


def test_a_topic_that_differs_is_not_reported_as_equal_to_its_copy() -> None:
    compared = SimpleNamespace(records=2234, ranges=(3, 3), differing={("bills", 0): (7, "another value")})
    reconciled = Reconciled("east", "b:1", (COUNTED,), compared={"orders": cast(MirrorsCompared, compared)})
    first, *_ = reconciled_page(reconciled)
    assert str(first).endswith("are as in its copy, and others are not")


def running(monkeypatch: pytest.MonkeyPatch, operator: type[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A context for a task of `operator` that opens no store, and the task's XComs."""
    pushed = dict[str, Any]()
    monkeypatch.setattr(operator, "environment", None, raising=False)
    dag = SimpleNamespace(task_ids=[], params={})
    context = {
        "params": {},
        "dag": dag,
        "task": SimpleNamespace(dag=dag, task_id="work"),
        "dag_run": SimpleNamespace(conf={}),
        "ti": SimpleNamespace(xcom_push=lambda key, value, **_: pushed.update({key: value})),
    }
    return context, pushed


GONE = SyncFinding(what="partitions", about="topic orders", reason="it does not exist in east.", stop=True)
LATER = SyncFinding(what="offsets", about="group tills", reason="it has members there.")


@pytest.mark.parametrize("dry_run", [True, False])
def test_findings_that_a_sync_leaves_to_operators_are_in_the_first_line_of_dry_runs_too(
    monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    syncs = MirrorsSynced((Synced("east", "west", "topics", "", 1, (), (LATER, GONE)),), dry_run)
    monkeypatch.setattr(passes, "sync_mirrors", lambda *_: syncs)
    context, pushed = running(monkeypatch, SyncMirrorsOperator)
    task = SyncMirrorsOperator(task_id="work", topics=[], target="", dry_run=dry_run)
    with nullcontext() if dry_run else pytest.raises(AirflowFailException):
        task.execute(context)
    left = "left to an operator: 1 thing. The first: topic orders, partitions: it does not exist in east."
    kind, begin = FAILED, "Not as in their sources, and "
    if dry_run:
        kind, begin = DRY_RUN, "would change 0 things on standbys; "
    assert (pushed[TOLD]["kind"], pushed[TOLD]["text"]) == (kind, f"{begin}{left}")
    if not dry_run:
        assert pushed["return_value"] == syncs.to_json()


def test_a_dry_run_of_a_link_has_its_verdicts_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    request = linking.link_request(["orders"], "east", "west", "r")
    said = (info("fewer-in-sync", "topic orders", "Its min.insync.replicas is lowered."),)
    proposal = LinkProposal(request=request, revision=1, moves=MoveSet(topics=("orders",)), verdicts=said)
    monkeypatch.setattr(linking, "plan_link", lambda *_: proposal)
    context, pushed = running(monkeypatch, PlanMirrorOperator)
    asked: dict[str, Any] = {"topics": ["orders"], "origin": "east", "target": "west", "reason": "r"}
    asked |= {"exclude": [], "settings_left_alone": [], "remove_revoked_rights": False}
    PlanMirrorOperator(task_id="work", **asked, max_bytes_s="none", dry_run=True).execute(context)
    assert (pushed[TOLD]["kind"], pushed[TOLD]["text"]) == (DRY_RUN, "would mirror 1 topic from east to west")
    assert pushed[TOLD]["objections"] == ["info: topic orders: Its min.insync.replicas is lowered."]


def test_a_pattern_among_names_is_refused_and_topics_are_left_out_of_patterns_only() -> None:
    with pytest.raises(RefusedError, match=r"orders-\* is kept for later topics too, payments is not"):
        are_patterns(["payments", "orders-*"])
    with pytest.raises(RefusedError, match=r"orders-\*: a link takes names of topics"):
        linking.link_request(["orders-*"], "east", "west", "r")
    task = PlanMirrorOperator(
        task_id="work", topics=["orders"], exclude=["x"], origin="east", target="west", reason="r"
    )
    with pytest.raises(RefusedError, match="left out of patterns only"):
        task.request()


@pytest.mark.parametrize(
    ("states", "line"),
    [
        (("succeeded", "undone"), "FAILED: 1 part is in west and stays there: 1 topic; in switch: 1 of 3 did not: why"),
        (("undone",), "FAILED in switch: 1 of 3 did not: why"),
    ],
)
def test_a_failed_cluster_switch_reports_the_parts_that_have_moved(
    monkeypatch: pytest.MonkeyPatch, states: tuple[str, ...], line: str
) -> None:
    parts = [a_switch(f"orders-{number}", id=f"switch-{number}", state=state) for number, state in enumerate(states)]
    monkeypatch.setattr(ReportClusterSwitchOperator, "ended", lambda _: parts)
    report = ReportClusterSwitchOperator(task_id="report")
    outcome = RunOutcome(FAILED, "1 of 3 did not: why", where="in switch", failed=True)
    run_outcome = report.judged(outcome)
    assert (run_outcome.line, run_outcome.failed) == (line, True)
    run_outcome = report.judged(replace(outcome, short="`do this`: why"))
    assert run_outcome.line == line
    assert run_outcome.short_line == line.replace("1 of 3 did not: why", "`do this`: why")
