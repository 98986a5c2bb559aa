"""Flows by Switchyard and by a real MirrorMaker 2, on the same clusters in one run: start, new topics, offsets, memory;
then a flow of ten thousand partitions (`flows_wide`), and what renaming costs (`flows_renaming`).

Each side copies the same topics under its own alias. A record's value is its source offset, so the record at a
translated offset shows how many records a group would read twice, or never.
"""

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import KafkaError, NewTopic

from bench import flows_renaming, flows_wide
from bench.copiers import Program, program
from bench.cost import rss_bytes
from bench.figures import BenchOutcome, FigureTable, number
from bench.ground import BenchError, Say, Scale, create_topic, direct, up
from bench.mirror_maker import MirrorMakerSettings, mirror_maker
from ha_core.flows.translation import SyncStore, Translated
from ha_core.mirror_client import MirrorClient, exact_maps
from stack.processes import members

OURS, PEER = "switchyard", "MirrorMaker 2"
TARGET = "west"
HISTORY = "history"
"""The topic that groups read: one partition with many records."""
BACK = (0, 5_000, 100_000)
"""Numbers of records by which groups are behind."""
_WAIT_S, _LOOK_S, _SETTLE_S = 300.0, 0.2, 70.0
_COMMON = {
    "emit.checkpoints.interval.seconds": "5",
    "refresh.groups.interval.seconds": "5",
    "sync.topic.acls.enabled": "false",
}


class Side(NamedTuple):
    """:ivar alias: the source's alias, which begins the names of this side's remote topics."""

    name: str
    alias: str
    start: Callable[[Path], AbstractContextManager[Program]]


def run(scale: Scale, say: Say) -> BenchOutcome:
    topics, records = scale.pick(1_000, 20), scale.pick(150_000, 12_000)
    with up(0, say) as stack, tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        source, target = direct(stack, "east"), direct(stack, TARGET)
        say(f"{topics} topics and {records} records are written")
        _create(source, [f"t{number}" for number in range(topics)])
        create_topic(source, HISTORY, 1)
        _write(source, HISTORY, records)
        for number in range(topics):
            _write(source, f"t{number}", 1, flush=False)
        _FLUSH[source].flush(60)
        back = [distance for distance in BACK if distance <= records]
        for distance in back:
            _commit(source, f"back-{distance}", records - distance)
        figures: dict[str, dict[str, object]] = {}
        for side in _sides(source, target):
            say(f"{side.name} starts")
            figures[side.name] = _measured(side, source, target, topics, records, back, Path(folder), say)
        command = _command(flows_wide.ALIAS, "w.*", source, target, Path(folder))
        log = Path(folder) / f"{flows_wide.ALIAS}.log"
        wide = flows_wide.measured_wide(scale, source, target, command, log, say)
        say("copies under another name and under their own")
        renaming = flows_renaming.measured_renaming(scale, source, target, Path(folder), say)
    named, said = flows_renaming.table(renaming)
    return BenchOutcome(
        {"sides": figures, "wide": wide, "renaming": renaming},
        (*_tables(figures, topics, back), flows_wide.table(wide), named),
        (said,),
        tuple(_unmeasured(figures)),
    )


def _sides(source: str, target: str) -> tuple[Side, ...]:
    def ours(folder: Path) -> AbstractContextManager[Program]:
        return _worker("ours", source, target, folder)

    def peer(folder: Path) -> AbstractContextManager[Program]:
        return mirror_maker(MirrorMakerSettings(PEER, _COMMON), "peer", source, target, ".*", folder)

    return Side(PEER, "peer", peer), Side(OURS, "ours", ours)


def _worker(alias: str, source: str, target: str, folder: Path) -> AbstractContextManager[Program]:
    command = _command(alias, ".*", source, target, folder)
    return program(OURS, command, {}, folder / f"{alias}.log", patience_s=20.0)


def _command(alias: str, topics: str, source: str, target: str, folder: Path) -> tuple[str, ...]:
    """A worker with one flow."""
    properties = {
        "clusters": f"{alias}, {TARGET}",
        f"{alias}.bootstrap.servers": source,
        f"{TARGET}.bootstrap.servers": target,
        f"{alias}->{TARGET}.enabled": "true",
        f"{alias}->{TARGET}.topics": topics,
        "emit.heartbeats.interval.seconds": "1",
        "replication.factor": "1",
        **_COMMON,
    }
    file = folder / f"{alias}.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()), "utf-8")
    return str(Path(sys.executable).with_name("switchyard")), "mirror-maker", str(file)


def _measured(
    side: Side, source: str, target: str, topics: int, records: int, back: Sequence[int], folder: Path, say: Say
) -> dict[str, object]:
    begun = time.monotonic()
    found: dict[str, object] = {}
    with side.start(folder) as running:
        _until(running, lambda: _end(target, f"{side.alias}.{HISTORY}") > 1)
        found["first_record_s"] = time.monotonic() - begun
        _until(running, lambda: _end(target, f"{side.alias}.{HISTORY}") >= records)
        _until(running, lambda: _flowing(target, side.alias, topics) == topics)
        found["all_topics_s"] = time.monotonic() - begun
        found["cpu_s"] = running.cpu_s()
        say(f"{side.name}: {topics} topics flow after {found['all_topics_s']:.0f} s, {running.cpu_s():.0f} CPU-s")
        time.sleep(min(_SETTLE_S, 10.0 if topics < 100 else _SETTLE_S))
        found["offsets"] = _offsets(side, source, target, records, back)
        before, at = running.cpu_s(), time.monotonic()
        time.sleep(10)
        found["idle_cores"] = (running.cpu_s() - before) / (time.monotonic() - at)
        found["rss_mb"] = rss_bytes(members(running.process.pid)) / 1e6
        new = f"new-{side.alias}"
        create_topic(source, new, 1)
        _write(source, new, 1)
        at = time.monotonic()
        # By default MirrorMaker 2 looks for new topics every ten minutes, longer than this waits.
        seen = _within(running, lambda: _end(target, f"{side.alias}.{new}") > 0, 30.0)
        found["new_topic_s"] = time.monotonic() - at if seen else None
        found["rebalances"] = len(re.findall(r"Rebalance started", running.log.read_text("utf-8", "replace")))
    return found


def _offsets(side: Side, source: str, target: str, records: int, back: Sequence[int]) -> dict[str, object]:
    """Way and distance → records that a group reads twice (positive) or never (negative); None: not translated."""
    remote = f"{side.alias}.{HISTORY}"
    found: dict[str, object] = {}
    with MirrorClient({"bootstrap.servers": target}) as client:
        for distance in back:
            position = client.translate_offsets(side.alias, f"back-{distance}").get((remote, 0))
            committed = records - distance
            found[f"checkpoint, {distance} back"] = (
                None if position is None else committed - _source_offset(target, remote, position.offset, records)
            )
    with MirrorClient({"bootstrap.servers": source}) as client:
        store = SyncStore()
        for sync in client.offset_syncs(TARGET):
            store.add(sync)
    maps = exact_maps({"bootstrap.servers": target}, f"{side.alias}->{TARGET}", [(remote, 0)])
    for distance in back:
        committed = records - distance
        for way, one in (
            ("offset syncs", store.translate(HISTORY, 0, committed)),
            *((("exact map", maps[remote, 0].translate(committed)),) if maps else ()),
        ):
            found[f"{way}, {distance} back"] = (
                committed - _source_offset(target, remote, one.offset, records) if isinstance(one, Translated) else None
            )
    return found


def _source_offset(target: str, remote: str, offset: int, records: int) -> int:
    """Source offset of the first record at or above an offset of the copy; the source's end if there is no record."""
    settings = {"bootstrap.servers": target, "group.id": "bench", "enable.partition.eof": True, "log_level": 3}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(remote, 0, offset)])
        deadline = time.monotonic() + _WAIT_S
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return records
                raise BenchError(f"{remote} cannot be read at offset {offset}: {error}")
            return int(message.value() or b"")
    finally:
        consumer.close()
    raise BenchError(f"{remote} was not read at offset {offset}")


_FLUSH: dict[str, Producer] = {}


def _write(bootstrap: str, topic: str, records: int, flush: bool = True) -> None:
    producer = _FLUSH.setdefault(bootstrap, Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20}))
    for value in range(records):
        while True:
            try:
                producer.produce(topic, b"%d" % value, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    if flush and producer.flush(120):
        raise BenchError(f"{records} records were not written to {topic}")


def _create(bootstrap: str, names: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    for first in range(0, len(names), 100):
        for future in admin.create_topics([NewTopic(name, 1) for name in names[first : first + 100]]).values():
            future.result(120)


def _commit(bootstrap: str, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(HISTORY, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def _end(bootstrap: str, topic: str) -> int:
    with _reader(bootstrap) as consumer:
        listed = consumer.list_topics(topic, timeout=10).topics[topic]
        if listed.error is not None or not listed.partitions:
            return 0
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1])
        except KafkaException:  # the topic was just created, and its leader does not know it yet
            return 0


def _flowing(bootstrap: str, alias: str, topics: int) -> int:
    """Number of topics whose copies have a record."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    names = [f"{alias}.t{number}" for number in range(topics)]
    there = admin.list_topics(timeout=20).topics
    wanted = {TopicPartition(name, 0): OffsetSpec.latest() for name in names if name in there}
    if len(wanted) < topics:
        return 0
    # Our copier writes a marker at offset 0 before the first record.
    least = 2 if alias == "ours" else 1
    try:
        return sum(future.result(30).offset >= least for future in admin.list_offsets(wanted).values())
    except KafkaException:  # a leader does not know its topic yet
        return 0


@contextmanager
def _reader(bootstrap: str) -> Iterator[Consumer]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench-looks", "log_level": 3})
    try:
        yield consumer
    finally:
        consumer.close()


def _until(running: Program, true: Callable[[], bool]) -> None:
    if not _within(running, true, _WAIT_S):
        raise running.failed(f"it made no progress in {_WAIT_S:.0f} s")


def _within(running: Program, true: Callable[[], bool], wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        running.check()
        if true():
            return True
        time.sleep(_LOOK_S)
    return False


def _tables(figures: Mapping[str, Mapping[str, object]], topics: int, back: Sequence[int]) -> tuple[FigureTable, ...]:
    def cell(value: object, digits: int = 3) -> str:
        return "-" if value is None else number(float(str(value)), digits)

    rows = tuple(
        (
            name,
            cell(side["first_record_s"]),
            cell(side["all_topics_s"]),
            cell(side["cpu_s"]),
            cell(side["idle_cores"], 2),
            cell(side["rss_mb"]),
            "over 30" if side["new_topic_s"] is None else cell(side["new_topic_s"], 2),
            str(side["rebalances"]),
        )
        for name, side in figures.items()
    )
    header = ("by", "first record s", f"{topics} topics s", "CPU-s", "idle cores", "MB", "new topic s", "rebalances")
    ways = dict.fromkeys(way for side in figures.values() for way in _offsets_of(side))
    offset_rows = tuple(
        (name, way, *(_shown(_offsets_of(side).get(f"{way}, {distance} back")) for distance in back))
        for name, side in figures.items()
        for way in dict.fromkeys(one.rpartition(", ")[0] for one in ways)
    )
    distances = tuple(f"{distance:,} back" for distance in back)
    return (
        FigureTable("Start, new topics and idle cost", header, rows),
        FigureTable(
            "Records read twice (+) or never (-) at translated offsets", ("by", "way", *distances), offset_rows
        ),
    )


def _offsets_of(side: Mapping[str, object]) -> Mapping[str, object]:
    found = side["offsets"]
    assert isinstance(found, dict)
    return found


def _shown(value: object) -> str:
    return "-" if value is None else f"{int(str(value)):+,}" if value else "0"


def _unmeasured(figures: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    for way, value in _offsets_of(figures[OURS]).items():
        if value is None:
            yield f"{OURS}: no translation by {way}"
    if figures[OURS]["new_topic_s"] is None:
        yield f"{OURS}: the new topic was not copied in 30 s"
