"""Sources that change while a flow runs: retention, topics created again, new partitions, other timestamps."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from confluent_kafka.cimpl import NewPartitions

from stack.harness import Stack
from tests.kit.checkpoints import checkpoints
from tests.kit.flow_workers import KeptWorker
from tests.kit.flows import (
    commit,
    committed,
    count,
    delete_topic,
    numbered,
    produce,
    records,
    shown,
    until,
    write_flows,
)
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/mirror_maker", "ha_core/flows"), pytest.mark.timeout(600)]
FLOW = {
    "east->west.enabled": "true",
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
}

stack = own_stack(scope="module", gateways=0)


@pytest.fixture(scope="module")
def east(stack: Stack) -> str:
    return bootstrap(stack, "east")


@pytest.fixture(scope="module")
def west(stack: Stack) -> str:
    return bootstrap(stack, "west")


@pytest.fixture(scope="module")
def worker(stack: Stack, east: str, west: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptWorker]:
    file = write_flows(tmp_path_factory.mktemp("flows"), {"east": east, "west": west}, FLOW)
    with KeptWorker(file, ["--zookeeper", stack.zookeeper, "--clusters", "west"]) as running:
        yield running
        assert not running.ended, running.text()


class Load:
    """Writes numbers to a topic until it is stopped, each acknowledged once."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 1) -> None:
        self._settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 5}
        self._topic, self._partitions = topic, partitions
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def grow(self, partitions: int) -> None:
        self._partitions = partitions

    def _run(self) -> None:
        producer = Producer({**self._settings, "topic.metadata.refresh.interval.ms": 500, "log_level": 2})
        number = 0
        while not self._ending.is_set():
            with suppress(KafkaException):  # the client has not heard of the partition yet
                producer.produce(self._topic, b"%d" % number, b"%d" % (number % 5), number % self._partitions)
            number += 1
            producer.poll(0)
            time.sleep(0.0005)
        producer.flush(60)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(90)


@contextmanager
def stopped(worker: KeptWorker) -> Iterator[None]:
    worker.kill()
    try:
        yield
    finally:
        worker.restart()


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    spot = TopicPartition(topic, 0, before)
    admin.delete_records([spot])[spot].result(30)


def test_records_that_retention_deleted_while_no_worker_ran_are_counted_and_all_others_copied(
    stack: Stack, worker: KeptWorker, east: str, west: str
) -> None:
    create_topic(east, "overtaken", 1)
    produce(east, "overtaken", (b"%d" % number for number in range(300)))
    until(lambda: len(records(west, "east.overtaken")) == 300, 60, worker.text)
    commit(east, "overtaken-readers", {("overtaken", 0): 350})
    with stopped(worker):
        produce(east, "overtaken", (b"%d" % number for number in range(300, 800)))
        delete_records(east, "overtaken", 500)
    until(lambda: len(records(west, "east.overtaken")) == 600, 90, worker.text)
    values = [record.value for record in records(west, "east.overtaken")]
    assert values == [b"%d" % number for number in (*range(300), *range(500, 800))]
    until(lambda: overtaken(stack) == 200, 30, lambda: str(shown(stack.zookeeper)))
    # And a group whose records are gone resumes at the first record that is left
    begin = (numbered(west, "east.overtaken")[300])[0]
    until(lambda: committed(west, "overtaken-readers", "east.overtaken") == begin, 30, worker.text)
    worker.kill()
    worker.restart()
    produce(east, "overtaken", [b"later"])
    until(lambda: records(west, "east.overtaken")[-1].value == b"later", 60, worker.text)
    until(lambda: overtaken(stack) == 200, 30, lambda: str(shown(stack.zookeeper)))


def overtaken(stack: Stack) -> int:
    """The number of overtaken offsets in the states of all flows."""
    return sum(int(str(flow["overtaken"] or 0)) for flow in shown(stack.zookeeper))


def test_a_group_whose_records_the_copy_has_deleted_goes_on_at_its_log_start(
    worker: KeptWorker, east: str, west: str
) -> None:
    """Both clusters apply retention to segments of their own, so the copy may be the first to delete records. Below its
    log start, consumers with `auto.offset.reset=latest` would pass over all that it has."""
    create_topic(east, "shortened", 1)
    produce(east, "shortened", (b"%d" % number for number in range(100)))
    until(lambda: count(west, "east.shortened") > 100, 60, worker.text)
    places = [offset for offset, _ in numbered(west, "east.shortened")]
    commit(east, "shortened-readers", {("shortened", 0): 30})
    commit(east, "shortened-others", {("shortened", 0): 80})
    until(lambda: committed(west, "shortened-readers", "east.shortened") == places[30], 30, worker.text)
    delete_records(west, "east.shortened", places[60])
    until(lambda: committed(west, "shortened-readers", "east.shortened") == places[60], 30, worker.text)
    until(lambda: newest_checkpoint(west, "shortened-readers") == places[60], 30, worker.text)
    assert committed(west, "shortened-others", "east.shortened") == places[80]
    delete_records(west, "east.shortened", count(west, "east.shortened") + places[60])
    produce(east, "shortened", [b"late"])
    until(lambda: committed(west, "shortened-others", "east.shortened") > places[80], 30, worker.text)
    for group in ("shortened-readers", "shortened-others"):
        begin = committed(west, group, "east.shortened")
        assert [record.value for record in records(west, "east.shortened", 0, begin)] == [b"late"]


def newest_checkpoint(bootstrap: str, group: str) -> int:
    found = [one.downstream_offset for one in checkpoints(bootstrap, "east") if one.group == group]
    return found[-1]


def test_records_have_the_times_that_readers_of_the_source_see(worker: KeptWorker, east: str, west: str) -> None:
    """`message.timestamp.type` is not carried (`config.properties.exclude`), so a copy stamped by its own broker would
    show other times."""
    create_topic(east, "stamped", 1, **{"message.timestamp.type": "LogAppendTime"})
    produce(east, "stamped", (b"%d" % number for number in range(100)))
    until(lambda: count(west, "east.stamped") > 100, 60, worker.text)
    assert records(west, "east.stamped") == records(east, "stamped")


def test_records_ahead_of_the_targets_clock_are_copied(worker: KeptWorker, east: str, west: str) -> None:
    """Brokers of Kafka 4.x refuse what is more than an hour ahead, unless the topic has another bound (KIP-1030)."""
    create_topic(east, "ahead", 1)
    producer = Producer({"bootstrap.servers": east})
    for hours in (0, 2, 240, -240):
        producer.produce("ahead", b"%d" % hours, timestamp=int(1000 * (time.time() + 3600 * hours)))
    assert producer.flush(30) == 0
    until(lambda: count(west, "east.ahead") > 4, 60, worker.text)
    assert records(west, "east.ahead") == records(east, "ahead")


def test_a_record_that_the_target_refuses_is_named_by_its_offset_and_copied_once_it_may_be(
    stack: Stack, worker: KeptWorker, east: str, west: str
) -> None:
    create_topic(east, "refused", 1)
    produce(east, "refused", [b"0", b"1"])
    until(lambda: len(records(west, "east.refused")) == 2, 60, worker.text)
    set_largest(west, "east.refused", 2_000)
    produce(east, "refused", [b"2" * 5_000])
    produce(east, "refused", [b"3"])

    def reasons() -> str:
        return str([flow["worst"] for flow in shown(stack.zookeeper)])

    until(lambda: "MESSAGE_TOO_LARGE (10) at offset 2 of the source" in reasons(), 60, reasons)
    assert "raise max.message.bytes of the topic in the target" in reasons()
    set_largest(west, "east.refused", 1_000_000)
    until(lambda: len(records(west, "east.refused")) == 4, 90, worker.text)
    assert records(west, "east.refused") == records(east, "refused")


def set_largest(bootstrap: str, topic: str, size: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.incremental_alter_configs([resource])[resource].result(30)


def test_a_topic_that_is_created_again_under_load_is_copied_completely(
    worker: KeptWorker, east: str, west: str
) -> None:
    create_topic(east, "remade", 1)
    copied = list[bytes | None]()
    for turn in range(3):
        with Load(east, "remade"):
            until(lambda copied=copied: len(records(west, "east.remade")) > len(copied) + 500, 90, worker.text)  # type: ignore[misc]
            delete_topic(east, "remade")
            create_again(east, "remade")
            time.sleep(4)
        produce(east, "remade", [b"end of turn %d" % turn])
        last = [record.value for record in records(east, "remade")]
        until(lambda last=last: values(west)[-len(last) :] == last, 90, worker.text)  # type: ignore[misc]
        # Each new topic is copied above the first topic's records, and no record of either is there twice
        found = values(west)
        assert found[: len(copied)] == copied
        begun = found[len(copied) : len(found) - len(last)]
        assert begun == [b"%d" % number for number in range(len(begun))] or turn > 0
        assert len(set(begun)) == len(begun)
        copied = found
        delete_topic(east, "remade")
        create_again(east, "remade")


def create_again(bootstrap: str, topic: str) -> None:
    """Create the topic again, unless a producer's metadata request has already created it."""
    with suppress(KafkaException):
        create_topic(bootstrap, topic, 1)
    until(lambda: topic in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).topics)


def values(bootstrap: str) -> list[bytes | None]:
    return [record.value for record in records(bootstrap, "east.remade")]


def test_partitions_that_are_added_under_load_are_copied_from_their_start(
    worker: KeptWorker, east: str, west: str
) -> None:
    create_topic(east, "widened", 1)
    admin = AdminClient({"bootstrap.servers": east})
    with Load(east, "widened") as load:
        for partitions in (2, 4, 7):
            admin.create_partitions([NewPartitions("widened", partitions)])["widened"].result(30)
            load.grow(partitions)
            time.sleep(3)
    for partition in range(7):
        until(
            lambda partition=partition: (
                len(records(west, "east.widened", partition))  # type: ignore[misc]
                == len(records(east, "widened", partition))
            ),
            60,
            worker.text,
        )
        assert len(records(east, "widened", partition)) > 0
        assert records(west, "east.widened", partition) == records(east, "widened", partition)
