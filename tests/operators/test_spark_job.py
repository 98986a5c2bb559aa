"""A Spark job as a task: arguments of spark-submit, and results."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ha_core.kafka.security import NO_SECURITY, load_profiles
from ha_core.model import Cluster
from ha_core.store.commits import StateChange
from ha_core.wire.sasl import SecurityProfile
from stack.memory_store import MemoryStore
from tests.dags import airflow_home

assert airflow_home  # before anything of airflow

ACCOUNT = SecurityProfile("PLAIN", "switchyard", "it's: a #secret")


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Arguments of spark-submit, which is replaced by a stub that writes a summary."""
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    from ha_core.hooks.zookeeper import SwitchyardHook

    seen: dict[str, Any] = {}

    def submit(operator: Any, _context: Any) -> None:
        seen["arguments"] = operator.application_args
        file = Path(operator.env_vars["SWITCHYARD_SECURITY_FILE"])
        seen["file"], seen["mode"], seen["profiles"] = file, file.stat().st_mode & 0o777, load_profiles(file)
        summary = operator.application_args[operator.application_args.index("--summary") + 1]
        Path(summary).write_text('{"job": "facts"}')

    store = MemoryStore()
    clusters = (
        Cluster(name="east", bootstrap="east:9092", security="sasl"),
        Cluster(name="west", bootstrap="west:9092"),
        Cluster(name="lost", bootstrap="lost:9092", security="unknown"),
    )
    store.commit(
        StateChange(change_id="seed", puts=clusters, expected={(Cluster, cluster.name): None for cluster in clusters})
    )

    @contextmanager
    def environment(_hook: Any, _by: str) -> Iterator[Any]:
        yield SimpleNamespace(store=store.client(), profiles={"none": NO_SECURITY, "sasl": ACCOUNT})

    monkeypatch.setattr(SparkSubmitOperator, "execute", submit)
    monkeypatch.setattr(SwitchyardHook, "get_conn", environment)
    connection = {"conn_type": "switchyard_zookeeper", "host": "zk-1,zk-2:2182", "extra": {"root": "/here"}}
    monkeypatch.setenv("AIRFLOW_CONN_SWITCHYARD_ZOOKEEPER", json.dumps(connection))
    monkeypatch.setenv("SWITCHYARD_HISTORY", str(tmp_path))
    return seen


def test_a_job_gets_the_state_and_the_accounts_of_its_clusters_and_its_summary_is_the_result(
    submitted: dict[str, Any], tmp_path: Path
) -> None:
    from ha_core.operators.spark import SparkJobOperator

    task = SparkJobOperator(task_id="history", job="facts", arguments=["--keep-days", "7"])

    run = SimpleNamespace(dag_id="record_facts", run_id="run", conf=None)
    result = task.execute({"dag_run": run, "dag": SimpleNamespace(params={})})

    assert result == {"job": "facts"}
    given = submitted["arguments"]
    assert given[:5] == ["facts", "--zookeeper", "zk-1:2181,zk-2:2182", "--root", "/here"]
    assert given[given.index("--history") + 1] == str(tmp_path)
    assert given[-2:] == ["--keep-days", "7"]
    # The account's file is private, complete, and gone
    assert submitted["profiles"] == {"none": NO_SECURITY, "sasl": ACCOUNT}
    assert submitted["mode"] == 0o600
    assert not submitted["file"].exists()
    assert "secret" not in " ".join(given)


@pytest.mark.parametrize(
    ("summary", "kind", "text"),
    [
        ('{"refused": "Topic bill has no mirror."}', "REFUSED", "Topic bill has no mirror."),
        ('{"failed_because": "zk:2181 is out of reach."}', "FAILED", "zk:2181 is out of reach."),
        (None, "FAILED", "Cannot execute: spark-submit. Error code is: 1."),
    ],
)
def test_the_report_of_a_run_has_the_jobs_own_error_if_there_is_one(
    submitted: dict[str, Any], monkeypatch: pytest.MonkeyPatch, summary: str | None, kind: str, text: str
) -> None:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk.exceptions import AirflowException

    from ha_core.operators.outcome import TOLD
    from ha_core.operators.spark import SparkJobOperator

    def fail(operator: Any, _context: Any) -> None:
        arguments = operator.application_args
        if summary is not None:
            Path(arguments[arguments.index("--summary") + 1]).write_text(summary)
        raise AirflowException("Cannot execute: spark-submit. Error code is: 1.")

    monkeypatch.setattr(SparkSubmitOperator, "execute", fail)
    pushed: dict[str, Any] = {}
    run = SimpleNamespace(dag_id="verify_mirror", run_id="run", conf=None)
    instance = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}))
    with pytest.raises(AirflowException, match=text):
        SparkJobOperator(task_id="compare", job="verify").execute(
            {"dag_run": run, "dag": SimpleNamespace(params={}), "ti": instance}
        )
    assert pushed == {TOLD: {"kind": kind, "text": text}}
    assert submitted == {}


def test_without_its_connection_a_job_runs_on_the_worker_and_not_on_yarn(monkeypatch: pytest.MonkeyPatch) -> None:
    from ha_core.operators.spark import SparkJobOperator

    monkeypatch.delenv("AIRFLOW_CONN_SPARK_SWITCHYARD", raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_ELSEWHERE", '{"conn_type": "spark", "host": "yarn"}')

    def master(conn_id: str) -> str:
        task = SparkJobOperator(task_id="history", job="facts", conn_id=conn_id)
        return str(task._get_hook()._connection["master"])

    assert master("elsewhere") == "yarn"
    assert master("not_there") == "local[*]"


def test_a_cluster_keeps_its_operators_spark_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    from ha_core.operators.spark import SparkJobOperator

    monkeypatch.setenv("AIRFLOW_CONN_ELSEWHERE", '{"conn_type": "spark", "host": "yarn"}')

    def hook(conn_id: str) -> Any:
        return SparkJobOperator(task_id="history", job="facts", conn_id=conn_id)._get_hook()

    there, here = hook("elsewhere"), hook("not_there")
    assert set(there._conf) == {"spark.log.level", "spark.ui.showConsoleProgress"}  # settings of the task's log
    assert (there._driver_memory, there._executor_memory) == (None, None)
    assert here._conf["spark.ui.enabled"] == "false"
    assert here._driver_memory == "512m"


def test_a_master_that_does_not_listen_is_named_before_anything_is_submitted() -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from ha_core.operators.spark import prove_master

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        prove_master(f"spark://127.0.0.1:1,127.0.0.1:{port}")
    prove_master("local[*]")
    prove_master("yarn")
    with pytest.raises(AirflowFailException, match=rf"127\.0\.0\.1:{port}: .*Start its master"):
        prove_master(f"spark://127.0.0.1:{port}")
