"""Whole runs of the migration DAGs against real clusters and a gateway."""

from typing import Any
from unittest.mock import Mock

import pytest

from ha_core.operations.migration.crossing import cuts as choosing
from ha_core.operations.migration.listing import migrations
from tests.dags.conftest import PARTITIONS, RECORDS, Run, Workload, asset_events

pytestmark = [pytest.mark.stack, pytest.mark.airflow]


@pytest.fixture(autouse=True)
def one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "LOOKS_APART_S", 0.0)


def form(workload: Workload, **more: Any) -> dict[str, Any]:
    asked = {"topics": [f"{workload.topic}*"], "from": "east", "to": "west", "reason": "a test"}
    return {**asked, "cut": "predicted", "dry_run": False, **more}


def cuts(workload: Workload) -> list[int]:
    return [extents[-1].start for extents in workload.view.topics[workload.topic].partitions.values()]


def test_a_dry_run_shows_ends_rates_and_cuts_and_changes_nothing(run_dag: Run, workload: Workload) -> None:
    before = workload.view

    outcome = run_dag("migrate_topics", form(workload, dry_run=True))

    assert outcome.state == "success"
    assert {outcome.tasks[name] for name in ("batches", "migrate", "await_cuts")} == {"skipped"}
    assert workload.view == before
    proposal = outcome.results["report"]["proposal"]
    assert [(p["partition"], p["end"], p["cut"]) for p in proposal["partitions"]] == [
        (p, RECORDS, RECORDS + 1) for p in range(PARTITIONS)
    ]


def test_topics_migrate_with_cuts_ahead_and_idle_ones_are_ended_when_it_is_time(
    run_dag: Run, workload: Workload
) -> None:
    outcome = run_dag("migrate_topics", form(workload, finish_after_s=0.1))

    assert outcome.state == "success", outcome.tasks
    topic = workload.view.topics[workload.topic]
    assert (topic.writer, topic.crossing, topic.fence) == ("west", None, None)
    assert cuts(workload) == [RECORDS] * PARTITIONS
    (shown,) = outcome.results["report"]["migrations"]
    assert (shown["status"], shown["cut"]) == ("Migrated", "predicted")
    assert outcome.shown["migrate"] == f"batch 1: {workload.topic}"
    assert [uri for uri, _ in asset_events(outcome.run_id)] == [f"kafka://west/{workload.topic}"]
    assert workload.environment.store.locks() == []


def test_groups_follow_their_topics_where_that_is_asked_for(run_dag: Run, workload: Workload) -> None:
    outcome = run_dag("migrate_topics", form(workload, groups="move", finish_after_s=0.1))

    assert outcome.state == "success", outcome.tasks
    (operation,) = outcome.results["report"]["operations"]
    assert outcome.results["plan"]["dependents"][0]["group"] == workload.group
    assert outcome.results["report"]["groups"] == {operation: f"1 group has followed in operation {operation}-groups"}
    assert workload.view.groups[workload.group].cluster == "west"
    assert workload.environment.store.locks() == []


def test_groups_that_did_not_follow_fail_the_run_with_the_command_that_moves_them(
    run_dag: Run, workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ha_core.operations.move.switch_steps.cut_change", Mock(side_effect=RuntimeError("planted")))

    outcome = run_dag("migrate_topics", form(workload, groups="move", finish_after_s=0.1))

    assert outcome.state == "failed"
    # Whichever of the two is at it when the cuts are reached
    assert [outcome.tasks.get(name) for name in ("migrate", "await_cuts")].count("failed") == 1
    assert outcome.tasks["release"] == "success"
    view = workload.view
    assert view.topics[workload.topic].writer == "west"
    assert workload.group not in view.groups
    (migration,) = (
        topic_migration
        for topic_migration in migrations(workload.environment)
        if topic_migration.status.topic == workload.topic
    )
    assert f"switchyard switch 'user:{workload.user}##{workload.group}'" in migration.blocks[0]
    assert workload.environment.store.locks() == []


def test_topics_migrate_under_a_fence_on_request(run_dag: Run, workload: Workload) -> None:
    outcome = run_dag("migrate_topics", form(workload, cut="barrier"))

    assert outcome.state == "success", outcome.tasks
    assert [uri for uri, _ in asset_events(outcome.run_id)] == [f"kafka://west/{workload.topic}"]
    assert cuts(workload) == [RECORDS] * PARTITIONS
    assert workload.environment.store.locks() == []


def test_a_run_that_is_stopped_leaves_its_crossing_open_and_another_dag_takes_it_back(
    run_dag: Run, workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ha_core.operators.migration.AwaitCutsSensor.poke", Mock(side_effect=RuntimeError("stopped")))
    outcome = run_dag("migrate_topics", form(workload))

    assert outcome.state == "failed"
    assert outcome.tasks["release"] == "success"
    topic = workload.view.topics[workload.topic]
    assert topic.crossing is not None
    assert topic.crossing.state == "open"
    assert workload.environment.store.locks()
    settled = run_dag("settle_migrations", {})
    assert settled.tasks["settle"] == "success"
    rolled = run_dag("rollback_migration", {"operation": topic.crossing.operation, "dry_run": False})
    assert rolled.tasks == {"rollback": "success", "release": "success", "report": "success"}
    assert workload.topic not in workload.view.topics
    assert workload.environment.store.locks() == []
