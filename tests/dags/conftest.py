import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ha_core.model import View
from ha_core.operations.clusters.registered import declare_usage
from ha_core.operations.engine.environment import Environment, EnvironmentSettings, connect
from stack.harness import Stack
from stack.java import find_java
from stack.spark_java import spark_environment
from tests.dags import airflow_home  # before anything of airflow
from tests.kit.stacks import own_stack

PARTITIONS, RECORDS = 2, 20


def read_dags(path: Path = airflow_home.PROJECT / "dags") -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=str(path))


@pytest.fixture(scope="session")
def dagbag() -> Any:
    return read_dags()


@pytest.fixture(scope="session")
def metadata_db() -> None:
    from airflow.utils.db import initdb

    initdb()


stack = own_stack(scope="package", gateways=1)


@pytest.fixture(scope="module")
def airflow_connection(stack: Stack) -> Iterator[str]:
    """The connection of the DAGs, as JSON."""
    host, port = stack.zookeeper.rsplit(":", 1)
    extra = {"root": "/switchyard", "session_timeout_s": 4}
    document = {"conn_type": "switchyard_zookeeper", "host": host, "port": int(port), "extra": extra}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_SWITCHYARD_ZOOKEEPER", json.dumps(document))
        yield json.dumps(document)


@pytest.fixture
def environment(stack: Stack) -> Iterator[Environment]:
    with connect(EnvironmentSettings(stack.zookeeper), by="test:reader") as opened:
        yield opened


def asset_events(run_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Addresses of the assets whose events the run has emitted, each with what it says."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(AssetModel.uri, AssetEvent.extra).join(AssetEvent, AssetEvent.asset_id == AssetModel.id)
        return [(uri, extra) for uri, extra in session.execute(query.where(AssetEvent.source_run_id == run_id))]


@dataclass
class Outcome:
    """A whole run: the state of each task, and what tasks returned."""

    state: str
    tasks: dict[str, str]
    results: dict[str, Any]
    run_id: str
    shown: dict[str, str | None]
    """The texts beside each task on the page of the run."""
    pages: dict[str, list[Any]] = field(default_factory=dict)

    def page(self, task: str) -> list[Any]:
        """The pages that the task has left, as one document."""
        return self.pages[task]


Run = Callable[..., Outcome]


@pytest.fixture
def run_dag(run_alone: Run, airflow_connection: str) -> Run:
    """The same, with the clusters of the stack."""
    return run_alone


@pytest.fixture
def run_alone(metadata_db: None, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a DAG to its end in this process, with `conf` as its form."""

    def run(dag_id: str, conf: dict[str, Any], **options: Any) -> Outcome:
        from airflow.models.xcom import XComModel

        from ha_core.operators.base import SAID

        file = airflow_home.PROJECT / "dags" / f"{dag_id}.py"
        monkeypatch.setenv(*airflow_home.bundle(file))
        # A fresh DAG every time: test() leaves the conf of one run in the object's params.
        dag = read_dags(file).dags[dag_id]
        # test() of Airflow 3.3.2 fails at the end of a run with a deadline: it looks for the id that only a stored DAG
        # has. The file test_real_airflow.py runs it with one.
        dag.deadline = None
        found = dag.test(run_conf=conf, **options)
        tasks = {one.task_id: str(one.state) for one in found.get_task_instances()}
        values = XComModel.get_many(run_id=found.run_id, dag_ids=[dag_id], key="return_value")
        said = XComModel.get_many(run_id=found.run_id, dag_ids=[dag_id], key=SAID)
        from airflow.utils.session import create_session

        with create_session() as session:
            results = {x.task_id: XComModel.deserialize_value(x) for x in session.scalars(values)}
            pages = {x.task_id: XComModel.deserialize_value(x) for x in session.scalars(said)}
        shown = {one.task_id: one.rendered_map_index for one in found.get_task_instances()}
        return Outcome(str(found.state), tasks, results, found.run_id, shown, pages)

    return run


@dataclass(frozen=True)
class Workload:
    """A user with one topic that has records in east, and a group that has read some of them."""

    environment: Environment
    user: str
    topic: str
    group: str

    @property
    def view(self) -> View:
        return self.environment.store.load()

    def nothing_stands(self) -> bool:
        """Neither a fence nor a lock."""
        topic, group = self.view.topics.get(self.topic), self.view.groups.get(self.group)
        fences = [one.fence for one in (topic, group) if one is not None and one.fence is not None]
        return not fences and not self.environment.store.locks()


@pytest.fixture
def spark_at_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Spark on this machine; the folder of its history."""
    for key, value in spark_environment(find_java()).items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("SWITCHYARD_HISTORY", str(tmp_path / "history"))
    return tmp_path / "history"


@pytest.fixture
def workload(stack: Stack, environment: Environment) -> Workload:
    from confluent_kafka import Producer

    from tests.kit.running import create_topic

    name = uuid.uuid4().hex[:8]
    made = Workload(environment, f"user-{name}", f"topic-{name}", f"group-{name}")
    bootstrap = {"bootstrap.servers": stack.clusters["east"]["bootstrap"]}
    create_topic(bootstrap["bootstrap.servers"], made.topic, PARTITIONS)
    producer = Producer(bootstrap)
    for number in range(PARTITIONS * RECORDS):
        producer.produce(made.topic, value=b"record", partition=number % PARTITIONS)
    assert producer.flush(20) == 0
    # Not by a client: its first commit to a broker that has just started may find the coordinator still loading.
    east = environment.admin(environment.store.load().clusters["east"])
    east.set_group_offsets(made.group, {(made.topic, p): (5 + p, "") for p in range(PARTITIONS)})
    declare_usage(environment, made.user, (made.topic,), (made.group,))
    return made
