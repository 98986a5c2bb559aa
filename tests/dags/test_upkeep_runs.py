"""Runs of the DAGs for dead clusters and for the remains of migrations, against real clusters and a gateway."""

import pytest
from confluent_kafka.admin import AdminClient

from tests.dags.conftest import PARTITIONS, RECORDS, Run, Workload
from tests.operations.real_clusters import at, expire

pytestmark = [pytest.mark.stack, pytest.mark.airflow]
FROM_FAULT = {"from": "east", "to": "west", "unread": "wait", "reason": "a test", "dry_run": False}


def test_a_cluster_that_answers_is_given_up_only_by_force_and_is_confirmed_at_once(
    run_dag: Run, workload: Workload
) -> None:
    refused = run_dag("migrate_from_fault", {**FROM_FAULT, "topics": [workload.topic]})
    forced = run_dag("migrate_from_fault", {**FROM_FAULT, "topics": [workload.topic], "force": True})
    extents = workload.view.topics[workload.topic].partitions[0]
    checked = run_dag("check_origins", {"topics": [workload.topic]})
    again = run_dag("check_origins", {"topics": [workload.topic]})

    assert refused.tasks["plan"] == "failed"
    assert {forced.tasks[name] for name in ("plan", "prepare", "cut_over", "verify", "record", "report")} == {"success"}
    assert extents[0].known_end == RECORDS
    assert extents[1].start > RECORDS
    assert checked.tasks["check"] == "success"
    assert [one["outcome"] for one in checked.results["check"]["returned"]] == ["whole"] * PARTITIONS
    assert workload.view.topics[workload.topic].partitions[0][0].end == RECORDS
    assert again.tasks["check"] == "skipped"
    assert workload.environment.store.locks() == []


def test_a_dry_run_of_giving_up_a_cluster_has_the_loss_in_its_result(run_dag: Run, workload: Workload) -> None:
    run_dag("migrate_from_fault", {**FROM_FAULT, "topics": [workload.topic], "force": True, "groups": False})
    form = {"cluster": "east", "topics": [workload.topic], "reason": "a test", "force": True}
    before = workload.view

    counted = run_dag("give_up_cluster", form)
    unchanged = workload.view
    done = run_dag("give_up_cluster", {**form, "dry_run": False})

    assert {counted.tasks[name] for name in ("plan", "give_up", "release")} == {"success"}
    plan = counted.results["give_up"]
    assert (plan["result"], plan["known_lost"]) == ("planned", RECORDS * PARTITIONS)
    assert {group["group"] for group in plan["groups"]} == {workload.group}
    assert unchanged == before
    assert done.results["give_up"]["result"] == "succeeded"
    extents = workload.view.topics[workload.topic].partitions
    assert [extent.cluster for several in extents.values() for extent in several] == ["west"] * PARTITIONS
    assert workload.environment.store.locks() == []


def test_reasons_against_aging_are_in_the_result_and_the_origin_is_deleted_on_request(
    run_dag: Run, workload: Workload
) -> None:
    view = workload.view
    route = {"from": "east", "to": "west", "reason": "a test", "include_other_users": True, "dry_run": False}
    run_dag("switch", {**route, "scope": [f"topic:{workload.topic}"]})
    kept = run_dag("age_migrations", {"topics": [workload.topic]})
    expire(workload.environment, "east", workload.topic, RECORDS, partitions=PARTITIONS)
    admin = AdminClient(at(workload.environment, "east"))
    admin.delete_consumer_groups([workload.group])[workload.group].result(30)
    aged = run_dag("age_migrations", {"topics": [workload.topic], "delete_origin": True})

    reasons = [[block["reason"] for block in extent["blocks"]] for extent in kept.results["age"]["extents"]]
    assert reasons == [["held", "dead"]] * PARTITIONS
    assert kept.tasks == {"age": "success", "release": "success", "report": "success"}
    assert aged.results["age"]["deleted"] == {"east": [workload.topic]}
    assert workload.environment.clusters_with(workload.topic, view) == ["west"]
    assert workload.environment.store.locks() == []
