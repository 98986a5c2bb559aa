"""The mirror compared with MirrorMaker 2 in one run: equal brokers and data, one after the other.

Measured from outside, in one way for all: growth of the copy, CPU time of all the copier's processes, and age of
records when a consumer of the copy gets them.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.copiers import COPY_LOG, Program, program, spark_job
from bench.copying_speed import BenchCopy, Bounds, watch
from bench.figures import BenchOutcome, FigureTable, number
from bench.filling import multiply
from bench.ground import Say, Scale, create_topic, direct, load, up
from bench.mirror_sides import JOB, LOOP, PARTITIONS, SIDES, TUNED, CopierSide, Ground
from ha_core.kafka.admin import Admin
from ha_core.model import Cluster

RANDOM_SHARE = 0.25
"""Random share of each value: lz4 compresses most of the rest away."""
SEED_VALUES = 4099
SEED_BYTES = (150_000_000, 20_000_000)
"""Bytes of values that a client writes; they are written again until the log has this size: """
LOG_BYTES = (800_000_000, 400_000_000)
BUDGET_S = 620.0
"""Seconds after which no further measurement starts."""
LIMIT_S = 100.0
LAG_BYTES_S = 5_000_000
LAG_RECORD_BYTES = 1024
WARM_S = (10, 3)
LAG_S = (10, 3)
SOURCE = "none: a consumer of the source"
_CLIENTS_BATCH = 1_000_000
"""librdkafka's default."""


class MirrorCase(NamedTuple):
    record_bytes: int
    codec: str
    batch_bytes: int = _CLIENTS_BATCH

    @property
    def name(self) -> str:
        small = "" if self.batch_bytes == _CLIENTS_BATCH else f", batches of {self.batch_bytes // 1000} kB"
        return f"{self.record_bytes} B, {self.codec}{small}"


MAIN = (MirrorCase(1024, "none"), MirrorCase(1024, "lz4"))
MORE = (
    MirrorCase(100, "lz4"),
    MirrorCase(10240, "lz4"),
    MirrorCase(100, "none"),
    MirrorCase(10240, "none"),
    # Before lz4; compressed they have the 16 kB that the Java client fills by default.
    MirrorCase(1024, "lz4", 64_000),
)
Figures = Mapping[str, Mapping[str, float]]
"""By side: `{"mb_s", "mb_per_cpu_s", "cores", …}`, MB of values."""


def run(scale: Scale, say: Say) -> BenchOutcome:
    until_s = time.monotonic() + BUDGET_S
    speeds: dict[str, Figures] = {}
    lags: dict[str, Mapping[str, float]] = {}
    with ExitStack() as until:
        stack = until.enter_context(up(0, say))
        folder = Path(until.enter_context(tempfile.TemporaryDirectory(prefix="switchyard-bench-")))
        target = until.enter_context(Admin(Cluster(name="west", bootstrap=direct(stack, "west"))))
        create_topic(direct(stack, "west"), COPY_LOG, 1)
        job = until.enter_context(spark_job(stack.zookeeper, folder))
        ground = Ground(stack, folder, target, job, scale, say, until_s)
        for case in MAIN[1:] if scale.quick else MAIN:
            ground.attempt(case.name, partial(_speeds, case, ground, speeds))
        for side in (None, *SIDES):
            ground.attempt(f"lag: {SOURCE if side is None else side.name}", partial(_lag, side, ground, lags))
        idle = _idle(ground)
        for case in () if scale.quick else MORE:
            ground.attempt(case.name, partial(_speeds, case, ground, speeds))
    names = {side.key: side.name for side in SIDES}
    tables = (
        _ratios(speeds),
        FigureTable(
            f"Copying {PARTITIONS} partitions, MB/s · MB per CPU-second of all processes of the copier",
            ("records", *names.values()),
            tuple((case, *(_speed(found.get(key)) for key in names)) for case, found in speeds.items()),
        ),
        FigureTable(
            f"Age of records at {LAG_BYTES_S / 1e6:g} MB/s when a consumer of the copy gets them, ms",
            ("copied by", "p50", "p99", "max", "CPU, % of a core"),
            tuple(
                (name, *(number(lag[key]) for key in ("p50", "p99", "max")), _percent(lag.get("cores")))
                for name, lag in lags.items()
            ),
        ),
    )
    said = f"The Spark job with nothing to copy uses {_percent(idle)} % of a core, here during all measurements."
    figures = {"speeds": speeds, "lag_ms": lags, "idle_cores": idle, "troubles": ground.troubles}
    return BenchOutcome(figures, tables, (said,), tuple(ground.troubles))


# Speed


def _speeds(case: MirrorCase, ground: Ground, speeds: dict[str, Figures]) -> None:
    topic = f"data-{ground.next()}"
    records, share = _filled(case, topic, ground)
    found: dict[str, Mapping[str, float]] = {}
    speeds[case.name] = found

    def measure(side: CopierSide) -> None:
        with side.copies(ground, topic, case.codec) as (copier, copy):
            speed = watch(copier, BenchCopy(ground.target, copy, PARTITIONS), records, Bounds(), LIMIT_S)
        ground.delete("west", copy)
        megabytes = speed.records * case.record_bytes / 1e6
        found[side.key] = {
            "mb_s": megabytes / speed.seconds,
            "mb_per_cpu_s": megabytes / speed.cpu_s,
            "cores": speed.cpu_s / speed.seconds,
            "seconds": speed.seconds,
            "line_share": share,
            "load_average": os.getloadavg()[0],
        }
        ground.say(f"{case.name}: {side.name} {_speed(found[side.key])}, in {speed.seconds:.1f} s")

    for side in SIDES:
        ground.attempt(f"{case.name}: {side.name}", partial(measure, side))
    ground.delete("east", topic)


def _filled(case: MirrorCase, topic: str, ground: Ground) -> tuple[int, float]:
    """The number of records, and the log's size as a share of the bytes of their values."""
    create_topic(ground.east, topic, PARTITIONS)
    pick = ground.scale.pick
    load(
        "produce",
        120.0,
        bootstrap=ground.east,
        topic=topic,
        partitions=PARTITIONS,
        records=min(pick(*SEED_BYTES) // case.record_bytes, 600_000),
        record_bytes=case.record_bytes,
        seed=ground.scale.seed,
        # Without a producer id, since the batches are written again.
        settings={"compression.type": case.codec, "batch.size": case.batch_bytes, "enable.idempotence": False},
        random_share=RANDOM_SHARE,
        values=SEED_VALUES,
    )
    found = multiply(bootstrap=ground.east, topic=topic, partitions=PARTITIONS, total_bytes=pick(*LOG_BYTES))
    return found["records"], found["bytes"] / (found["records"] * case.record_bytes)


def _speed(one: Mapping[str, float] | None) -> str:
    return "" if one is None else f"{number(one['mb_s'])} · {number(one['mb_per_cpu_s'])}"


def _percent(cores: float | None) -> str:
    return "" if cores is None else number(cores * 100, 2)


def _ratios(speeds: Mapping[str, Figures]) -> FigureTable:
    """Ratios to the tuned peer of one run."""

    def ratio(found: Figures, side: str, what: str) -> str:
        if side not in found or TUNED not in found:
            return ""
        return f"{number(found[side][what] / found[TUNED][what], 2)} x"

    return FigureTable(
        "Ours against MirrorMaker 2, tuned",
        ("records", "loop: MB/s", "loop: MB per CPU-second", "Spark job: MB/s", "Spark job: MB per CPU-second"),
        tuple(
            (case, *(ratio(found, side, what) for side in (LOOP, JOB) for what in ("mb_s", "mb_per_cpu_s")))
            for case, found in speeds.items()
        ),
    )


# Lag


def _lag(side: CopierSide | None, ground: Ground, lags: dict[str, Mapping[str, float]]) -> None:
    """With the CPU time meanwhile; without a side, for a consumer of the source itself."""
    topic = f"lag-{ground.next()}"
    create_topic(ground.east, topic, PARTITIONS)
    if side is None:
        with _stamped(topic, ground):
            found: Mapping[str, float] = _ages(ground.east, topic, ground)
    else:
        # It copies before the load begins: otherwise records at its start would dominate its lag.
        _write_few(topic, ground)
        with side.copies(ground, topic, "none") as (copier, copy):
            _await(copier, BenchCopy(ground.target, copy, PARTITIONS))
            with _stamped(topic, ground):
                time.sleep(ground.scale.pick(*WARM_S))
                cpu_s, begun = copier.cpu_s(), time.monotonic()
                ages = _ages(ground.west, copy, ground)
                found = {**ages, "cores": (copier.cpu_s() - cpu_s) / (time.monotonic() - begun)}
    name = SOURCE if side is None else side.name
    lags[name] = {**found, "load_average": os.getloadavg()[0]}
    ground.say(f"lag: {name} {lags[name]}")


def _write_few(topic: str, ground: Ground) -> None:
    where = {"bootstrap": ground.east, "topic": topic, "partitions": PARTITIONS}
    load("produce", 60.0, **where, records=PARTITIONS, record_bytes=100, seed=ground.scale.seed, settings={})


def _await(copier: Program, copy: BenchCopy) -> None:
    until = time.monotonic() + LIMIT_S
    while not copy.records():
        copier.check()
        if time.monotonic() > until:
            raise copier.failed(f"nothing is copied after {LIMIT_S:.0f} s")
        time.sleep(0.2)


def _ages(bootstrap: str, topic: str, ground: Ground) -> dict[str, float]:
    seconds = ground.scale.pick(*LAG_S)
    found: dict[str, float] = load(
        "lag", 120.0, bootstrap=bootstrap, topic=topic, partitions=PARTITIONS, seconds=seconds
    )
    return found


def _stamped(topic: str, ground: Ground) -> AbstractContextManager[Program]:
    what = {
        "do": "stamp",
        "bootstrap": ground.east,
        "topic": topic,
        "partitions": PARTITIONS,
        "bytes_s": LAG_BYTES_S,
        "record_bytes": LAG_RECORD_BYTES,
        "seed": ground.scale.seed,
    }
    command = (sys.executable, "-m", "bench.load", json.dumps(what))
    return program("the writer", command, {}, ground.folder / f"{topic}.log")


def _idle(ground: Ground) -> float:
    """Cores that the job uses without any mirror."""
    begun, cpu_s = time.monotonic(), ground.job.cpu_s()
    time.sleep(ground.scale.pick(5, 2))
    return (ground.job.cpu_s() - cpu_s) / (time.monotonic() - begun)
