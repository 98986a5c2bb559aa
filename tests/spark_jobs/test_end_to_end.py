"""The jobs against two real clusters: through spark-submit on a standalone master, and from a session here."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ha_core.model import Extent, Topic
from ha_core.store import Change, connect
from spark_jobs import aging, inputs, offsets
from spark_jobs.asking import Reach
from spark_jobs.cuts import Demand
from spark_jobs.folder import Folder
from spark_jobs.history import ENDS, History
from spark_jobs.questions import Questions
from stack.harness import Stack
from stack.java import find_java
from stack.layout import PROJECT
from stack.spark_java import spark_environment
from tests.kit.running import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.stack
CUT = 30


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """East has 30 records in `orders`, and a group that has read five; west has an `orders` and a `bills`."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    with Stack.up({"east": "3.9.2", "west": "4.3.1"}, gateways=0, spark=True) as running:
        for name, topics in {"east": ("orders",), "west": ("orders", "bills")}.items():
            for topic in topics:
                create_topic(running.clusters[name]["bootstrap"], topic, 2)
        producer = Producer({"bootstrap.servers": running.clusters["east"]["bootstrap"]})
        for _ in range(CUT):
            producer.produce("orders", value=b"record", partition=0)
        assert producer.flush(30) == 0
        consumer = Consumer({"bootstrap.servers": running.clusters["east"]["bootstrap"], "group.id": "billing"})
        _commit(consumer, TopicPartition("orders", 0, 5))
        consumer.close()
        yield running


def _commit(consumer: Any, offset: Any) -> None:
    """The first commit of a cluster's life finds a coordinator that is still coming up."""
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
    settings = ("--conf", "spark.log.level=WARN", "--conf", "spark.ui.enabled=false")
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
def history(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> History:
    """What one run of `facts` has recorded, by a worker that was killed and started again before."""
    folder = tmp_path_factory.mktemp("history")
    stack.kill("spark/worker")
    stack.restart("spark/worker")
    done = submit(stack, "facts", "--history", str(folder), "--summary", str(folder / "summary.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    summary = json.loads((folder / "summary.json").read_text())
    assert {name: one["partitions"] for name, one in summary["clusters"].items()} == {"east": 2, "west": 4}
    assert summary["clusters"]["east"]["groups"] == 1
    table = done.stdout[done.stdout.index("What was recorded") :].splitlines()
    assert [line.split()[0] for line in table[1:4]] == ["cluster", "east", "west"]
    return History(str(folder))


def test_facts_are_recorded_through_spark_submit(spark: SparkSession, history: History) -> None:
    ends = {(row["cluster"], row["topic"], row["partition"]): row["end"] for row in history.last(spark, ENDS).collect()}

    assert ends["east", "orders", 0] == CUT
    assert len(ends) == 6


def test_an_input_that_cannot_be_used_ends_the_job_before_spark_starts(stack: Stack, tmp_path: Path) -> None:
    begun = time.monotonic()

    done = submit(stack, "facts", "--history", str(tmp_path), "--clusters", str(tmp_path / "missing.json"))

    assert done.returncode != 0
    assert "missing.json: No such file or directory. Give the path of a readable file." in done.stdout
    assert time.monotonic() - begun < 60
    assert list(tmp_path.iterdir()) == []


def test_cuts_are_suggested_while_a_cluster_is_dead(
    stack: Stack, spark: SparkSession, history: History, tmp_path: Path
) -> None:
    given = inputs.from_zookeeper(stack.zookeeper, "/switchyard")
    reach = Reach(given.clusters, given.profiles, timeout_s=5.0, parallel=2)
    now_ms, demand = time.time_ns() // 1_000_000, Demand(preparation_s=10, default_rate=1)
    # Given a cluster that died after its facts were recorded
    stack.kill("cluster/west")
    try:
        # When cuts are suggested for all clusters
        rows, troubles = offsets.pipeline(Questions(spark, reach), history, offsets.Selection(), demand, now_ms, 3600)
        outcome = offsets.report(rows, Folder(str(tmp_path)), troubles, demand, now_ms)
    finally:
        stack.restart("cluster/west")
    # Then the dead one has cuts above its last known ends
    assert list(troubles) == ["west"]
    assert outcome.summary["clusters"]["west"]["last_known_only"] == 4
    assert outcome.summary["clusters"]["east"]["partitions"] == 2
    written = spark.read.parquet(outcome.summary["path"])
    assert written.where("cut is null or cut < end + 10").count() == 0


def test_an_origin_ages_when_its_records_are_gone_and_its_group_has_caught_up(
    stack: Stack, spark: SparkSession, tmp_path: Path
) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import AdminClient

    # Given a map that has cut the topic at its end in east
    moved = (
        Extent(cluster="east", start=0, end=CUT, base=0, term=0),
        Extent(cluster="west", start=CUT, base=0, term=1),
    )
    orders = Topic(name="orders", writer="west", partitions={0: moved})
    store = connect(stack.zookeeper, root="/switchyard")
    store.commit(Change(change_id="test:map", puts=(orders,), expected={(Topic, "orders"): None}))
    store.close()

    def judge(attempt: str) -> dict[str, Any]:
        given = inputs.from_zookeeper(stack.zookeeper, "/switchyard")
        reach = Reach(given.clusters, given.profiles, parallel=2)
        now_ms = time.time_ns() // 1_000_000
        rows = aging.pipeline(Questions(spark, reach), given.topics, given.homes, None, now_ms, 60)
        return aging.report(rows, Folder(str(tmp_path / attempt)), now_ms).summary

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
