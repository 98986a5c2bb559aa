"""A flow of a thousand topics with ten partitions each, in one worker, between two real clusters."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import KafkaError, NewTopic

from stack.harness import Stack
from tests.kit.flows import FlowProcess, count, flows, produce, records, until, write_flows
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.soak, pytest.mark.timeout(1800)]
TOPICS, PARTITIONS = 1_000, 10
PATIENCE_S = 600.0
KEYS = [(f"t{number}", partition) for number in range(TOPICS) for partition in range(PARTITIONS)]

stack = own_stack(scope="module", gateways=0)


def create_all(cluster: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster, "log_level": 3})
    for first in range(0, TOPICS, 50):
        some = [NewTopic(f"t{number}", PARTITIONS) for number in range(first, first + 50)]
        for future in admin.create_topics(some).values():
            future.result(120)


def write_each(cluster: str, keys: Iterable[tuple[str, int]], what: str) -> None:
    """One record for each partition, which says where it was written."""
    settings = {"bootstrap.servers": cluster, "acks": "all", "enable.idempotence": True, "linger.ms": 20}
    # A busy broker tells of new topics late, and by default records for them fail after 30 s.
    producer = Producer({**settings, "topic.metadata.propagation.max.ms": int(1000 * PATIENCE_S)})
    failed: Counter[str] = Counter()

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed[error.name()] += 1

    for topic, partition in keys:
        producer.produce(topic, f"{what} {topic} {partition}".encode(), partition=partition, on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    assert not failed


def copied(cluster: str) -> Mapping[tuple[str, int], list[str]]:
    """Partition of the source → the values of its copy, in their order."""
    settings = {
        "bootstrap.servers": cluster,
        "group.id": "reader of all",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "log_level": 3,
    }
    found: dict[tuple[str, int], list[str]] = {key: [] for key in KEYS}
    consumer = Consumer(settings)
    try:
        consumer.assign([TopicPartition(f"east.{topic}", partition, 0) for topic, partition in KEYS])
        left = set(KEYS)
        while left:
            message = consumer.poll(60.0)
            assert message is not None, f"{len(left)} partitions were not read to their end"
            key = str(message.topic()).removeprefix("east."), int(message.partition() or 0)
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(key)
            else:
                found[key].append((message.value() or b"").decode())
    finally:
        consumer.close()
    return found


def ends(cluster: str) -> Iterator[int]:
    """End of each copy that exists. Asks for nothing but ends: a look that reads would slow the worker down."""
    admin = AdminClient({"bootstrap.servers": cluster, "log_level": 3})
    there = admin.list_topics(timeout=60).topics
    copies = [TopicPartition(f"east.{topic}", partition) for topic, partition in KEYS if f"east.{topic}" in there]
    for asked in admin.list_offsets({copy: OffsetSpec.latest() for copy in copies}, request_timeout=60).values():
        with suppress(KafkaException):  # it has no leader yet
            yield int(asked.result(60).offset)


def missing(cluster: str, rounds: int) -> str:
    """Tells copies that lack some of these records; "": none does."""
    with_marker = Counter(min(end, rounds + 1) for end in ends(cluster))  # each copier begins with a marker
    if with_marker[rounds + 1] < len(KEYS):
        return f"of {len(KEYS)} copies, by the number of their offsets: {dict(sorted(with_marker.items()))}"
    found = Counter(min(len(values), rounds) for values in copied(cluster).values())
    return "" if found[rounds] == len(KEYS) else f"copies by the number of their records: {dict(sorted(found.items()))}"


def until_complete(cluster: str, rounds: int, worker: FlowProcess) -> None:
    began = time.monotonic()
    while lacks := missing(cluster, rounds):
        took_s = time.monotonic() - began
        print(f"{rounds} records each, after {took_s:.0f} s {lacks}", flush=True)
        assert took_s < PATIENCE_S, f"{lacks}\n{worker.text()[-5000:]}"
        time.sleep(5)
    print(f"{rounds} records each are there after {time.monotonic() - began:.0f} s", flush=True)


def test_each_of_ten_thousand_partitions_gets_its_records_once(stack: Stack, tmp_path: Path) -> None:
    # Given a thousand topics with a record in each partition
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    create_all(east)
    write_each(east, KEYS, "first")
    file = write_flows(tmp_path, {"east": east, "west": west}, {"east->west.enabled": "true"})
    # When a worker copies them, and a topic is created while they flow
    with flows(file) as worker:
        until_complete(west, 1, worker)
        create_topic(east, "late", PARTITIONS)
        produce(east, "late", [b"a", b"b"])
        write_each(east, KEYS, "second")
        until(lambda: count(west, "east.late") > 2, PATIENCE_S, worker.text)
        # And it is killed while it copies, and another one goes on
        write_each(east, KEYS, "third")
        worker.kill()
    with flows(file) as worker:
        until_complete(west, 3, worker)
        # Then each record arrived once, in its order
        assert [record.value for record in records(west, "east.late")] == [b"a", b"b"]
        found = copied(west)
    wrong = {
        (topic, partition): values
        for (topic, partition), values in found.items()
        if values != [f"{what} {topic} {partition}" for what in ("first", "second", "third")]
    }
    assert not wrong, Counter(len(values) for values in wrong.values())
