"""Records that a group gets twice when it goes on at the copy: with MirrorMaker 2's checkpoints, and with Switchyard.

Their number follows from the number in the group's first record.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.copiers import Program, spark_job
from bench.copying_speed import BenchCopy
from bench.figures import BenchOutcome, FigureTable
from bench.ground import FORCED, BenchError, Say, Scale, create_topic, direct, switch, up
from bench.mirror_maker import DEFAULTS, MirrorMakerSettings, mirror_maker
from bench.mirror_sides import command
from ha_core.kafka.admin import Admin
from ha_core.model import Cluster
from stack.harness import Stack

TOPIC = "orders"
RECORDS = 200_000
LAGS = (0, 5_000, 100_000)
RATE = 20_000
"""Records per second: a load, no backlog. For a backlog MirrorMaker 2 keeps fewer samples."""
USER = "user:anonymous"
_CHECKPOINTS = {
    "sync.group.offsets.enabled": "true",
    # By default a new group would be seen after ten minutes, and its offset after one.
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
}
MAKERS = (
    replace(DEFAULTS, name="MirrorMaker 2, checkpoints each second", properties=_CHECKPOINTS),
    replace(
        DEFAULTS,
        name="MirrorMaker 2, and a sync for each record",
        properties={**_CHECKPOINTS, "offset.lag.max": "0"},
    ),
)
PLANNED = "ours, planned switch"
FORCED_BY = "ours, forced switch, the source killed"
_SETTLE_S = 10.0
"""Longer than checkpoints take, and Switchyard's sync of group offsets every 5 s."""
_LIMIT_S = 120.0


def run(scale: Scale, say: Say) -> BenchOutcome:
    found: dict[str, Mapping[int, int] | str] = {}
    with up(1, say) as stack, tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        # First, while the clusters have nothing else that a move could take along.
        for name, one in _ours(stack, Path(folder)):
            found[name] = one
            say(f"{name}: {one}")
        for number, settings in enumerate(MAKERS[:1] if scale.quick else MAKERS):
            found[settings.name] = _maker(settings, f"m{number}", stack, Path(folder))
            say(f"{settings.name}: {found[settings.name]}")
    table = FigureTable(
        f"Records that a group gets a second time, of {RECORDS:,} in one partition",
        ("by", *("at the head" if not one else f"lag of {one:,}" for one in LAGS)),
        tuple(
            (name, *(("not measured",) * len(LAGS) if isinstance(one, str) else (f"{one[n]:,}" for n in LAGS)))
            for name, one in found.items()
        ),
    )
    unmeasured = tuple(one for one in found.values() if isinstance(one, str))
    return BenchOutcome({"twice": found}, (table,), unmeasured=unmeasured)


def _maker(settings: MirrorMakerSettings, alias: str, stack: Stack, folder: Path) -> dict[int, int]:
    east, west, topic = direct(stack, "east"), direct(stack, "west"), f"{TOPIC}-{alias}"
    create_topic(east, topic, 1)
    _commit(east, topic, alias, 0)
    with mirror_maker(settings, alias, east, west, topic, folder) as maker, _copy(f"{alias}.{topic}", west) as copy:
        _write(east, topic, range(1))
        _wait(lambda: copy.records() >= 1, maker.check)
        _write(east, topic, range(1, RECORDS))
        _wait(lambda: copy.records() >= RECORDS, maker.check)
        _commit(east, topic, alias, RECORDS)
        time.sleep(_SETTLE_S)
    return {lag: _twice(west, copy.topic, alias, lag) for lag in LAGS}


def _ours(stack: Stack, folder: Path) -> Iterator[tuple[str, dict[int, int] | str]]:
    """By a planned switch, then back by a forced one. A failed way yields its error in place of figures."""
    create_topic(direct(stack, "east"), TOPIC, 1)
    with spark_job(stack.zookeeper, folder) as job, _copy(TOPIC, direct(stack, "west")) as copy:
        for name, move in ((PLANNED, _planned), (FORCED_BY, _forced)):
            try:
                move(stack, job, copy)
                yield name, {lag: _twice(stack.bootstrap, TOPIC, "ours", lag) for lag in LAGS}
            except BenchError as error:
                yield name, f"{name} is not measured: {str(error).partition(chr(10))[0][:400]}"
    stack.restart("cluster/east")


def _planned(stack: Stack, job: Program, copy: BenchCopy) -> None:
    command(stack, "mirror", "link", TOPIC, "--from", "east", "--to", "west")
    _write(stack.bootstrap, TOPIC, range(RECORDS))
    _wait(lambda: copy.records() >= RECORDS, job.check)
    _commit(stack.bootstrap, TOPIC, "ours", RECORDS)
    switch(stack, USER, "east", "west")


def _forced(stack: Stack, job: Program, copy: BenchCopy) -> None:
    switch(stack, USER, "west", "east")
    time.sleep(_SETTLE_S)
    job.check()
    stack.kill("cluster/east")
    switch(stack, USER, "east", "west", FORCED)


@contextmanager
def _copy(topic: str, west: str) -> Iterator[BenchCopy]:
    with Admin(Cluster(name="west", bootstrap=west)) as admin:
        yield BenchCopy(admin, topic, 1)


def _write(bootstrap: str, topic: str, numbers: range) -> None:
    """At `RATE`."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 3})
    begun = time.monotonic()
    for sent, one in enumerate(numbers):
        if sent % 200 == 0:
            producer.poll(0)
            time.sleep(max(begun + sent / RATE - time.monotonic(), 0.0))
        producer.produce(topic, b"%d" % one, partition=0)
    if left := producer.flush(60):
        raise BenchError(f"{left} records were not acknowledged")


def _commit(bootstrap: str, topic: str, groups: str, end: int) -> None:
    """One group for each distance below `end`, which has read and committed up to there."""
    from confluent_kafka import Consumer, TopicPartition

    for lag in LAGS:
        consumer = Consumer(_group(bootstrap, groups, lag))
        consumer.commit(offsets=[TopicPartition(topic, 0, max(end - lag, 0))], asynchronous=False)
        consumer.close()


def _twice(bootstrap: str, topic: str, groups: str, lag: int) -> int:
    """A group at the log end that gets no record twice gets nothing at all."""
    from confluent_kafka import Consumer

    consumer = Consumer(_group(bootstrap, groups, lag))
    consumer.subscribe([topic])
    until = time.monotonic() + 20
    try:
        while time.monotonic() < until:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                return RECORDS - lag - int(message.value() or b"")
        if lag:
            raise BenchError(f"a group {lag} records of lag gets nothing from {topic}")
        return 0
    finally:
        consumer.close()


def _group(bootstrap: str, groups: str, lag: int) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "group.id": f"{groups}-{lag}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 3,
    }


def _wait(true: Any, check: Any) -> None:
    until = time.monotonic() + _LIMIT_S
    while not true():
        check()
        if time.monotonic() > until:
            raise BenchError(f"the copy has not what its source has after {_LIMIT_S:.0f} s")
        time.sleep(0.2)
