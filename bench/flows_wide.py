"""A flow of a thousand topics with ten partitions each: takeovers, idle cost, memory, a new topic while all flow, and
another worker that takes all of it over."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from bench.copiers import Program, program
from bench.cost import rss_bytes
from bench.figures import BenchOutcome, FigureTable, number
from bench.flow_command import NEW_TOPIC_S, TARGET, flow_command
from bench.ground import BenchError, Say, Scale, create_topic, direct, up
from stack.processes import members

PARTITIONS = 10
ALIAS = "wide"
_TRICKLE_S = 1_000
"""Records per second to all partitions together."""
_LEAST_SHARE = 0.8
"""Share of these that has to be copied in the same time: else the copier fell behind, and its cost says nothing."""
_TRIES = 5
_AT_REST = 0.2
"""Cores."""
_WAIT_S, _LOOK_S, _IDLE_S = 900.0, 1.0, 20.0


def run(scale: Scale, say: Say) -> BenchOutcome:
    with up(0, say) as stack, tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        source, target = direct(stack, "east"), direct(stack, TARGET)
        topics = [f"w{number_}" for number_ in range(scale.pick(1_000, 20))]
        keys = [(topic, partition) for topic in topics for partition in range(PARTITIONS)]
        say(f"{len(topics)} topics with {PARTITIONS} partitions each are written")
        _create(source, topics)
        _write_each(source, keys)
        found = _measured(scale, source, target, keys, Path(folder), say)
        found |= _taken_over(source, target, keys, Path(folder))
    return BenchOutcome(found, (_table(found),), unmeasured=tuple(_unmeasured(found)), missed=tuple(_missed(found)))


def _measured(
    scale: Scale, source: str, target: str, keys: Sequence[tuple[str, int]], folder: Path, say: Say
) -> dict[str, float]:
    """:raises BenchError: the worker made no progress."""
    worker, log = flow_command(ALIAS, "w.*", source, target, folder), folder / f"{ALIAS}.log"
    topics = list(dict(keys))
    found: dict[str, float] = {"partitions": len(keys)}
    begun = time.monotonic()
    with program(ALIAS, worker, {}, log, patience_s=40.0) as running:
        _until(running, lambda: _created(target, topics))
        found["created_s"], found["created_cpu_s"] = time.monotonic() - begun, running.cpu_s()
        _until(running, lambda: _flowing(target, keys) == len(keys))
        found["all_s"] = time.monotonic() - begun
        found["cpu_s"] = running.cpu_s() - found["created_cpu_s"]
        say(f"{len(keys)} partitions flow after {found['all_s']:.0f} s, {found['cpu_s']:.0f} CPU-s")
        found["settled_s"], found["idle_cores"] = _settled(running)
        found["rss_mb"] = rss_bytes(members(running.process.pid)) / 1e6
        with _trickle(source, keys) as written:
            _until(running, lambda: written() >= _TRICKLE_S)  # its producer knows all topics
            at = time.monotonic()
            create_topic(source, "w-new", PARTITIONS)
            _write_each(source, new := [("w-new", partition) for partition in range(PARTITIONS)])
            _until(running, lambda: _flowing(target, new) == len(new), 0.1)
            found["new_topic_s"] = time.monotonic() - at
            copied, due = sum(_ends(target, keys)), written()
            before, at = running.cpu_s(), time.monotonic()
            time.sleep(_IDLE_S)
            took_s = time.monotonic() - at
            found["trickle_cores"] = (running.cpu_s() - before) / took_s
            found["written_s"] = (written() - due) / took_s
            found["trickle_s"] = (sum(_ends(target, keys)) - copied) / took_s
    return found


def _taken_over(source: str, target: str, keys: Sequence[tuple[str, int]], folder: Path) -> dict[str, float]:
    """A new worker, which compares the last copied record of each partition in both clusters before it goes on.

    :raises BenchError: the worker made no progress.
    """
    before = _ends(target, keys)
    _write_each(source, keys)
    worker, begun = flow_command(ALIAS, "w.*", source, target, folder), time.monotonic()
    with program(f"{ALIAS}-2", worker, {}, folder / f"{ALIAS}-2.log", patience_s=40.0) as running:

        def goes_on() -> bool:  # above its marker
            now = _ends(target, keys)
            return len(now) == len(before) and all(one >= end + 2 for one, end in zip(now, before, strict=True))

        _until(running, goes_on)
        return {"taken_over_s": time.monotonic() - begun, "taken_over_cpu_s": running.cpu_s()}


def _settled(running: Program) -> tuple[float, float]:
    """Seconds until the worker came to rest, and the cores that it takes then."""
    begun = time.monotonic()
    while True:
        before, at = running.cpu_s(), time.monotonic()
        time.sleep(_IDLE_S)
        cores = (running.cpu_s() - before) / (time.monotonic() - at)
        if cores < _AT_REST or time.monotonic() - begun > _WAIT_S:
            return at - begun, cores


def _unmeasured(found: dict[str, float]) -> Iterator[str]:
    if found["trickle_s"] < _LEAST_SHARE * found["written_s"] or found["written_s"] < _TRICKLE_S / 2:
        yield f"{found['trickle_s']:.0f} records/s were copied, and {found['written_s']:.0f} of {_TRICKLE_S} written"


def _missed(found: dict[str, float]) -> Iterator[str]:
    if found["new_topic_s"] >= NEW_TOPIC_S:
        yield f"a new topic takes {found['new_topic_s']:.1f} s, goal {NEW_TOPIC_S:g} s"


def _table(found: dict[str, float]) -> FigureTable:
    partitions = int(found["partitions"])
    row = (
        "switchyard",
        number(found["created_s"]),
        number(found["all_s"] - found["created_s"]),
        number(found["cpu_s"]),
        number(1000 * found["cpu_s"] / partitions, 2),
        number(found["settled_s"]),
        number(found["idle_cores"], 2),
        number(found["trickle_cores"], 2),
        number(found["rss_mb"]),
        number(found["new_topic_s"], 2),
        number(found["taken_over_s"]),
        number(found["taken_over_cpu_s"]),
    )
    header = (
        "by",
        "topics created s",
        "then all flow s",
        "CPU-s",
        "CPU-ms each",
        "at rest after s",
        "idle cores",
        "cores at 1,000/s",
        "MB",
        "new topic s",
        "taken over s",
        "CPU-s",
    )
    return FigureTable(f"A flow of {partitions:,} partitions, {PARTITIONS} for each topic", header, (row,))


def _create(bootstrap: str, topics: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    for first in range(0, len(topics), 50):
        some = [NewTopic(topic, PARTITIONS) for topic in topics[first : first + 50]]
        for future in admin.create_topics(some).values():
            future.result(120)


def _write_each(bootstrap: str, keys: Sequence[tuple[str, int]]) -> None:
    """:raises BenchError: a record was not acknowledged."""
    left = list(keys)
    # A new topic that the broker does not name within half a minute is an error to the producer.
    for _ in range(_TRIES):
        left = _unwritten(bootstrap, left)
        if not left:
            return
    raise BenchError(f"{len(left)} records were not written")


def _unwritten(bootstrap: str, keys: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Writes a record to each; those without an acknowledgement."""
    left = set(keys)

    def told(error: KafkaError | None, message: Message) -> None:
        if error is None:
            left.discard((str(message.topic()), int(message.partition() or 0)))

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, "enable.idempotence": True})
    for topic, partition in keys:
        producer.produce(topic, b"%d" % partition, partition=partition, on_delivery=told)
        producer.poll(0)
    producer.flush(300)
    return sorted(left)


@contextmanager
def _trickle(bootstrap: str, keys: Sequence[tuple[str, int]]) -> Iterator[Callable[[], int]]:
    """Writes to one partition after the other while the block runs; yields the number of acknowledged records."""
    ending = threading.Event()
    acknowledged = 0

    def told(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    def write() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
        for topic in dict(keys):  # one after the other, or the broker answers a thousand requests at once
            producer.list_topics(topic, timeout=60)
        begun, sent = time.monotonic(), 0
        while not ending.wait(0.02):
            due = int((time.monotonic() - begun) * _TRICKLE_S)
            for count in range(sent, due):
                topic, partition = keys[count % len(keys)]
                producer.produce(topic, b"more", partition=partition, on_delivery=told)
            producer.poll(0)
            sent = due
        producer.flush(60)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield lambda: acknowledged
    finally:
        ending.set()
        thread.join()


def _created(bootstrap: str, topics: Sequence[str]) -> bool:
    there = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3}).list_topics(timeout=60).topics
    return all(f"{ALIAS}.{topic}" in there for topic in topics)


def _flowing(bootstrap: str, keys: Sequence[tuple[str, int]]) -> int:
    """Number of the partitions whose copies have a record above their copier's marker."""
    return sum(end >= 2 for end in _ends(bootstrap, keys))


def _ends(bootstrap: str, keys: Sequence[tuple[str, int]]) -> list[int]:
    """Ends of their copies; none if one of them, or its leader, is not known yet."""
    if not _created(bootstrap, list(dict(keys))):
        return []
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    wanted = {TopicPartition(f"{ALIAS}.{topic}", partition): OffsetSpec.latest() for topic, partition in keys}
    try:
        return [int(future.result(60).offset) for future in admin.list_offsets(wanted).values()]
    except KafkaException:
        return []


def _until(running: Program, true: Callable[[], bool], look_s: float = _LOOK_S) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not true():
        running.check()
        if time.monotonic() > deadline:
            raise running.failed(f"it did not get on in {_WAIT_S:.0f} s")
        time.sleep(look_s)
