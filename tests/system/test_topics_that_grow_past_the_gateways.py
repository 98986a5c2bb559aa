"""A mirrored topic gets a partition in its source by Kafka's tools: none of it is lost or routed elsewhere, before and
after its copy has grown."""

import time

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from ha_core.kafka.facts import TopicSpec
from ha_core.operations.access import bindings
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.copies.comparing import compare_mirrors
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.proposal.proposal import plan
from stack.harness import Stack
from tests.kafka.mirroring import wait_until
from tests.kit.moving import a_forced_move, a_move, linked, moved
from tests.kit.running import bootstrap
from tests.kit.stacks import operator, own_stack
from tests.system.reading_near import Reader

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("ha_core/operations/copies/syncing", "gateway/composed/topics_admin.py"),
]
TOPIC, NEW, RECORDS = "orders", 2, 200
"""The topic has two partitions, and gets a third one."""


stack = own_stack(gateways=1, mirror=True)
environment = operator()


class Writer:
    """Writes numbers to one partition through the gateway, and records the offset of each."""

    def __init__(self, stack: Stack) -> None:
        settings = {"topic.metadata.refresh.interval.ms": 500, "message.timeout.ms": 60_000, "acks": "all"}
        self._producer = Producer({"bootstrap.servers": stack.gateways[0]["bootstrap"], **settings})
        self._next = 0
        self.offsets: dict[int, dict[int, bytes]] = {}

    def known(self) -> int:
        """Number of partitions that the gateway reports."""
        return len(self._producer.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions)

    def write(self, partition: int, count: int = RECORDS) -> None:
        told = list[tuple[KafkaError | None, Message]]()

        def tell(error: KafkaError | None, message: Message) -> None:
            told.append((error, message))

        for number in range(self._next, self._next + count):
            self._producer.produce(TOPIC, b"%d" % number, partition=partition, on_delivery=tell)
            self._producer.poll(0)
        self._next += count
        assert self._producer.flush(90) == 0
        assert [error for error, _ in told if error is not None] == []
        for _, message in told:
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert value is not None
            self.offsets.setdefault(partition, {})[offset] = value


def partitions(environment: Environment, cluster: str) -> int:
    return admin_of(environment, cluster).partition_counts([TOPIC])[TOPIC]


def read(reader: Reader, writer: Writer) -> None:
    reader.read(sum(map(len, writer.offsets.values())))
    for partition, records in writer.offsets.items():
        assert reader.found[partition] == sorted(records.items())


@pytest.mark.timeout(600)
def test_a_partition_added_in_the_source_is_written_and_read_there_until_its_copy_has_it(
    stack: Stack, environment: Environment
) -> None:
    # Given a mirrored topic with a writer, and a reader that is served from its copy
    admin_of(environment, "east").create_topics([TopicSpec(TOPIC, NEW, 1)])
    linked(environment, TOPIC)
    declared = bindings.with_read(environment.store.load(), "user:anonymous", "west")
    assert bindings.apply_bindings(environment, bindings.plan_bindings(environment, declared)).result == "succeeded"
    writer = Writer(stack)
    for partition in range(NEW):
        writer.write(partition)
    wait_until(lambda: compare_mirrors(environment, [TOPIC], "west", 1.0, 0).equal, lambda: "it is copied", 120)
    # When the topic grows in the source, while the copying job is away
    stack.pause("mirror")
    try:
        admin = AdminClient({"bootstrap.servers": bootstrap(stack, "east")})
        admin.create_partitions([NewPartitions(TOPIC, NEW + 1)])[TOPIC].result(30)
        wait_until(lambda: writer.known() == NEW + 1, lambda: "the gateway shows it", 30)
        # Then the new partition is written and read in the source, also by the reader of the copy
        writer.write(NEW)
        assert partitions(environment, "west") == NEW
        reader = Reader(stack.gateways[0], TOPIC, NEW + 1)
        try:
            read(reader, writer)
        finally:
            reader.close()
        # And no client moves to a copy that lacks it, planned or forced
        record(environment, ["east"])
        for request in (a_move(TOPIC), a_forced_move(TOPIC, force=True)):
            refused = {verdict.code for verdict in plan(environment, request).verdicts if verdict.level == "error"}
            assert "partition-count" in refused
    finally:
        stack.resume("mirror")
    # When the copy has grown, which takes some seconds
    begun = time.monotonic()
    wait_until(lambda: partitions(environment, "west") == NEW + 1, lambda: "the copy grows", 60)
    print(f"the copy has grown {time.monotonic() - begun:.1f} s after the job went on")
    wait_until(lambda: compare_mirrors(environment, [TOPIC], "west", 1.0, 0).equal, lambda: "it is copied", 120)
    # And the topic is switched to it
    report = moved(environment, a_move(TOPIC))
    assert report.result == "succeeded", report.error
    # Then everything is read there, and each partition continues at its offset
    for partition in range(NEW + 1):
        writer.write(partition)
        assert [*writer.offsets[partition]] == [*range(2 * RECORDS)]
    reader = Reader(stack.gateways[0], TOPIC, NEW + 1)
    try:
        read(reader, writer)
    finally:
        reader.close()
