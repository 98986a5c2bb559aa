"""Runs a real MirrorMaker 2 and our copier in turns, on a topic that a producer writes all the time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from bench.copiers import Program
from bench.mirror_maker import MirrorMakerSettings, mirror_maker
from ha_core.flows.connect_state import ConnectState
from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import Copying
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId, log_partition
from ha_core.mirror_maker.handover import (
    HandedCopy,
    HandoverError,
    begin_copies,
    ensure_offsets_topic,
    handed_copies,
    offsets_producer,
    read_source_offsets,
    require_stopped,
    write_source_offsets,
)
from ha_core.model import Cluster
from ha_core.plan.facts.clusters import Partition
from stack.harness import Stack
from tests.kit.flows import write_flows
from tests.kit.running import bootstrap

TARGET = "west"
LOG, LOG_PARTITIONS = "copies", 2
PATIENCE_S = 120.0
_JAVA = "-Xms128m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_PROPERTIES = {
    "emit.heartbeats.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "refresh.groups.interval.seconds": "2",
    "emit.checkpoints.interval.seconds": "1",
    # Worker keys apply to a cluster, not to a flow. The default is a minute.
    f"{TARGET}.offset.flush.interval.ms": "3000",
    f"{TARGET}.offset.flush.timeout.ms": "1000",
}


class CopiedRecord(NamedTuple):
    """The parts of a record that its copy has as well."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, str | bytes | None], ...]
    time_ms: int


class Load:
    """Writes records with distinct keys, headers and texts until it is stopped."""

    def __init__(self, address: str, topic: str, partitions: int, per_s: float) -> None:
        self._producer = Producer({"bootstrap.servers": address, "acks": "all", "enable.idempotence": True})
        self._topic, self._partitions, self._pause_s = topic, partitions, 1 / per_s
        self._ending = threading.Event()
        self.written = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.wait(self._pause_s):
            headers: list[tuple[str, str | bytes | None]] = [("number", b"%d" % self.written), ("none", None)]
            value = None if self.written % 50 == 49 else b"%d" % self.written + b"x" * (self.written % 90)
            partition = self.written % self._partitions
            self._producer.produce(self._topic, value, b"k%d" % (self.written % 17), partition, headers=headers)
            self._producer.poll(0)
            self.written += 1

    def stop(self) -> None:
        self._ending.set()
        self._thread.join(30)
        assert self._producer.flush(60) == 0


@dataclass
class Handovers:
    """One flow from east to west, which both copy in turns."""

    stack: Stack
    source: Admin
    target: Admin
    alias: str
    topic: str
    partitions: int
    folder: Path
    version: str
    starts: int = 0

    @property
    def state(self) -> ConnectState:
        return ConnectState.dedicated(self.alias)

    @property
    def remote(self) -> str:
        return f"{self.alias}.{self.topic}"

    @property
    def copies(self) -> list[CopyPartition]:
        ids = [CopyId(f"{self.alias}->{TARGET}", self.remote, number) for number in range(self.partitions)]
        return [CopyPartition(id_, (LOG, log_partition(id_, LOG_PARTITIONS)), self.topic) for id_ in ids]

    @property
    def settings(self) -> dict[str, str]:
        return {"bootstrap.servers": bootstrap(self.stack, TARGET)}

    def flows_file(self) -> Path:
        """The flow as a file for our workers."""
        flow = f"{self.alias}->{TARGET}"
        addresses = {self.alias: bootstrap(self.stack, "east"), TARGET: bootstrap(self.stack, TARGET)}
        properties = {f"{flow}.enabled": "true", f"{flow}.topics": self.topic, "emit.heartbeats.enabled": "false"}
        return write_flows(self.folder, addresses, properties)

    @contextmanager
    def mirror_maker(self, patience_s: float = 60.0) -> Iterator[Program]:
        """:param patience_s: seconds to wait for its end; 0: kill it."""
        self.starts += 1
        folder = self.folder / f"start-{self.starts}"
        folder.mkdir()
        settings = MirrorMakerSettings(f"MirrorMaker {self.version}", _PROPERTIES, _JAVA, self.version, patience_s)
        addresses = bootstrap(self.stack, "east"), bootstrap(self.stack, TARGET)
        with mirror_maker(settings, self.alias, *addresses, self.topic, folder) as running:
            yield running

    def kill(self, running: Program) -> None:
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(30)

    def await_stopped(self) -> None:
        """Wait until MirrorMaker 2's members have left the group."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                return require_stopped(self.target, self.state)
            except HandoverError:
                assert time.monotonic() < until
                time.sleep(0.5)

    def take(self) -> list[HandedCopy]:
        """Hand over from MirrorMaker 2, which has stopped."""
        handed = handed_copies(self.source, self.target, self.copies, self.offsets())
        begin_copies(self.source, self.target, self.state, handed)
        return handed

    def offsets(self) -> dict[Partition, int]:
        return read_source_offsets(self.settings, self.state)

    def give_back(self, next_offsets: dict[Partition, int]) -> None:
        """Hand over to MirrorMaker 2, before it is started."""
        ensure_offsets_topic(self.target, self.state, replication=1)
        producer = offsets_producer(self.settings)
        written = write_source_offsets(producer, self.state, next_offsets)
        assert self.offsets() == written

    @contextmanager
    def copying(self, passes_overtaken: bool = False) -> Iterator[Copying]:
        job = Copying(self.source, self.target, self.copies, passes_overtaken=passes_overtaken)
        thread = threading.Thread(target=job.run)
        thread.start()
        try:
            yield job
        finally:
            job.stop()
            thread.join(30)

    def reached(self, job: Copying) -> dict[Partition, int]:
        """Partition of the source → next offset to copy, after the copy loop has ended."""
        found = {copy.source_key: job.reached(copy.id) for copy in self.copies}
        return {key: one.source for key, one in found.items() if one is not None}

    def in_source(self, partition: int) -> list[tuple[int, CopiedRecord]]:
        return numbered(bootstrap(self.stack, "east"), self.topic, partition)

    def in_target(self, partition: int) -> list[tuple[int, CopiedRecord]]:
        return numbered(bootstrap(self.stack, TARGET), self.remote, partition)

    def written_by_ours(self, partition: int) -> set[int]:
        """Offsets of the remote partition. Connect's producers are not idempotent, and ours are."""
        key = self.remote, partition
        end = self.target.ends([key])[key].log_end
        batches = (piece.batch for piece in self.target.log(key, 0, end))
        ours = [batch for batch in batches if batch.producer_id >= 0]
        return {at for batch in ours for at in range(batch.base_offset, batch.last_offset + 1)}

    def await_copied(self, beyond: int) -> None:
        """Wait until each partition of the remote topic has grown by some records."""
        before = self._ends()
        wait_until(lambda: all(end >= before[key] + beyond for key, end in self._ends().items()), str(before))

    def await_last(self) -> None:
        """Wait until each source partition and its copy have the same last record. Nothing may write meanwhile."""

        def level() -> bool:
            pairs = [(self.in_source(number), self.in_target(number)) for number in range(self.partitions)]
            return all(there and here[-1][1] == there[-1][1] for here, there in pairs)

        wait_until(level, "the copies are not level")

    def _ends(self) -> dict[Partition, int]:
        keys = [(self.remote, number) for number in range(self.partitions)]
        if not self.target.leaderships(keys):
            return dict.fromkeys(keys, 0)
        return {key: ends.log_end for key, ends in self.target.ends(keys).items()}


def wait_until(true: Callable[[], bool], why: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < until, why
        time.sleep(0.2)


def numbered(address: str, topic: str, partition: int) -> list[tuple[int, CopiedRecord]]:
    """(offset, record) of all committed records up to the current end.

    A consumer may never get the event of the end while a producer keeps writing.
    """
    settings = {"bootstrap.servers": address, "group.id": "reads", "enable.auto.commit": False, "log_level": 3}
    consumer = Consumer({**settings, "enable.partition.eof": True, "isolation.level": "read_committed"})
    found: list[tuple[int, CopiedRecord]] = []
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(30)
            assert message is not None
            offset = int(message.offset() or 0)
            if message.error() or offset >= end:
                return found
            headers = tuple((str(header[0]), header[1]) for header in message.headers() or ())
            record = CopiedRecord(message.key(), message.value(), headers, message.timestamp()[1])
            found.append((offset, record))
            if offset == end - 1:
                return found
    finally:
        consumer.close()


def partitions_of_keys(settings: dict[str, str], topic: str, partitions: int = 25) -> dict[bytes, set[int]]:
    """Key → partitions that have records with it."""
    consumer = Consumer({**settings, "group.id": "reads", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    found: dict[bytes, set[int]] = {}
    ended = 0
    while ended < partitions:
        message = consumer.poll(20)
        assert message is not None
        if message.error():
            ended += 1
        else:
            found.setdefault(message.key() or b"", set()).add(int(message.partition() or 0))
    consumer.close()
    return found


def clusters(stack: Stack) -> dict[str, Cluster]:
    return {name: Cluster(name=name, bootstrap=known["bootstrap"]) for name, known in stack.clusters.items()}
