"""The job `verify`, and the equivalent command, on two real clusters."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ha_core.cli.exits import ATTENTION, SUCCESS
from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import Copying
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.verifying import Coverage, copies_of
from ha_core.model import Cluster, Document, Mirror
from ha_core.store.commits import StateChange
from ha_core.wire.sasl import SecurityProfile
from spark_jobs import verify
from spark_jobs.broker_queries import Reach
from spark_jobs.folder import Folder
from spark_jobs.questions import Questions
from spark_jobs.report import JobOutcome
from stack.harness import Stack
from stack.memory_store import MemoryStore
from tests.cli.invoking import run, use
from tests.kafka.mirroring import caught_up, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.stack
TOPICS = {"orders": 2, "bills": 1, "empty": 1}
RECORDS = 1_500


@pytest.fixture(scope="module")
def clusters() -> Iterator[dict[str, Cluster]]:
    with Stack.up({"east": "3.9.2", "west": "4.3.1"}, gateways=0) as running:
        yield {name: Cluster(name=name, bootstrap=cluster["bootstrap"]) for name, cluster in running.clusters.items()}


@pytest.fixture(scope="module")
def mirrors(clusters: dict[str, Cluster]) -> list[Mirror]:
    """Copies left by a copier; that of `bills` has foreign records."""
    made = [Mirror.of(topic, "east", "west", "link", "2026-01-01T00:00:00Z", "test") for topic in TOPICS]
    with Admin(clusters["east"], timeout_s=20) as east, Admin(clusters["west"], timeout_s=20) as west:
        for admin in (east, west):
            admin.create_topics([TopicSpec(topic, count, 1) for topic, count in TOPICS.items()])
        west.create_topics([TopicSpec(made[0].log, made[0].log_partitions, 1, {"cleanup.policy": "compact"})])
        producer = Producer({"bootstrap.servers": clusters["east"].bootstrap})
        for number in range(RECORDS):
            producer.produce("orders", b"%d" % number, partition=number % 2)
            producer.produce("bills", b"%d" % number, b"key", partition=0)
        assert producer.flush(30) == 0
        copies = [copy for mirror in made for copy in copies_of(mirror, TOPICS[mirror.topic])]
        ends = {key: one.log_end for key, one in east.ends([copy.key for copy in copies]).items()}
        job = Copying(east, west, copies, dict.fromkeys(ends, 0))
        thread = threading.Thread(target=job.run)
        thread.start()
        wait_until(lambda: caught_up(job, ends), job.statuses)
        job.stop()
        thread.join(30)
    foreign = Producer({"bootstrap.servers": clusters["west"].bootstrap})
    foreign.produce("bills", b"foreign", partition=0)
    assert foreign.flush(30) == 0
    return made


def outcome(
    spark: SparkSession, clusters: dict[str, Cluster], mirrors: list[Mirror], output: Path, extent: Coverage
) -> JobOutcome:
    reach = Reach(clusters, {"none": SecurityProfile()}, timeout_s=5.0, parallel=2)
    with Questions(spark, reach, Folder(str(output))) as ask:
        return verify.report(verify.pipeline(ask, mirrors, extent), Folder(str(output)), extent, 1)


def test_the_job_compares_every_range_and_names_the_first_difference_of_each_partition(
    spark: SparkSession, clusters: dict[str, Cluster], mirrors: list[Mirror], tmp_path: Path
) -> None:
    # When all mirrors are compared in ranges of 200
    job_outcome = outcome(spark, clusters, mirrors, tmp_path, Coverage(records=200))
    # Then the one with foreign records differs there, and the others are equal
    summary = job_outcome.summary
    assert (summary["equal"], summary["partitions"], summary["differing"], summary["failed"]) == (False, 4, 1, 0)
    assert (summary["compared"], summary["ranges"], summary["of_ranges"]) == (2 * RECORDS, 16, 16)
    (bad,) = summary["worst"]
    assert (bad["topic"], bad["partition"], bad["first_difference"], bad["compared"]) == ("bills", 0, RECORDS, RECORDS)
    assert "not the copier" in bad["difference"]
    assert "4 mirrored partitions, all records: 1 different, 0 could not be compared" in job_outcome.text
    # and every range is a row
    rows = spark.read.parquet(summary["path"]).where("start is not null")
    assert {(row["topic"], row["start"]) for row in rows.where("compared = end - start").collect()} == {
        (topic, start) for topic, end in (("orders", 750), ("bills", 1500)) for start in range(0, end, 200)
    }


def test_sample_of_equal_mirrors_and_an_unreachable_cluster(
    spark: SparkSession, clusters: dict[str, Cluster], mirrors: list[Mirror], tmp_path: Path
) -> None:
    # When a sample of one is compared
    orders = [mirror for mirror in mirrors if mirror.topic == "orders"]
    found = outcome(spark, clusters, orders, tmp_path, Coverage(0.25, 7, 20)).summary
    # Then it is equal, and reports the sample's seed
    assert (found["equal"], found["sample"], found["ranges"], found["of_ranges"]) == (
        True,
        {"share": 0.25, "seed": 7},
        20,
        76,
    )
    # When the source is away, then nothing is reported as equal
    away = {**clusters, "east": Cluster(name="east", bootstrap="127.0.0.1:1")}
    failed = outcome(spark, away, orders, tmp_path / "away", Coverage()).summary
    assert (failed["equal"], failed["failed"], failed["partitions"]) == (False, 1, 0)
    assert "127.0.0.1:1" in failed["worst"][0]["error"]


@pytest.fixture
def command(clusters: dict[str, Cluster], mirrors: list[Mirror], monkeypatch: pytest.MonkeyPatch) -> None:
    """Has `switchyard` use a store with these clusters and mirrors."""
    expected: dict[tuple[type[Document], str], int | None] = {(Mirror, mirror.key): None for mirror in mirrors}
    expected |= {(Cluster, name): None for name in clusters}
    store = MemoryStore()
    store.commit(StateChange(change_id="seed", puts=(*clusters.values(), *mirrors), expected=expected))
    use(store, monkeypatch)


@pytest.mark.usefixtures("command")
def test_the_command_reports_the_same_comparison() -> None:
    # When mirrors are compared
    code, document = run("mirror", "verify", "orders", "empty")
    # Then they are equal
    assert (code, document["equal"], document["sample"]) == (SUCCESS, True, None)
    assert [
        (partition["topic"], partition["partition"], partition["compared"]) for partition in document["partitions"]
    ] == [
        ("orders", 0, 750),
        ("orders", 1, 750),
        ("empty", 0, 0),
    ]
    assert {partition["first_difference"] for partition in document["partitions"]} == {None}
    # and one with foreign records is not, in a sample, too
    code, document = run("mirror", "verify", "bills", "--sample", "--seed", "3")
    assert (code, document["equal"], document["sample"]) == (ATTENTION, False, {"share": 0.1, "seed": 3})
    assert document["partitions"][0]["first_difference"] == RECORDS


@pytest.mark.usefixtures("command")
def test_copy_that_deleted_records_of_its_source_is_not_equal(
    spark: SparkSession, clusters: dict[str, Cluster], mirrors: list[Mirror], tmp_path: Path
) -> None:
    # Given a copy whose first 100 records, after its copier's marker, were deleted
    admin = AdminClient({"bootstrap.servers": clusters["west"].bootstrap})
    for deleted in admin.delete_records([TopicPartition("orders", 0, 101)]).values():
        deleted.result(30)
    # When the whole copy is compared, or a sample
    orders = [mirror for mirror in mirrors if mirror.topic == "orders"]
    job_outcome = outcome(spark, clusters, orders, tmp_path, Coverage(0.25, 7, 20))
    code, document = run("mirror", "verify", "orders")
    # Then both report how many records it lacks
    summary = job_outcome.summary
    assert (summary["equal"], summary["incomplete"], summary["differing"], summary["lacking"]) == (False, 1, 0, 100)
    assert "0 different, 0 could not be compared, 1 lack records of their sources" in job_outcome.text
    assert [one["why"] for one in summary["worst"]] == ["lacks 100 records of its source"]
    assert (code, document["equal"]) == (ATTENTION, False)
    assert [
        (partition["state"], partition["lacking"], partition["compared"]) for partition in document["partitions"]
    ] == [
        ("lacks", 100, 650),
        ("equal", 0, 750),
    ]
