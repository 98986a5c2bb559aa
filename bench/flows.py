"""Flows by Switchyard and by a real MirrorMaker 2, on the same clusters in one run: start, 1,000 topics, a new topic,
idle cost, memory. Each side copies the same topics under its own alias.
"""

import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from bench.copiers import Program
from bench.cost import rss_bytes
from bench.figures import BenchOutcome, FigureTable, number
from bench.flow_command import NEW_TOPIC_S, TARGET
from bench.flow_sides import LEAST, OURS, PEER, Side, end_of, sides, until, within, write
from bench.ground import Say, Scale, create_topic, direct, up
from stack.processes import members

_SETTLE_S = 60
_ALL_S = 600.0
_REFRESH_S = 660
"""Limit for a new topic: MirrorMaker 2 looks for topics every ten minutes by default."""


def run(scale: Scale, say: Say) -> BenchOutcome:
    topics = scale.pick(1_000, 20)
    with up(0, say) as stack, tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        source, target = direct(stack, "east"), direct(stack, TARGET)
        say(f"{topics} topics are written")
        _create(source, [f"t{one}" for one in range(topics)])
        write(source, [(f"t{one}", 0) for one in range(topics)])
        figures: dict[str, dict[str, object]] = {}
        for side in sides(source, target, "t.*,new-.*"):
            say(f"{side.name} starts")
            figures[side.name] = _measured(side, source, target, Path(folder), topics, scale, say)
    return BenchOutcome(
        {"sides": figures},
        (_table(figures, topics),),
        unmeasured=tuple(unmeasured(figures)),
        missed=tuple(missed(figures)),
    )


def _measured(
    side: Side, source: str, target: str, folder: Path, topics: int, scale: Scale, say: Say
) -> dict[str, object]:
    begun = time.monotonic()
    found: dict[str, object] = {}
    with side.start(folder) as running:
        until(running, lambda: end_of(target, f"{side.alias}.t0") >= LEAST[side.name])
        found["first_record_s"] = time.monotonic() - begun
        seen = within(running, lambda: _flowing(target, side, topics) == topics, _ALL_S)
        found["all_topics_s"] = time.monotonic() - begun if seen else None
        found["cpu_s"] = running.cpu_s()
        say(f"{side.name}: {topics} topics flow after {cell(found['all_topics_s'])} s, {running.cpu_s():.0f} CPU-s")
        found["new_topic_s"] = _new_topic_s(side, source, target, running, scale.pick(_REFRESH_S, 30))
        say(f"{side.name}: a new topic flows after {cell(found['new_topic_s'], 2)} s")
        time.sleep(scale.pick(_SETTLE_S, 10))
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
    write(source, [(new, 0)])
    seen = within(running, lambda: end_of(target, f"{side.alias}.{new}") >= LEAST[side.name], limit_s)
    return time.monotonic() - at if seen else None


def _rebalances(side: Side, target: str, running: Program, topics: int) -> int:
    """MirrorMaker 2 logs its rebalances. Each takeover of ours writes a marker, so copies of one record whose end is
    above 2 were taken over again."""
    if side.name == PEER:
        return len(re.findall(r"Rebalance started", running.log.read_text("utf-8", "replace")))
    return sum(end - LEAST[side.name] for end in _ends(target, [f"{side.alias}.t{one}" for one in range(topics)]))


def _create(bootstrap: str, names: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    for first in range(0, len(names), 100):
        for future in admin.create_topics([NewTopic(name, 1) for name in names[first : first + 100]]).values():
            future.result(120)


def _flowing(target: str, side: Side, topics: int) -> int:
    """Number of topics whose copies have a record."""
    ends = _ends(target, [f"{side.alias}.t{number}" for number in range(topics)])
    return sum(end >= LEAST[side.name] for end in ends)


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


def _table(figures: Mapping[str, Mapping[str, object]], topics: int) -> FigureTable:
    rows = tuple(
        (
            name,
            cell(side["first_record_s"]),
            cell(side["all_topics_s"]),
            cell(side["cpu_s"]),
            cell(side["idle_cores"], 2),
            cell(side["rss_mb"]),
            cell(side["new_topic_s"], 2),
            str(side["rebalances"]),
        )
        for name, side in figures.items()
    )
    measured = ("first record s", f"{topics} topics s", "CPU-s", "idle cores", "MB", "new topic s")
    return FigureTable("Start, new topics and idle cost", ("by", *measured, "rebalances, takeovers again"), rows)


def cell(value: object, digits: int = 3) -> str:
    return "not seen" if value is None else number(float(str(value)), digits)


def unmeasured(figures: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    for name, side in figures.items():
        if side["new_topic_s"] is None:
            yield f"{name}: the new topic was not copied in time"
        if side["all_topics_s"] is None:
            yield f"{name}: not all topics were copied after {_ALL_S:.0f} s"
    if not figures[PEER]["rebalances"]:
        yield f"{PEER}: its log has no rebalance, not even that of its start"


def missed(figures: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    ours = figures[OURS]
    if ours["rebalances"]:
        yield f"{OURS}: {ours['rebalances']} partitions were taken over again, goal 0"
    if isinstance(seconds := ours["new_topic_s"], float) and seconds >= NEW_TOPIC_S:
        yield f"{OURS}: a new topic takes {seconds:.1f} s, goal {NEW_TOPIC_S:g} s"
