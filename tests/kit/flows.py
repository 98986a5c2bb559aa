"""Flow workers as processes, and the contents of a cluster's topics."""

import json
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaError

PROGRAM = str(Path(sys.executable).with_name("switchyard"))
PATIENCE_S = 60.0
STOP_S = 40.0
_MISSING = {KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART}
ONE_BROKER = {
    "replication.factor": "1",
    **{f"{one}.topic.replication.factor": "1" for one in ("checkpoints", "heartbeats", "offset-syncs")},
}


class CopiedRecord(NamedTuple):
    """The parts of a record that its copy must have as well."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Any, ...]


class FlowProcess:
    """A process of `switchyard mirror-maker FILE`."""

    def __init__(self, file: Path, options: Iterable[str] = (), words: Iterable[str] | None = None) -> None:
        """:param words: arguments instead of `mirror-maker FILE`."""
        self.killed = False
        self.log = file.with_suffix(f".{time.monotonic_ns()}.log")
        with self.log.open("wb") as out:
            command = [PROGRAM, *(("mirror-maker", str(file)) if words is None else words), *options]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def wait_for_text(self, wanted: str, patience_s: float = PATIENCE_S) -> None:
        until(lambda: wanted in self.text() or self.process.poll() is not None, patience_s, self.text)
        assert wanted in self.text(), self.text()

    def kill(self) -> None:
        self.killed = True
        self.process.kill()
        self.process.wait(STOP_S)

    def stop(self) -> int:
        """Wait for the process's end; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def write_flows(folder: Path, clusters: Mapping[str, str], properties: Mapping[str, str], name: str = "mm2") -> Path:
    """:param clusters: alias → bootstrap address."""
    lines = {"clusters": ", ".join(clusters)}
    lines |= {f"{alias}.bootstrap.servers": address for alias, address in clusters.items()}
    file = folder / f"{name}.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in {**lines, **ONE_BROKER, **properties}.items()))
    return file


@contextmanager
def flows(file: Path, *options: str) -> Iterator[FlowProcess]:
    running = FlowProcess(file, options)
    try:
        yield running
        assert running.killed or running.process.poll() is None, running.text()
    finally:
        running.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(true: Callable[[], bool], patience_s: float = PATIENCE_S, why: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, why()
        time.sleep(0.2)


def produce(bootstrap: str, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for number, value in enumerate(values):
        while True:
            try:
                headers: list[tuple[str, str | bytes | None]] = [("at", b"%d" % number)]
                producer.produce(topic, value, b"k%d" % (number % 7), partition, headers=headers)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(PATIENCE_S) == 0


def records(bootstrap: str, topic: str, partition: int = 0, begin: int | None = None) -> list[CopiedRecord]:
    """All committed records of a partition, from the given offset on."""
    return [record for _, record in numbered(bootstrap, topic, partition, begin)]


def numbered(
    bootstrap: str, topic: str, partition: int = 0, begin: int | None = None
) -> list[tuple[int, CopiedRecord]]:
    """(offset, record) up to the partition's end at the time of the call; none if the partition does not exist.

    A partition that is written to all the time never reports its end, so the reader stops at the first offset above it.
    """
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "reader of a test",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(settings)
    found: list[tuple[int, CopiedRecord]] = []
    try:
        try:
            start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_S)
        except KafkaException as error:
            if error.args[0].code() not in _MISSING:
                raise
            return found
        consumer.assign([TopicPartition(topic, partition, start if begin is None else begin)])
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if (refused := message.error()) is not None:
                assert refused.code() == KafkaError._PARTITION_EOF, refused
                return found
            offset = int(message.offset() or 0)
            if offset >= end:
                return found
            headers = tuple(message.headers() or ())
            record = CopiedRecord(message.timestamp()[1], message.key(), message.value(), headers)
            found.append((offset, record))
    finally:
        consumer.close()
    raise AssertionError(f"{topic}-{partition} was not read to its end")


def count(bootstrap: str, topic: str, partition: int = 0) -> int:
    """Number of records and markers of a partition; 0 if it does not exist."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "counter of a test"})
    try:
        with suppress(KafkaException):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            return high - low
        return 0
    finally:
        consumer.close()


def shown(zookeeper: str) -> list[dict[str, object]]:
    command = [PROGRAM, "flows", "status", "--json", "--zookeeper", zookeeper]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert isinstance(document, list)
    return document


def copying(zookeeper: str) -> Counter[str]:
    """Worker → number of partitions that it copies."""
    found: Counter[str] = Counter()
    for entry in shown(zookeeper):
        partitions = entry["partitions"]
        assert isinstance(partitions, dict)
        found[str(entry["worker"])] += partitions.get("copying", 0)
    return found


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic; returns once the cluster no longer lists it."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    admin.delete_topics([topic])[topic].result(PATIENCE_S)
    until(lambda: topic not in admin.list_topics(timeout=10).topics)


def commit(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    wanted = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                consumer.commit(offsets=wanted, asynchronous=False)
            except KafkaException:
                assert time.monotonic() < deadline, f"{group} cannot commit"
                time.sleep(0.5)
            else:
                return
    finally:
        consumer.close()


def committed(bootstrap: str, group: str, topic: str, partition: int = 0) -> int:
    """The group's committed offset; -1001: none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=PATIENCE_S)
        return int(found.offset)
    finally:
        consumer.close()
