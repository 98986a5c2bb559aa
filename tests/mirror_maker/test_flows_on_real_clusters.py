"""`switchyard mirror-maker` between two real clusters: names, records, internal topics and groups."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer

from ha_core.mirror_client import MirrorClient
from stack.clients import java_mirror_client
from stack.harness import Stack
from tests.kit.flows import (
    PROGRAM,
    FlowProcess,
    commit,
    committed,
    count,
    delete_topic,
    flows,
    free_port,
    numbered,
    produce,
    records,
    until,
    write_flows,
)
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]
METRICS_PORT = free_port()
QUICK = {
    "east->west.enabled": "true",
    "west->east.enabled": "true",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
}

stack = own_stack(scope="module", gateways=0)


@pytest.fixture(scope="module")
def east(stack: Stack) -> str:
    return bootstrap(stack, "east")


@pytest.fixture(scope="module")
def west(stack: Stack) -> str:
    return bootstrap(stack, "west")


@pytest.fixture(scope="module")
def file(east: str, west: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flows(tmp_path_factory.mktemp("flows"), {"east": east, "west": west}, QUICK)


@pytest.fixture(scope="module")
def running(east: str, west: str, file: Path) -> Iterator[FlowProcess]:
    create_topic(east, "orders", 2, **{"retention.ms": "3600000"})
    create_topic(west, "orders", 1)
    for partition in (0, 1):
        produce(east, "orders", (b"east %d" % number for number in range(500)), partition)
    produce(west, "orders", (b"west %d" % number for number in range(300)))
    with flows(file, "--metrics-port", str(METRICS_PORT)) as process:
        until(lambda: count(west, "east.orders", 1) > 500 and count(east, "west.orders") > 300, why=process.text)
        yield process


@pytest.mark.usefixtures("running")
def test_topics_of_the_same_name_are_copied_both_ways_record_by_record(east: str, west: str) -> None:
    for partition in (0, 1):
        assert records(west, "east.orders", partition) == records(east, "orders", partition)
    assert records(east, "west.orders") == records(west, "orders")


def test_a_new_topic_is_copied_within_seconds(running: FlowProcess, east: str, west: str) -> None:
    create_topic(east, "payments", 3)
    produce(east, "payments", (b"%d" % number for number in range(10)), 2)
    until(lambda: count(west, "east.payments", 2) > 10, 15, running.text)
    assert records(west, "east.payments", 2) == records(east, "payments", 2)


def test_a_remote_topic_follows_its_sources_partitions_and_settings(
    running: FlowProcess, stack: Stack, east: str, west: str
) -> None:
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
    from confluent_kafka.cimpl import NewPartitions

    admin, there = AdminClient({"bootstrap.servers": east}), AdminClient({"bootstrap.servers": west})
    create_topic(east, "growing", 1)
    until(lambda: count(west, "east.growing") > 0, 15, running.text)
    admin.create_partitions([NewPartitions("growing", 3)])["growing"].result(30)
    entry = ConfigEntry("retention.ms", "7200000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "growing", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
    until(lambda: len(there.list_topics(timeout=10).topics["east.growing"].partitions) == 3, 15, running.text)
    produce(east, "growing", [b"late"], 2)
    until(lambda: count(west, "east.growing", 2) > 1, 15, running.text)

    def retention() -> str | None:
        remote = ConfigResource(ResourceType.TOPIC, "east.growing")
        value = there.describe_configs([remote])[remote].result(30)["retention.ms"].value
        return None if value is None else str(value)

    until(lambda: retention() == "7200000", 15, running.text)


def test_a_group_resumes_at_the_exact_record(running: FlowProcess, east: str, west: str, tmp_path: Path) -> None:
    commit(east, "billing", {("orders", 0): 123, ("orders", 1): 500})
    until(lambda: committed(west, "billing", "east.orders", 1) > 0, 30, running.text)
    begin = committed(west, "billing", "east.orders")
    (first, *_) = numbered(west, "east.orders", 0, begin)
    assert first[1].value == b"east 123"
    assert records(west, "east.orders", 1, committed(west, "billing", "east.orders", 1)) == []
    with MirrorClient({"bootstrap.servers": west}) as client:
        assert client.translate_offsets("east", "billing")["east.orders", 0].offset == begin
    for version in ("3.9.2", "4.3.1"):
        java = java_mirror_client.ask(version, {"bootstrap.servers": west}, "east", "billing", tmp_path)
        assert java["hops"] == "1"
        assert f"east.orders-0={begin}/" in java["translated"]
        assert java["upstream-clusters"] == "[east]"


@pytest.mark.usefixtures("running")
def test_any_offset_is_translated_exactly(east: str, west: str) -> None:
    source, copy = numbered(east, "orders"), dict(numbered(west, "east.orders"))

    def found() -> dict[str, dict[str, object]]:
        command = [PROGRAM, "mirror-client", "translate", "east->west", "east.orders-0", "--json", "--bootstrap", west]
        done = subprocess.run([*command, "0", "7", "499"], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout))

    until(lambda: found()["499"]["precision"] == "exact")
    for offset in (0, 7, 499):
        assert copy[int(str(found()[str(offset)]["offset"]))] == dict(source)[offset]


def test_metrics_have_the_names_that_mirror_maker_dashboards_use(running: FlowProcess, east: str) -> None:
    def shown() -> str:
        with urlopen(f"http://127.0.0.1:{METRICS_PORT}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    labels = '{partition="0",source="east",target="west",topic="east.orders"}'
    name = "kafka_connect_mirror_mirrorsourceconnector_"
    until(lambda: "mirrorcheckpointconnector_checkpoint_latency_ms_avg{" in shown(), 30, shown)
    produce(east, "orders", [b"measured now"])  # measurements older than a minute are not shown
    until(
        lambda: f"{name}record_count{labels} 501.0" in shown() and f"{name}record_age_ms{labels}" in shown(), 30, shown
    )
    text = shown()
    for metric in ("record_age_ms", "record_bytes", "replication_latency_ms"):
        for suffix in ("", "_min", "_max", "_avg"):
            assert f"{name}{metric}{suffix}{labels}" in text
    assert 'switchyard_flow_up{flow="east->west"} 1.0' in text
    until(lambda: 'switchyard_flow_heartbeat_age_seconds{flow="east->west",path="east->west"}' in shown(), 30, shown)


def test_a_topic_that_is_created_again_is_copied_above_the_first_topics_records(
    running: FlowProcess, east: str, west: str
) -> None:
    create_topic(east, "again", 1)
    produce(east, "again", (b"first %d" % number for number in range(50)))
    until(lambda: count(west, "east.again") > 50, 20, running.text)
    first = records(east, "again")
    delete_topic(east, "again")
    create_topic(east, "again", 1)
    produce(east, "again", (b"second %d" % number for number in range(80)))
    until(lambda: len(records(west, "east.again")) >= 130, 40, running.text)
    assert records(west, "east.again") == first + records(east, "again")


def test_a_remote_topic_that_is_deleted_is_copied_from_its_start(running: FlowProcess, east: str, west: str) -> None:
    create_topic(east, "lost", 1)
    produce(east, "lost", (b"%d" % number for number in range(50)))
    until(lambda: count(west, "east.lost") > 50, 20, running.text)
    delete_topic(west, "east.lost")
    until(lambda: count(west, "east.lost") > 50, 40, running.text)
    assert records(west, "east.lost") == records(east, "lost")


def test_a_topic_with_records_of_another_writer_is_left_alone(running: FlowProcess, east: str, west: str) -> None:
    create_topic(west, "east.taken", 1)
    produce(west, "east.taken", [b"written by hand"])
    create_topic(east, "taken", 1)
    produce(east, "taken", [b"a record"])
    time.sleep(12)
    assert [record.value for record in records(west, "east.taken")] == [b"written by hand"]
    assert running.process.poll() is None


def test_latest_copies_records_that_are_written_after_the_first_look(east: str, west: str, tmp_path: Path) -> None:
    for topic in ("now.old", "now.again"):
        create_topic(east, topic, 1)
        produce(east, topic, [b"before"])
    properties = {
        "east->west.enabled": "true",
        "east->west.topics": "now.*",
        "consumer.auto.offset.reset": "latest",
        "replication.policy.separator": "-",
        "emit.heartbeats.enabled": "false",
    }
    file = write_flows(tmp_path, {"east": east, "west": west}, properties, "now")
    with flows(file) as process:
        until(lambda: count(west, "east-now.old") > 0 and count(west, "east-now.again") > 0, why=process.text)
        process.kill()
    produce(east, "now.old", [b"while no worker ran"])
    create_topic(east, "now.new", 1)
    produce(east, "now.new", [b"of a topic that is new"])
    delete_topic(east, "now.again")
    create_topic(east, "now.again", 1)
    produce(east, "now.again", [b"of a topic that was created again", b"beside it"])
    with flows(file) as process:
        until(lambda: len(records(west, "east-now.old")) > 0 and count(west, "east-now.new") > 1, why=process.text)
        assert [record.value for record in records(west, "east-now.old")] == [b"while no worker ran"]
        assert records(west, "east-now.new") == records(east, "now.new")
        until(lambda: len(records(west, "east-now.again")) == 2, why=process.text)
        assert records(west, "east-now.again") == records(east, "now.again")


@pytest.mark.parametrize(("level", "values"), [("", [b"kept"]), ("read_uncommitted", [b"aborted", b"kept", b"open"])])
def test_a_flow_copies_the_records_of_its_isolation_level(
    east: str, west: str, tmp_path: Path, level: str, values: list[bytes]
) -> None:
    topic = f"isolated.{level or 'default'}"
    create_topic(east, topic, 1)
    for value in (b"aborted", b"kept", b"open"):
        producer = Producer({"bootstrap.servers": east, "transactional.id": f"{topic}-{value.decode()}"})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(30) == 0
        if value == b"aborted":
            producer.abort_transaction(30)
        elif value == b"kept":
            producer.commit_transaction(30)
    properties = {
        "east->west.enabled": "true",
        "east->west.topics": topic,
        "replication.policy.separator": "-",
        "emit.heartbeats.enabled": "false",
        **({"east.consumer.isolation.level": level} if level else {}),
    }
    with flows(write_flows(tmp_path, {"east": east, "west": west}, properties)) as process:
        until(lambda: count(west, f"east-{topic}") > len(values), why=process.text)
        assert [record.value for record in records(west, f"east-{topic}")] == values


def test_a_second_process_is_refused_before_it_copies_anything(running: FlowProcess, file: Path) -> None:
    second = FlowProcess(file)
    assert second.process.wait(60) != 0
    assert "another process runs east->west" in second.text()
    assert running.process.poll() is None


def test_after_a_kill_the_copy_has_each_record_once(running: FlowProcess, east: str, west: str, file: Path) -> None:
    """The last test of this file, because it kills the process of the others."""
    running.kill()
    produce(east, "orders", (b"after %d" % number for number in range(2000)), 1)
    again = FlowProcess(file)
    try:
        until(lambda: count(west, "east.orders", 1) > 2500, 60, again.text)
        again.kill()
        produce(east, "orders", (b"later %d" % number for number in range(2000)), 1)
        again = FlowProcess(file)
        until(lambda: count(west, "east.orders", 1) > 4500, 60, again.text)
        assert records(west, "east.orders", 1) == records(east, "orders", 1)
    finally:
        again.stop()
