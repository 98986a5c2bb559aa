"""Flows by Switchyard and by a real MirrorMaker 2, on the same clusters in one run: start, new topics, offsets, memory.

Each side copies the same topics under its own alias. A record's value is its source offset. To see what a group would
be given after a failover, the benchmark reads the copy from the translated offset to its end: values below the group's
offset come twice, and values that do not come are skipped.
"""

import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from bench.copiers import Program, program
from bench.cost import rss_bytes
from bench.figures import BenchOutcome, FigureTable, number
from bench.flow_command import COMMON, NEW_TOPIC_S, TARGET, flow_command
from bench.flows_offsets import EXACT, HISTORY, Given, offsets
from bench.ground import BenchError, Say, Scale, create_topic, direct, up
from bench.mirror_maker import MirrorMakerSettings, mirror_maker
from stack.processes import members

OURS, PEER = "switchyard", "MirrorMaker 2"
_LEAST = {OURS: 2, PEER: 1}
"""Log end of a copy with one record: our copier writes the marker of its takeover first."""
BACK = (0, 5_000, 100_000)
"""Numbers of records by which groups are behind."""
_WAIT_S, _LOOK_S, _SETTLE_S = 600.0, 0.2, 70.0
_REFRESH_S = 660
"""Limit for a new topic: MirrorMaker 2 looks for topics every ten minutes by default."""


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
        ground = source, target, Path(folder)
        for side in _sides(source, target):
            say(f"{side.name} starts")
            figures[side.name] = _measured(side, ground, topics, records, back, scale, say)
    return BenchOutcome(
        {"sides": figures},
        _tables(figures, topics, records, back),
        unmeasured=tuple(unmeasured(figures, back)),
        missed=tuple(missed(figures)),
    )


def _sides(source: str, target: str) -> tuple[Side, ...]:
    def ours(folder: Path) -> AbstractContextManager[Program]:
        return _worker("ours", source, target, folder)

    def peer(folder: Path) -> AbstractContextManager[Program]:
        return mirror_maker(MirrorMakerSettings(PEER, COMMON), "peer", source, target, ".*", folder)

    return Side(PEER, "peer", peer), Side(OURS, "ours", ours)


def _worker(alias: str, source: str, target: str, folder: Path) -> AbstractContextManager[Program]:
    command = flow_command(alias, ".*", source, target, folder)
    return program(OURS, command, {}, folder / f"{alias}.log", patience_s=20.0)


def _measured(
    side: Side, ground: tuple[str, str, Path], topics: int, records: int, back: Sequence[int], scale: Scale, say: Say
) -> dict[str, object]:
    source, target, folder = ground
    begun = time.monotonic()
    found: dict[str, object] = {}
    with side.start(folder) as running:
        _until(running, lambda: _end(target, f"{side.alias}.{HISTORY}") >= _LEAST[side.name])
        found["first_record_s"] = time.monotonic() - begun
        _until(running, lambda: _end(target, f"{side.alias}.{HISTORY}") >= records - 1 + _LEAST[side.name])
        _until(running, lambda: _flowing(target, side, topics) == topics)
        found["all_topics_s"] = time.monotonic() - begun
        found["cpu_s"] = running.cpu_s()
        say(f"{side.name}: {topics} topics flow after {found['all_topics_s']:.0f} s, {running.cpu_s():.0f} CPU-s")
        found["new_topic_s"] = _new_topic_s(side, source, target, running, scale.pick(_REFRESH_S, 30))
        say(f"{side.name}: a new topic flows after {found['new_topic_s'] or float('nan'):.1f} s")
        time.sleep(scale.pick(round(_SETTLE_S), 10))
        found["offsets"] = offsets((side.alias, TARGET), (source, target), records, back, noted=side.name == OURS)
        before, at = running.cpu_s(), time.monotonic()
        time.sleep(10)
        found["idle_cores"] = (running.cpu_s() - before) / (time.monotonic() - at)
        found["rss_mb"] = rss_bytes(members(running.process.pid)) / 1e6
        found["rebalances"] = _rebalances(side, target, running, topics)
    return found


def _new_topic_s(side: Side, source: str, target: str, running: Program, limit_s: float) -> float | None:
    """Seconds from the creation of a topic to its first record in the target; None: over the limit."""
    new, at = f"new-{side.alias}", time.monotonic()
    create_topic(source, new, 1)
    _write(source, new, 1)
    seen = _within(running, lambda: _end(target, f"{side.alias}.{new}") >= _LEAST[side.name], limit_s)
    return time.monotonic() - at if seen else None


def _rebalances(side: Side, target: str, running: Program, topics: int) -> int:
    """MirrorMaker 2 logs its rebalances. Each takeover of ours writes a marker, so copies of one record whose end is
    above 2 were taken over again."""
    if side.name == PEER:
        return len(re.findall(r"Rebalance started", running.log.read_text("utf-8", "replace")))
    return sum(end - _LEAST[side.name] for end in _ends(target, [f"{side.alias}.t{one}" for one in range(topics)]))


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


def _flowing(target: str, side: Side, topics: int) -> int:
    """Number of topics whose copies have a record."""
    ends = _ends(target, [f"{side.alias}.t{number}" for number in range(topics)])
    return sum(end >= _LEAST[side.name] for end in ends)


def _ends(bootstrap: str, names: Sequence[str]) -> list[int]:
    """Ends of their partition 0; none if a topic or its leader is not known yet."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    there = admin.list_topics(timeout=20).topics
    if not all(name in there for name in names):
        return []
    wanted = {TopicPartition(name, 0): OffsetSpec.latest() for name in names}
    try:
        return [int(future.result(30).offset) for future in admin.list_offsets(wanted).values()]
    except KafkaException:
        return []


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


def _tables(
    figures: Mapping[str, Mapping[str, object]], topics: int, records: int, back: Sequence[int]
) -> tuple[FigureTable, ...]:
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
            "not seen" if side["new_topic_s"] is None else cell(side["new_topic_s"], 2),
            str(side["rebalances"]),
        )
        for name, side in figures.items()
    )
    header = (
        "by",
        "first record s",
        f"{topics} topics s",
        "CPU-s",
        "idle cores",
        "MB",
        "new topic s",
        "rebalances, takeovers again",
    )
    offset_rows = tuple(
        (name, way, *(_shown(_offsets_of(side)[f"{way}, {distance} back"]) for distance in back))
        for name, side in figures.items()
        for way in _ways(side)
    )
    distances = tuple("at the head" if not distance else f"{distance:,} behind" for distance in back)
    return (
        FigureTable("Start, new topics and idle cost", header, rows),
        FigureTable(
            f"Records that a group is given twice / never after a failover, of {records:,}",
            ("by", "way", *distances),
            offset_rows,
        ),
    )


def _offsets_of(side: Mapping[str, object]) -> Mapping[str, Given | None]:
    found = side["offsets"]
    assert isinstance(found, dict)
    return found


def _ways(side: Mapping[str, object]) -> list[str]:
    return list(dict.fromkeys(one.rpartition(", ")[0] for one in _offsets_of(side)))


def _shown(value: Given | None) -> str:
    return "not translated" if value is None else f"{value.twice:,} / {value.never:,}"


def unmeasured(figures: Mapping[str, Mapping[str, object]], back: Sequence[int]) -> Iterator[str]:
    """MirrorMaker 2 translates no offset below its oldest sync; a way without any translation is no figure."""
    for name, side in figures.items():
        for way in _ways(side):
            untold = [distance for distance in back if _offsets_of(side)[f"{way}, {distance} back"] is None]
            if len(untold) == len(back) or (untold and name == OURS):
                yield f"{name}: no translation by {way} for {untold} behind"
        if side["new_topic_s"] is None:
            yield f"{name}: the new topic was not copied in time"
    if not figures[PEER]["rebalances"]:
        yield f"{PEER}: its log has no rebalance, not even that of its start"


def missed(figures: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    ours = figures[OURS]
    for way, given_ in _offsets_of(ours).items():
        if way.startswith(EXACT) and given_ not in (None, Given(0, 0)):
            yield f"{OURS}: {way}: {_shown(given_)} records twice / never, goal 0 / 0"
        elif given_ is not None and given_.never:
            yield f"{OURS}: {way}: {given_.never} records are skipped, goal 0"
    if ours["rebalances"]:
        yield f"{OURS}: {ours['rebalances']} partitions were taken over again, goal 0"
    if isinstance(seconds := ours["new_topic_s"], float) and seconds >= NEW_TOPIC_S:
        yield f"{OURS}: a new topic takes {seconds:.1f} s, goal {NEW_TOPIC_S:g} s"
