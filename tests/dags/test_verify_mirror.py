"""The DAG `verify_mirror` on real clusters, with Spark on this machine."""

import pytest

from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.verifying import copies_of
from ha_core.model import Mirror
from ha_core.store.commits import StateChange
from tests.dags.conftest import PARTITIONS, RECORDS, Run, Workload
from tests.kafka.mirroring import copying
from tests.kit.waiting import until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.airflow,
    pytest.mark.long(
        "dags/verify_mirror.py", "spark_jobs/verify.py", "ha_core/kafka/verifying.py", "ha_core/mirror/comparing.py"
    ),
]


@pytest.mark.usefixtures("spark_at_hand")
def test_a_mirror_that_is_not_copied_fails_the_run_and_one_that_is_equal_does_not(
    run_dag: Run,
    workload: Workload,
) -> None:
    # Given a mirror of which nothing is copied
    clusters = workload.view.clusters
    east, west = workload.environment.admin(clusters["east"]), workload.environment.admin(clusters["west"])
    mirror = Mirror.of(workload.topic, "east", "west", "link", "2026-01-01T00:00:00Z", "test")
    west.create_topics([TopicSpec(workload.topic, PARTITIONS, 1)])
    ensure_copy_log(west, mirror.log, mirror.log_partitions)
    workload.environment.store.commit(
        StateChange(change_id="test:mirror", puts=(mirror,), expected={(Mirror, mirror.key): None})
    )
    form = {"topics": [workload.topic], "to": "west"}
    # When it is verified, then the run fails and names the first offset
    failed = run_dag("verify_mirror", form)
    assert (failed.state, failed.tasks["compare"], failed.tasks["verdict"]) == ("failed", "success", "failed")
    said = failed.results["report"]["outcome"]
    assert said.startswith(
        f"FAILED in verdict: {PARTITIONS} of {PARTITIONS} partitions differ, 0 could not be compared."
    )
    assert "partition 0, offset 0: nothing of it is copied yet" in said
    # When it is copied, then the run says how many records are equal
    with copying(east, west, copies_of(mirror, PARTITIONS)) as job:
        until(
            lambda: all(status.state == "copying" and status.has(RECORDS) for status in job.statuses().values()),
            job.statuses,
            timeout_s=40,
        )
    equal = run_dag("verify_mirror", {**form, "sample": 0.5, "seed": 7})
    assert equal.state == "success"
    # Small partitions are compared as a whole, whatever the share
    assert equal.results["report"]["outcome"] == (
        f"DONE: {PARTITIONS * RECORDS} records are equal in a sample (50.0%, seed 7) of {PARTITIONS} partitions"
    )
