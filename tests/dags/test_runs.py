"""Whole runs of the DAGs against real clusters and a gateway."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from ha_core.model import Group, UserBindings
from ha_core.operations.engine.environment import Environment
from ha_core.present.page import log_lines
from ha_core.present.page_document import page_of
from tests.dags import airflow_home
from tests.dags.conftest import PARTITIONS, RECORDS, Run, Workload, asset_events

pytestmark = [pytest.mark.stack, pytest.mark.airflow]
STEPS = ("acquire", "compare", "prepare", "adopt", "cut_over", "verify", "record")


def form(workload: Workload, **more: Any) -> dict[str, Any]:
    scope = [f"user:{workload.user}"]
    return {"scope": scope, "from": "east", "to": "west", "reason": "a test", "dry_run": False, **more}


def test_a_dry_run_lists_the_moves_and_changes_nothing(run_dag: Run, workload: Workload) -> None:
    before = workload.view

    outcome = run_dag("switch", form(workload, dry_run=True))

    assert outcome.state == "success"
    assert {outcome.tasks[name] for name in STEPS} == {"skipped"}
    assert workload.view == before
    report = outcome.results["report"]
    assert next(iter(report)) == "outcome"
    assert report["outcome"] == "DRY RUN: would move 1 topic and 1 group from east to west"
    # Brokers of Kafka 4 refuse records an hour ahead where a topic is silent, those of 3.9 take them
    (objection,) = report["objections"]
    assert objection.startswith("info: setting message.timestamp.after.max.ms: ")
    cost = "\n".join(report["cost"])
    assert f"created in the target: {workload.topic} with {PARTITIONS} partitions" in cost
    assert f"{workload.group} {PARTITIONS * RECORDS - 11} records" in cost
    assert "rate: " in cost
    assert "expected fence: " in cost
    assert report["result"] == "nothing was changed"
    assert report["next"] == ["Trigger ▸ Trigger again with this config, untick Dry run"]
    assert (outcome.shown["report"] or "").endswith("Next: Trigger ▸ Trigger again with this config, untick Dry run")
    page = [*log_lines(page_of(outcome.page("report")))]
    assert page[0] == report["outcome"]
    assert page[1].startswith("Asked for by dag_test at ")
    assert f"  moves group {workload.group}, because " in "\n".join(page)
    assert [line for line in page if line.startswith("expected fence: ")]
    assert page[-1] == "Next: Trigger ▸ Trigger again with this config, untick Dry run"
    reasons = outcome.results["report"]["proposal"]["moves"]["reasons"]
    assert set(reasons) == {f"topic:{workload.topic}", f"group:{workload.group}"}


def test_a_planned_switch_moves_a_user_with_its_topic_and_group(run_dag: Run, workload: Workload) -> None:
    outcome = run_dag("switch", form(workload))

    assert outcome.state == "success"
    assert {outcome.tasks[name] for name in (*STEPS, "report", "release")} == {"success"}
    assert outcome.tasks["approve"] == "skipped"
    view = workload.view
    assert view.bindings[workload.user].cluster == "west"
    assert view.topics[workload.topic].writer == "west"
    report = outcome.results["report"]
    assert report["result"] == "succeeded"
    assert [part["cut"] for part in report["partitions"]] == [RECORDS] * PARTITIONS
    assert {"fence", "drain", "ends", "offsets", "cut"} <= {step["name"] for step in report["steps"]}
    operation = workload.environment.operation(report["operation"])
    assert operation is not None
    assert operation.by == f"dag_test (airflow:switch/{outcome.run_id})"
    assert report["outcome"].startswith("DONE: moved 1 topic and 1 group from east to west")
    assert "clients waited" in report["outcome"]
    assert report["back"].startswith(f"switchyard switch user:{workload.user} --from west --to east")
    assert report["next"] == []
    events = asset_events(outcome.run_id)
    said = {"operation": report["operation"], "from": "east", "to": "west"}
    assert events == [(f"kafka://west/{workload.topic}", said)]
    assert workload.nothing_stands()


def test_a_switch_of_topics_that_have_moved_already_is_skipped(run_dag: Run, workload: Workload) -> None:
    run_dag("switch", form(workload))
    before = workload.view

    outcome = run_dag("switch", form(workload))

    assert outcome.tasks["plan"] == "skipped"
    assert outcome.state == "success"
    assert outcome.results["report"]["outcome"].startswith("NOTHING TO DO: Everything is in place already")
    assert workload.view == before


def test_an_objection_fails_the_run_before_anything_is_changed(run_dag: Run, workload: Workload) -> None:
    before = workload.view

    outcome = run_dag("switch", form(workload, scope=["topic:no-such-topic"]))

    assert outcome.state == "failed"
    assert outcome.tasks["plan"] == "failed"
    assert outcome.tasks["cut_over"] == "upstream_failed"
    assert outcome.results["report"]["outcome"].startswith("REFUSED: nothing changed.")
    assert workload.view == before
    assert any(v["level"] == "error" and "no-such-topic" in v["about"] for v in outcome.results["plan"]["verdicts"])


def test_a_switch_takes_its_locks_only_after_approval(run_dag: Run, workload: Workload) -> None:
    outcome = run_dag("switch", form(workload, approval="anybody"), mark_success_pattern="approve")

    assert outcome.tasks["approve"] == "success"
    assert outcome.state == "success"


def kill_a_run(workload: Workload, where: str, home: Path) -> datetime:
    """Run the switch in another process until it kills itself there; returns its run_after."""
    run_after = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    with closing(sqlite3.connect(airflow_home.DATABASE)) as made, closing(sqlite3.connect(home / "airflow.db")) as copy:
        made.backup(copy)  # to make another one takes many times as long
    killed = subprocess.run(
        [sys.executable, "-m", "tests.dags.killed_run", where, workload.user, run_after.isoformat()],
        env={**os.environ, "SWITCHYARD_TEST_AIRFLOW_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    return run_after


def test_a_run_killed_after_its_fence_is_undone_and_repeated_by_reruns(
    run_dag: Run, workload: Workload, tmp_path: Path, monkeypatch: Any
) -> None:
    run_after = kill_a_run(workload, "fenced", tmp_path)
    fenced = workload.view.topics[workload.topic].fence
    assert fenced is not None
    monkeypatch.setattr("airflow.models.dagrun.DagRun.generate_run_id", lambda **_: workload.user)

    rerun = run_dag("switch", form(workload), run_after=run_after, logical_date=run_after)
    left_clean = workload.nothing_stands()
    # Seen to be dead when the rerun begins, the operation is undone before it; else by its first step, which fails
    repeated = rerun
    if rerun.state != "success":
        repeated = run_dag("switch", form(workload), run_after=run_after, logical_date=run_after)

    assert left_clean
    assert repeated.state == "success"
    assert repeated.results["report"]["operation"] == f"{fenced.operation}.2"
    assert workload.view.topics[workload.topic].writer == "west"
    assert workload.nothing_stands()


def test_a_run_killed_after_its_cut_is_finished_by_a_rerun(
    run_dag: Run, workload: Workload, tmp_path: Path, monkeypatch: Any
) -> None:
    run_after = kill_a_run(workload, "cut", tmp_path)
    cut = workload.view
    assert cut.topics[workload.topic].writer == "west"
    monkeypatch.setattr("airflow.models.dagrun.DagRun.generate_run_id", lambda **_: workload.user)

    outcome = run_dag("switch", form(workload), run_after=run_after, logical_date=run_after)

    assert outcome.state == "success"
    assert workload.view.topics == cut.topics
    assert outcome.results["report"]["result"] == "succeeded"
    assert workload.nothing_stands()


def test_a_step_that_fails_leaves_neither_fence_nor_lock_nor_topic(
    run_dag: Run, workload: Workload, monkeypatch: Any
) -> None:
    from ha_core.operations.move.fenced_reads import FencedReads

    monkeypatch.setattr(FencedReads, "read", Mock(side_effect=ConnectionError("the line was cut")))

    outcome = run_dag("switch", form(workload))

    assert outcome.state == "failed"
    assert outcome.tasks["cut_over"] == "failed"
    assert outcome.tasks["release"] == "success"
    assert "FAILED in cut_over: the line was cut" in outcome.results["report"]["outcome"]
    assert workload.nothing_stands()
    view = workload.view
    assert workload.user not in view.bindings
    assert workload.environment.clusters_with(workload.topic, view) == ["east"]


@pytest.mark.usefixtures("workload")
def test_a_cluster_is_masked_once_and_unmasked_once(run_dag: Run, environment: Environment) -> None:
    refused = run_dag("mask_cluster", {"cluster": "east", "reason": "maintenance", "dry_run": False})
    would_be = run_dag("mask_cluster", {"cluster": "east", "reason": "maintenance"})
    looked = run_dag("mask_cluster", {"cluster": "west", "reason": "maintenance", "force": True})
    untouched = environment.store.load().clusters["west"].masked
    masked = run_dag("mask_cluster", {"cluster": "west", "reason": "maintenance", "force": True, "dry_run": False})
    again = run_dag("mask_cluster", {"cluster": "west", "reason": "maintenance", "dry_run": False})
    in_vain = run_dag("mask_cluster", {"cluster": "west", "reason": "maintenance"})
    seen = environment.store.load().clusters["west"].masked
    unmasked = run_dag("unmask_cluster", {"cluster": "west", "dry_run": False})

    for outcome in (refused, would_be):
        assert outcome.tasks["mask"] == "upstream_failed"
        assert outcome.state == "failed"
        assert outcome.results["report"]["outcome"].startswith("REFUSED: nothing changed. ")
        assert "written in east and nowhere else" in outcome.results["report"]["outcome"]
    assert in_vain.results["report"]["outcome"].startswith("NOTHING TO DO: Cluster west is masked already, since ")
    assert looked.tasks == {"look": "success", "mask": "skipped", "release": "success", "report": "success"}
    assert looked.results["report"]["outcome"] == "DRY RUN: would mask west"
    assert untouched is None
    assert masked.tasks == {"look": "success", "mask": "success", "release": "success", "report": "success"}
    assert masked.results["report"]["outcome"] == "DONE: Cluster west is masked."
    assert again.tasks["mask"] == "skipped"
    assert seen is not None
    assert seen.reason == "maintenance"
    assert unmasked.tasks["unmask"] == "success"
    assert environment.store.load().clusters["west"].masked is None
    assert not environment.store.locks()


def test_declared_bindings_are_applied_once(run_dag: Run, environment: Environment) -> None:
    declaration = "bindings: {declared-user: {cluster: west, groups: {readers: east}}}"

    shown = run_dag("refresh_bindings", {"declaration": declaration})
    untouched = environment.store.read(UserBindings, "declared-user")
    made = run_dag("refresh_bindings", {"declaration": declaration, "dry_run": False})
    again = run_dag("refresh_bindings", {"declaration": declaration, "dry_run": False})

    assert shown.tasks == {
        "difference": "success",
        "apply": "skipped",
        "release": "success",
        "report": "success",
    }
    assert untouched is None
    assert made.tasks == {
        "difference": "success",
        "apply": "success",
        "release": "success",
        "report": "success",
    }
    assert environment.store.load().bindings["declared-user"].groups == {"readers": "east"}
    assert again.tasks["difference"] == "skipped"
    assert environment.store.read(Group, "readers") is None


def test_the_connection_to_zookeeper_can_be_tested(airflow_connection: str, monkeypatch: Any) -> None:
    from ha_core.hooks.zookeeper import SwitchyardHook

    works, words = SwitchyardHook().test_connection()

    assert works
    assert "clusters: 2, live gateways: 1" in words
