"""Both sides of the benchmarks of flows: a real MirrorMaker 2 and our worker, each with its own alias of one source."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from bench.copiers import Program, program
from bench.flow_command import COMMON, flow_command
from bench.ground import BenchError
from bench.mirror_maker import MirrorMakerSettings, mirror_maker

OURS, PEER = "switchyard", "MirrorMaker 2"
LEAST = {OURS: 2, PEER: 1}
"""Log end of a copy with one record: our copier writes the marker of its takeover first."""
_WAIT_S, _LOOK_S = 600.0, 0.2


class Side(NamedTuple):
    """:ivar alias: the source's alias, which begins the names of this side's remote topics."""

    name: str
    alias: str
    start: Callable[[Path], AbstractContextManager[Program]]


def sides(source: str, target: str, topics: str) -> tuple[Side, ...]:
    def ours(folder: Path) -> AbstractContextManager[Program]:
        return _worker("ours", topics, source, target, folder)

    def peer(folder: Path) -> AbstractContextManager[Program]:
        return mirror_maker(MirrorMakerSettings(PEER, COMMON), "peer", source, target, topics, folder)

    return Side(OURS, "ours", ours), Side(PEER, "peer", peer)


def _worker(alias: str, topics: str, source: str, target: str, folder: Path) -> AbstractContextManager[Program]:
    command = flow_command(alias, topics, source, target, folder)
    return program(OURS, command, {}, folder / f"{alias}.log", patience_s=20.0)


def write(bootstrap: str, records: Iterable[tuple[str, int]]) -> None:
    """:param records: (topic, number) of each; the number is its value."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20})
    for topic, number in records:
        while True:
            try:
                producer.produce(topic, b"%d" % number, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    if left := producer.flush(120):
        raise BenchError(f"{left} records were not written")


def end_of(bootstrap: str, topic: str) -> int:
    with _reader(bootstrap) as consumer:
        listed = consumer.list_topics(topic, timeout=10).topics[topic]
        if listed.error is not None or not listed.partitions:
            return 0
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1])
        except KafkaException:  # the topic was just created, and its leader does not know it yet
            return 0


@contextmanager
def _reader(bootstrap: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench-looks", "log_level": 3})
    try:
        yield consumer
    finally:
        consumer.close()


def until(running: Program, true: Callable[[], bool]) -> None:
    if not within(running, true, _WAIT_S):
        raise running.failed(f"it made no progress in {_WAIT_S:.0f} s")


def within(running: Program, true: Callable[[], bool], wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        running.check()
        if true():
            return True
        time.sleep(_LOOK_S)
    return False
