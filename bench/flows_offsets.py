"""Records that groups are given twice or never after a failover: by the checkpoints of a real MirrorMaker 2, by those
of our worker, by the offset syncs of each, and by the notes of our copiers.

The value of each record is its source offset. The benchmark reads the copy from the translated offset to its end, as a
group would: values below the group's offset come twice, and values that do not come are skipped.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import KafkaError

from bench.figures import BenchOutcome, FigureTable
from bench.flow_command import TARGET
from bench.flow_sides import LEAST, OURS, end_of, sides, until, write
from bench.ground import BenchError, Say, Scale, create_topic, direct, up
from ha_core.flows.translation import SyncStore, Translated, Untranslated
from ha_core.mirror_client import MirrorClient, exact_maps

HISTORY = "history"
"""The topic that groups read: one partition with many records."""
BACK = (0, 5_000, 100_000)
"""Numbers of records by which groups are behind."""
EXACT = "exact map"
_SETTLE_S = 70
"""Longer than the minute after which MirrorMaker 2 writes a sync of the last record."""
_READ_AT_ONCE, _READ_S = 10_000, 300.0


class GivenRecords(NamedTuple):
    """Numbers of records that a group is given a second time, and that it is never given."""

    twice: int
    never: int


def given(values: Sequence[int], committed: int, records: int) -> GivenRecords:
    """
    :param values: source offsets of the records that the group is given.
    """
    new = {value for value in values if value >= committed}
    return GivenRecords(len(values) - len(new), records - committed - len(new))


Offsets = Mapping[str, GivenRecords | None]
"""Way and distance → what a group is given; None: its offset is not translated."""


def run(scale: Scale, say: Say) -> BenchOutcome:
    records = scale.pick(150_000, 12_000)
    back = [distance for distance in BACK if distance <= records]
    figures: dict[str, Offsets] = {}
    with up(0, say) as stack, tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        source, target = direct(stack, "east"), direct(stack, TARGET)
        create_topic(source, HISTORY, 1)
        write(source, ((HISTORY, one) for one in range(records)))
        for distance in back:
            _commit(source, f"back-{distance}", records - distance)
        for side in sides(source, target, HISTORY):
            say(f"{side.name} starts")
            with side.start(Path(folder)) as running:
                copied = records - 1 + LEAST[side.name]
                until(running, lambda: end_of(target, f"{side.alias}.{HISTORY}") >= copied)  # noqa: B023
                time.sleep(scale.pick(_SETTLE_S, 10))
                clusters = source, target
                figures[side.name] = _offsets((side.alias, TARGET), clusters, records, back, side.name == OURS)
    return BenchOutcome(
        figures,
        (_table(figures, records, back),),
        unmeasured=tuple(unmeasured(figures, back)),
        missed=tuple(missed(figures)),
    )


def _commit(bootstrap: str, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(HISTORY, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def _table(figures: Mapping[str, Offsets], records: int, back: Sequence[int]) -> FigureTable:
    rows = tuple(
        (name, way, *(_shown(its[f"{way}, {distance} back"]) for distance in back))
        for name, its in figures.items()
        for way in _ways(its)
    )
    distances = ("at the head" if not distance else f"{distance:,} behind" for distance in back)
    title = f"Records that a group is given twice / never after a failover, of {records:,}"
    return FigureTable(title, ("by", "way", *distances), rows)


def _ways(its: Offsets) -> list[str]:
    return list(dict.fromkeys(one.rpartition(", ")[0] for one in its))


def _shown(value: GivenRecords | None) -> str:
    return "not translated" if value is None else f"{value.twice:,} / {value.never:,}"


def unmeasured(figures: Mapping[str, Offsets], back: Sequence[int]) -> Iterator[str]:
    """MirrorMaker 2 translates no offset below its oldest sync; a way without any translation is no figure."""
    for name, its in figures.items():
        for way in _ways(its):
            untold = [distance for distance in back if its[f"{way}, {distance} back"] is None]
            if len(untold) == len(back) or (untold and name == OURS):
                yield f"{name}: no translation by {way} for {untold} behind"


def missed(figures: Mapping[str, Offsets]) -> Iterator[str]:
    for way, found in figures[OURS].items():
        if way.startswith(EXACT) and found not in (None, GivenRecords(0, 0)):
            yield f"{OURS}: {way}: {_shown(found)} records twice / never, goal 0 / 0"
        elif found is not None and found.never:
            yield f"{OURS}: {way}: {found.never} records are skipped, goal 0"


def _offsets(
    flow: tuple[str, str], clusters: tuple[str, str], records: int, back: Sequence[int], noted: bool
) -> dict[str, GivenRecords | None]:
    """
    :param flow: aliases of source and target.
    :param clusters: their addresses.
    :param noted: whether our copiers keep notes of the copy.
    """
    (alias, target_alias), (source, target) = flow, clusters
    remote = f"{alias}.{HISTORY}"
    found: dict[str, GivenRecords | None] = {}
    with MirrorClient({"bootstrap.servers": target}) as client:
        for distance in back:
            position = client.translate_offsets(alias, f"back-{distance}").get((remote, 0))
            found[f"checkpoint, {distance} back"] = (
                None if position is None else _given(target, remote, position.offset, records - distance, records)
            )
    with MirrorClient({"bootstrap.servers": source}) as client:
        store = SyncStore()
        for sync in client.offset_syncs(target_alias):
            store.add(sync)
    exact = exact_maps({"bootstrap.servers": target}, f"{alias}->{target_alias}", [(remote, 0)]).get((remote, 0))
    for distance in back:
        committed = records - distance
        translated = {"offset syncs": store.translate(HISTORY, 0, committed)}
        if noted:
            translated[EXACT] = Untranslated("it has no notes") if exact is None else exact.translate(committed)
        for way, one in translated.items():
            found[f"{way}, {distance} back"] = (
                _given(target, remote, one.offset, committed, records) if isinstance(one, Translated) else None
            )
    return found


def _given(target: str, remote: str, offset: int, committed: int, records: int) -> GivenRecords:
    """Read the copy from an offset to its end, as a group would.

    :param committed: next offset that the group reads in the source.
    """
    settings = {"bootstrap.servers": target, "group.id": "bench", "enable.partition.eof": True, "log_level": 3}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.auto.commit": False})
    values = list[int]()
    try:
        consumer.assign([TopicPartition(remote, 0, offset)])
        deadline = time.monotonic() + _READ_S
        while time.monotonic() < deadline:
            for message in consumer.consume(_READ_AT_ONCE, 1.0):
                if (error := message.error()) is None:
                    values.append(int(message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return given(values, committed, records)
                else:
                    raise BenchError(f"{remote} cannot be read from offset {offset}: {error}")
    finally:
        consumer.close()
    raise BenchError(f"{remote} was not read from offset {offset} to its end")
