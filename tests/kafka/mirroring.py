"""Copies between two clusters, and waits for their states."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import Copying, CopyStatus
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId, log_partition
from ha_core.plan.facts.clusters import Partition
from tests.kafka.clients import Settings

Headers = list[tuple[str, str | bytes | None]]
LOG = "copies"
LOG_PARTITIONS = 2
Linked = Callable[..., str]
"""The fixture `linked`."""


def copy_of(topic: str, partition: int = 0) -> CopyPartition:
    id_ = CopyId("east-west", topic, partition)
    return CopyPartition(id_, (LOG, log_partition(id_, LOG_PARTITIONS)))


@contextmanager
def copying(
    source: Admin,
    target: Admin,
    copies: list[CopyPartition],
    starts: Mapping[Partition, int] | None = None,
    **more: Any,
) -> Iterator[Copying]:
    """:param starts: where copies without notes begin; by default at 0."""
    job = Copying(source, target, copies, {copy.key: 0 for copy in copies} if starts is None else starts, **more)
    thread = threading.Thread(target=job.run)
    thread.start()
    try:
        yield job
    finally:
        job.stop()
        thread.join(30)


def states(job: Copying) -> set[str]:
    return {status.state for status in job.statuses().values()}


def all_are(job: Copying, state: str) -> bool:
    return states(job) == {state}


def caught_up(job: Copying, ends: Mapping[Partition, int]) -> bool:
    found = job.statuses().items()
    return all(status.state == "copying" and status.has(ends[id_.topic, id_.partition]) for id_, status in found)


def wait_until(true: Callable[[], bool], why: Callable[[], object], seconds: float = 180) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, why()
        time.sleep(0.05)


def stopped(job: Copying, words: str, seconds: float = 120) -> CopyStatus:
    """Waits until the only partition of the job has stopped, for this reason."""
    wait_until(lambda: states(job) == {"stopped"}, job.statuses, seconds)
    (status,) = job.statuses().values()
    assert words in status.reason, status.reason
    return status


def content(base: Settings, topic: str, partition: int = 0) -> list[tuple[object, ...]]:
    """All records that a consumer of committed records reads, in order."""
    consumer = Consumer(base | {"group.id": "reads", "enable.partition.eof": True, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found: list[tuple[object, ...]] = []
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None
            if message.error():
                return found
            found.append((message.key(), message.value(), message.headers(), message.timestamp()))
    finally:
        consumer.close()
