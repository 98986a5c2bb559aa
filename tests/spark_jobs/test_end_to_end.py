"""The jobs against two real clusters: through spark-submit on a standalone master, and from a session here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ha_core.model import Extent, Topic
from ha_core.store.commits import StateChange
from ha_core.store.zookeeper import connect
from spark_jobs import aging, facts, inputs
from spark_jobs.broker_queries import Reach
from spark_jobs.folder import Folder
from spark_jobs.history import ENDS, FactHistory
from spark_jobs.questions import Questions
from stack.harness import Stack
from stack.java import SHORT_LIVED, find_java
from stack.layout import PROJECT
from stack.parts import environment
from stack.spark_java import spark_environment
from tests.kit.running import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.stack, pytest.mark.long("spark_jobs")]
TOPICS = ("orders", "bills")
CUT = 30
_JVM = " ".join(SHORT_LIVED)
SETTINGS = (
    "spark.log.level=WARN",
    "spark.ui.enabled=false",
    f"spark.driver.extraJavaOptions={_JVM}",
    f"spark.executor.extraJavaOptions={_JVM}",
    "spark.sql.codegen.wholeStage=false",
)
WRITTEN_MS = time.time_ns() // 1_000_000 - 3_600_000
"""Timestamp of each topic's first record; the others follow by the millisecond."""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """East has 30 records in `orders` and in `bills`, and a group that has read five; west has empty topics."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    with Stack.up({"east": "3.9.2", "west": "4.3.1"}, gateways=0, spark=True, spark_connect=True) as running:
        for cluster in running.clusters.values():
            for topic in TOPICS:
                create_topic(cluster["bootstrap"], topic, 2)
        producer = Producer({"bootstrap.servers": running.clusters["east"]["bootstrap"]})
        for number in range(CUT):
            for topic in TOPICS:
                producer.produce(topic, value=b"record", partition=0, timestamp=WRITTEN_MS + number)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": running.clusters["east"]["bootstrap"], "group.id": "billing"})
        _commit(consumer, TopicPartition("orders", 0, 5))
        consumer.close()
        yield running


def _commit(consumer: Any, offset: Any) -> None:
    """Retries, because a cluster's first commit finds its coordinator still starting."""
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + 60
    while True:
        try:
            consumer.commit(offsets=[offset], asynchronous=False)
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return


def submit(stack: Stack, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert stack.spark is not None
    master = str(stack.spark["master"])
    settings = [text for setting in SETTINGS for text in ("--conf", setting)]
    memory = ("--driver-memory", "512m", "--executor-memory", "512m")
    return subprocess.run(
        ["spark-submit", "--master", master, *memory, *settings, str(PROJECT / "spark_jobs/__main__.py"), *arguments],
        env={**os.environ, **spark_environment(find_java()), "SWITCHYARD_ZOOKEEPER": stack.zookeeper},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.fixture(scope="module")
def history(stack: Stack, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> FactHistory:
    """Facts of both clusters from one run of `facts`."""
    recorded = FactHistory(str(tmp_path_factory.mktemp("history")))
    with Questions(spark, reached(stack), recorded.root) as ask:
        outcome = facts.record(ask, recorded, time.time_ns() // 1_000_000)
    assert {name: cluster["partitions"] for name, cluster in outcome.summary["clusters"].items()} == {
        "east": 4,
        "west": 4,
    }
    assert outcome.summary["clusters"]["east"]["groups"] == 1
    return recorded


def reached(stack: Stack) -> Reach:
    given = inputs.from_zookeeper(stack.zookeeper, "/switchyard")
    return Reach(given.clusters, given.profiles, timeout_s=5.0, parallel=2)


def test_facts_of_two_clusters_are_recorded(spark: SparkSession, history: FactHistory) -> None:
    ends = {(row["cluster"], row["topic"], row["partition"]): row["end"] for row in history.last(spark, ENDS).collect()}

    assert ends["east", "orders", 0] == CUT
    assert len(ends) == 8


def test_an_origin_ages_when_its_records_are_gone_and_its_group_has_caught_up(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import AdminClient

    # Given a map that has cut the topic at its end in east
    moved = (
        Extent(cluster="east", start=0, end=CUT, base=0, writer_epoch=0),
        Extent(cluster="west", start=CUT, base=0, writer_epoch=1),
    )
    orders = Topic(name="orders", writer="west", partitions={0: moved})
    store = connect(stack.zookeeper, root="/switchyard")
    store.commit(StateChange(change_id="test:map", puts=(orders,), expected={(Topic, "orders"): None}))
    store.close()

    def judge(attempt: str) -> dict[str, Any]:
        given = inputs.from_zookeeper(stack.zookeeper, "/switchyard")
        now_ms = time.time_ns() // 1_000_000
        ask = Questions(spark, reached(stack), Folder(str(tmp_path)))
        rows = aging.pipeline(ask, given.topics, given.homes, None, now_ms)
        return aging.report(rows, Folder(str(tmp_path / attempt)), now_ms, given.put_off).summary

    # When it is judged, then records and group speak against it
    assert judge("before")["reasons"] == {"held": 1, "dead": 1}
    # When both are gone
    admin = AdminClient({"bootstrap.servers": stack.clusters["east"]["bootstrap"]})
    for deleted in admin.delete_records([TopicPartition("orders", 0, CUT)]).values():
        deleted.result(30)
    done = ConsumerGroupTopicPartitions("billing", [TopicPartition("orders", 0, CUT)])
    for altered in admin.alter_consumer_group_offsets([done]).values():
        altered.result(30)
    # Then it has aged
    assert judge("after")["some_topics_aged"] == ["orders in east"]


def test_cuts_are_suggested_through_spark_submit_while_a_cluster_is_dead(
    stack: Stack, spark: SparkSession, history: FactHistory, tmp_path: Path
) -> None:
    # Given a cluster that died after its facts were recorded, and a Spark worker that came back
    stack.kill("cluster/west")
    stack.kill("spark/worker")
    stack.restart("spark/worker")
    # When cuts are suggested for all clusters
    summary, rates = tmp_path / "summary.json", tmp_path / "rates.json"
    files = ("--history", history.root.uri, "--output", str(tmp_path), "--summary", str(summary), "--rates", str(rates))
    done = submit(stack, "offsets", *files, "--preparation-s", "10", "--default-rate", "1", "--timeout-s", "5")
    # Then the dead one has cuts above its last known ends
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(summary.read_text())
    assert found["clusters"]["west"]["last_known_only"] == 4
    assert "cannot be reached" in found["clusters"]["west"]["error"]
    assert (found["clusters"]["east"]["partitions"], found["clusters"]["east"]["last_known_only"]) == (4, 0)
    # and only measured rates are exported: the dead one has one look only, and a rate needs two
    assert [row["cluster"] for row in json.loads(rates.read_text())["partitions"]] == ["east"] * 4
    written = {
        (row["cluster"], row["topic"], row["partition"]): row for row in spark.read.parquet(found["path"]).collect()
    }
    assert all(row["cut"] >= row["end"] + 10 for row in written.values() if row["cluster"] == "west")
    # and the live one, without writes between its two looks, has its cuts at its log ends
    assert all(row["cut"] == row["end"] for row in written.values() if row["cluster"] == "east")
    # and the live one has the timestamps of its records
    times = {key: (row["first_record_ms"], row["newest_record_ms"]) for key, row in written.items()}
    assert times.pop(("east", "bills", 0)) == (WRITTEN_MS, WRITTEN_MS + CUT - 1)
    assert set(times.values()) == {(None, None)}
    assert 3_599 <= found["clusters"]["east"]["newest_record_age_s"] <= found["clusters"]["east"]["oldest_record_age_s"]
    # and people can read all of it
    lines = done.stdout[done.stdout.index("Suggested cuts") :].splitlines()
    assert lines[1].split()[:3] == ["cluster", "topic", "partition"]
    assert len([line for line in lines[2:10] if line.split()[0] in ("east", "west")]) == 8
    assert sum("1 h ago" in line for line in lines) == 1


ON_A_SERVER = """
import sys
from spark_jobs import session
from spark_jobs.mirror import job
from spark_jobs.mirror.task import TaskSettings

patient, session._TRIES = session._TRIES, {"max_retries": 3, "max_backoff": 100}
zookeeper, remote = sys.argv[1:]

def tell(ask):
    try:
        print("nothing:", ask(), flush=True)
    except session.SparkConnectError as error:
        print(error, flush=True)

def lose():
    with job._session(TaskSettings(zookeeper, "/switchyard", {}, 5.0, 6.0, ""), 1, remote) as spark:
        spark.cancel("lead", 0)  # from its first answer on the session is this server's
        print("open", flush=True)
        input()
        tell(lambda: spark.run("lead", 0))
        tell(lambda: spark.cancel("lead", 0))
        input()
        spark.run("lead", 0)

tell(lose)
session._TRIES = patient  # a server that has just begun to listen may still be busy with that
try:
    with session.open_session(remote) as connected:
        connected.sql("select nothing").collect()
except Exception as error:
    print(type(error).__name__)
"""


def test_lost_or_restarted_connect_server_is_named(stack: Stack) -> None:
    # Given a server that runs a mirror's tasks; in a process without another session
    assert stack.spark is not None
    remote = str(stack.spark["connect"])
    program = [sys.executable, "-c", ON_A_SERVER, stack.zookeeper, remote]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with subprocess.Popen(program, env=environment({}), **pipes) as there:  # type: ignore[call-overload]
        try:
            assert there.stdout.readline() == "open\n"
            # When the server is killed, and a slot's task is run there, and one is to be cancelled
            stack.kill("spark/connect")
            there.stdin.write("\n")
            # Then both end soon, with the reason
            for _ in range(2):
                assert f"at {remote} does not answer any more" in there.stdout.readline()
            # When it is restarted, then the session is lost, and a new one has errors of its own
            stack.restart("spark/connect")
            there.stdin.write("\n")
            assert f"at {remote} has lost the session" in there.stdout.readline()
            assert there.stdout.readline() == "AnalysisException\n"
        finally:
            there.kill()
