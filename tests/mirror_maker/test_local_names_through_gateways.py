"""Consumers behind a gateway fail over to a flow's copy, under its local name and by translated offsets."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from stack.harness import Stack
from tests.kit.flows import FlowProcess, committed, count, produce, until, write_flows
from tests.kit.own_gateway import OwnGateway
from tests.kit.running import bind, bootstrap, create_topic, switchyard
from tests.kit.stacks import own_stack

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("gateway/model/local_names.py", "gateway/model/remote_topics.py"),
    pytest.mark.timeout(600),
]
PARTITIONS = (0, 1)
RECORDS = 100
"""They are written to each partition, at two times."""
FLOW = {
    "A->B.enabled": "true",
    "A->B.topics": "orders|paid",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}

stack = own_stack(scope="module", gateways=0)


@pytest.fixture(scope="module")
def gateway(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnGateway]:
    with OwnGateway(stack, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def values(number: int, partition: int) -> list[bytes]:
    return [b"%d of time %d in %d" % (at, number, partition) for at in range(RECORDS)]


def write(servers: str, number: int) -> None:
    for partition in PARTITIONS:
        produce(servers, "orders", values(number, partition), partition)


def read(gateway: OwnGateway, wanted: int, **more: Any) -> list[tuple[str | None, bytes | None]]:
    """(topic, value) of the next records of a group; it commits them and ends."""
    settings = {"bootstrap.servers": gateway.bootstrap, "group.id": "billing", "enable.auto.commit": False, **more}
    consumer = Consumer({"auto.offset.reset": "error", "log_level": 0, **settings})
    consumer.subscribe(["orders"])
    found: list[tuple[str | None, bytes | None]] = []
    deadline = time.monotonic() + 90
    try:
        while len(found) < wanted:
            assert time.monotonic() < deadline, f"{len(found)} records of {wanted}"
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append((message.topic(), message.value()))
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return found


def test_a_group_goes_on_under_the_local_name_and_gets_each_record_once(
    stack: Stack, gateway: OwnGateway, tmp_path: Path
) -> None:
    # Given a flow whose copy has other offsets than its source, since its worker was killed once
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    for servers in (east, west):
        create_topic(servers, "orders", len(PARTITIONS))
    produce(west, "orders", [b"of the topic that is not shown"] * 5)
    bind(stack, "anonymous", "east")
    file = write_flows(tmp_path, {"A": east, "B": west}, FLOW)
    options = ["--zookeeper", stack.zookeeper, "--clusters", "B"]
    worker = FlowProcess(file, options)
    try:
        write(east, 1)
        until(lambda: all(count(west, "A.orders", one) > RECORDS for one in PARTITIONS), 90, worker.text)
        worker.kill()
        worker = FlowProcess(file, options)
        # And a group that has read a part in the source
        before = read(gateway, 120, **{"auto.offset.reset": "earliest"})
        write(east, 2)
        until(lambda: all(count(west, "A.orders", one) > 2 * RECORDS + 1 for one in PARTITIONS), 90, worker.text)
        positions = {one: committed(east, "billing", "orders", one) for one in PARTITIONS}
        until(lambda: all(committed(west, "billing", "A.orders", one) > 0 for one in PARTITIONS), 60, worker.text)
        time.sleep(3)
        translated = {one: committed(west, "billing", "A.orders", one) for one in PARTITIONS}
        assert translated != positions
        # When the source is lost, and its user is bound to the copies, under local names
        stack.kill("cluster/east")
        words = ("bindings", "set", "user:anonymous", "west", "--local-names", "A", "--reason", "A is lost")
        asked = switchyard(stack, *words, "--dry-run")
        assert any("west has topics of its own named orders" in warning for warning in asked["warnings"])
        switchyard(stack, *words, "--yes")
        after = read(gateway, 4 * RECORDS - 120)
    finally:
        worker.stop()
    # Then it gets each record once
    expected = sorted(value for number in (1, 2) for one in PARTITIONS for value in values(number, one))
    assert sorted(value or b"" for _, value in [*before, *after]) == expected
    assert {topic for topic, _ in [*before, *after]} == {"orders"}
    # And its commits are those of the remote topic
    assert all(committed(west, "billing", "A.orders", one) > 2 * RECORDS for one in PARTITIONS)
    assert all(committed(west, "billing", "orders", one) < 0 for one in PARTITIONS)


def test_tools_of_the_user_show_the_remote_topic_once_and_its_lag(stack: Stack, gateway: OwnGateway) -> None:
    """The state is that of the test before."""
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap, "log_level": 0})
    listed = {name for name in admin.list_topics(timeout=30).topics if "orders" in name}
    reader = Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": "billing", "log_level": 0})
    offsets = reader.committed([TopicPartition("orders", one) for one in PARTITIONS], timeout=30)
    ends = [reader.get_watermark_offsets(TopicPartition("orders", one), timeout=30)[1] for one in PARTITIONS]
    reader.close()
    explained = switchyard(stack, "explain", "anonymous", "", "orders")

    assert listed == {"orders"}
    assert [offset.offset for offset in offsets] == ends
    assert {one["remote_topic"] for one in explained["explanations"]} == {"A.orders"}
    assert {one["leading"]["cluster"] for one in explained["explanations"]} == {"west"}


def test_a_producer_is_refused_under_the_local_name(stack: Stack, gateway: OwnGateway) -> None:
    ends = {topic: count(bootstrap(stack, "west"), topic) for topic in ("orders", "A.orders")}
    errors: list[int] = []

    def told(error: KafkaError | None, _: Any) -> None:
        errors.append(0 if error is None else error.code())

    producer = Producer({"bootstrap.servers": gateway.bootstrap, "log_level": 0})
    producer.produce("orders", b"x", partition=0, on_delivery=told)
    producer.flush(30)

    assert errors == [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    assert {topic: count(bootstrap(stack, "west"), topic) for topic in ends} == ends


def test_a_change_while_a_client_is_connected_is_warned_of(stack: Stack, gateway: OwnGateway) -> None:
    consumer = Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": "other", "log_level": 0})
    consumer.subscribe(["orders"])
    consumer.poll(2)
    try:
        asked = switchyard(stack, "bindings", "delete", "user:anonymous", "--local-names", "--dry-run")
    finally:
        consumer.close()

    assert any("Stop its consumers first" in warning for warning in asked["warnings"])
