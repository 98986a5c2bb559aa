"""The DAG `record_facts` on real clusters, with Spark on this machine."""

from pathlib import Path

import pytest

from ha_core.model import KnownTopic
from ha_core.operations.migration.crossing.cuts import from_summary
from ha_core.operators.spark import fresh_rates
from tests.dags.conftest import PARTITIONS, Run, Workload

pytestmark = [
    pytest.mark.stack,
    pytest.mark.airflow,
    pytest.mark.long("dags/record_facts.py", "spark_jobs/facts.py", "ha_core/operators/spark.py"),
]


def test_a_run_records_facts_and_its_log_has_the_table(
    spark_at_hand: Path,
    run_dag: Run,
    workload: Workload,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    outcome = run_dag("record_facts", {})

    assert outcome.state == "success"
    assert workload.environment.store.known(KnownTopic, "east")[workload.topic].partitions == PARTITIONS
    assert outcome.results["history"]["clusters"]["east"]["partitions"] >= PARTITIONS
    assert (spark_at_hand / "ends").is_dir()
    said = caplog.text + "".join(capfd.readouterr())
    assert "Recorded facts" in said
    # and how fast logs grow, for migrations that are planned within the hour
    assert "Suggested cuts" in said
    assert outcome.results["rates"]["clusters"]["east"]["partitions"] >= PARTITIONS
    assert fresh_rates() == spark_at_hand / "rates.json"
    assert from_summary(spark_at_hand / "rates.json", "east").words.startswith("the recorded history")


def test_a_spark_master_that_does_not_listen_is_named_and_nothing_is_recorded(
    spark_at_hand: Path, run_dag: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_SWITCHYARD", '{"conn_type": "spark", "host": "spark://127.0.0.1", "port": 1}'
    )

    outcome = run_dag("record_facts", {})

    assert outcome.tasks["history"] == "failed"
    assert outcome.tasks["look"] == "success"
    assert not spark_at_hand.exists()
