"""A mirror on a running stack: linked by its document, written to all the time, and compared by content."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.security import NO_SECURITY
from ha_core.model import Cluster, Document, Mirror, PartitionReport
from ha_core.store.commits import StateChange
from ha_core.store.store import Store
from ha_core.wire.sasl import SecurityProfile
from stack.clients.confluent_settings import client_settings
from stack.harness import Stack
from tests.kafka.clients import Settings
from tests.kafka.mirroring import Headers, content, wait_until

PARTITIONS = 4


def account(stack: Stack) -> SecurityProfile:
    known = stack.service
    return NO_SECURITY if known is None else SecurityProfile("PLAIN", known["user"], known["password"])


def client(stack: Stack, cluster: str) -> Settings:
    """Settings of an ordinary client that reaches a cluster directly."""
    return {"bootstrap.servers": stack.clusters[cluster]["bootstrap"], **client_settings(account(stack))}


def link(stack: Stack, store: Store, topic: str, partitions: int = PARTITIONS) -> None:
    for name, cluster in stack.clusters.items():
        with Admin(Cluster(name=name, bootstrap=cluster["bootstrap"]), account(stack), 30) as admin:
            admin.create_topics([TopicSpec(topic, partitions, 1)])
    mirror = Mirror.of(topic, "east", "west", f"link-{topic}", "2026-11-23T02:00:00Z", "test")
    expected: dict[tuple[type[Document], str], int | None] = {(Mirror, mirror.key): None}
    store.commit(StateChange(change_id=f"link {topic}", puts=(mirror,), expected=expected))


class Writer:
    """Writes numbered records to all partitions all the time; `acknowledged` has those that brokers acknowledged."""

    def __init__(
        self, stack: Stack, topic: str, partitions: int = PARTITIONS, cluster: str = "east", first: int = 0
    ) -> None:
        """:param first: number of the first record."""
        self.producer = Producer({**client(stack, cluster), "enable.idempotence": True, "linger.ms": 2})
        self.topic, self.partitions = topic, partitions
        self.failed: list[KafkaError] = []
        self.written = first
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ending.wait(0.005):
            number = self.written
            headers: Headers = [("n", b"%d" % number)]
            self.producer.produce(
                self.topic, b"%d" % number, b"key", number % self.partitions, self._delivered, headers=headers
            )
            self.written += 1
            self.producer.poll(0)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed.append(error)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        assert self.producer.flush(60) == 0
        assert self.failed == []


def reports(store: Store, topic: str) -> dict[int, PartitionReport]:
    partition_reports = [partition for report in store.mirror_reports().values() for partition in report.partitions]
    return {report.partition: report for report in partition_reports if report.topic == topic}


def ends(stack: Stack, cluster: str, topic: str, partitions: int = PARTITIONS) -> dict[int, int]:
    """Log ends, including those of new partitions that have no leader yet."""
    consumer = Consumer({**client(stack, cluster), "group.id": "ends"})
    until = time.monotonic() + 60

    def end(partition: int) -> int:
        while True:
            try:
                return consumer.get_watermark_offsets(TopicPartition(topic, partition), 20)[1]
            except KafkaException:
                if time.monotonic() > until:
                    raise
            time.sleep(0.1)

    try:
        return {partition: end(partition) for partition in range(partitions)}
    finally:
        consumer.close()


def copied_up_to(store: Store, topic: str, wanted: dict[int, int]) -> bool:
    now = reports(store, topic)
    return all(p in now and now[p].state == "copying" and now[p].has(end) for p, end in wanted.items())


def goes_on(stack: Stack, store: Store, topic: str, partitions: int = PARTITIONS, seconds: float = 180) -> float:
    """Waits until the current contents of the source are copied; returns the time it took."""
    wanted, begun = ends(stack, "east", topic, partitions), time.monotonic()
    wait_until(lambda: copied_up_to(store, topic, wanted), lambda: (wanted, store.mirror_reports()), seconds)
    return time.monotonic() - begun


def assert_copied_once(stack: Stack, topic: str, writer: Writer) -> None:
    """Every record is in the copy once, at its offset."""
    for partition in range(writer.partitions):
        source = content(client(stack, "east"), topic, partition)
        assert content(client(stack, "west"), topic, partition) == source
        assert len(source) == len(range(partition, writer.written, writer.partitions))
