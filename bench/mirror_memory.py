"""Memory of a task that copies thousands of partitions, while its target stops and the source has more."""

import tempfile
import time
from pathlib import Path

from bench.copiers import COPY_LOG, CopyTask, Program, copy_loop
from bench.cost import private_bytes
from bench.figures import BenchOutcome, FigureTable
from bench.ground import Say, Scale, create_topic, direct, load, up
from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import TopicSpec
from ha_core.model import Cluster

TOPIC = "wide"
FIRST, EACH, VALUE_BYTES = 3, 12, 100_000
"""Small records of each partition before the measurement, and large ones."""
STANDS_STILL_S = 25.0
LIMIT_S = 600.0
_MIB = 2**20


def run(scale: Scale, say: Say) -> BenchOutcome:
    partitions = scale.pick(600, 60)
    records = partitions * EACH
    with tempfile.TemporaryDirectory() as folder, up(0, say) as stack:
        east, west = direct(stack, "east"), direct(stack, "west")
        with Admin(Cluster(name="west", bootstrap=west)) as target:
            target.create_topics([TopicSpec(COPY_LOG, 16, 1, {"cleanup.policy": "compact"})])
            for bootstrap in (east, west):
                create_topic(bootstrap, TOPIC, partitions)
            _write(east, partitions, partitions * FIRST, 10, scale.seed)
            with copy_loop(CopyTask(east, west, TOPIC, partitions, "wide"), Path(folder)) as copier:
                say(f"{partitions} partitions are taken over")
                begun = time.monotonic()
                _await(copier, target, partitions, FIRST)
                entered_s = time.monotonic() - begun
                idle = private_bytes(copier.process.pid)
                say(f"after {entered_s:.0f} s; now {records * VALUE_BYTES // 10**6} MB, which the target does not take")
                stack.pause("cluster/west")
                paused = time.monotonic()
                _write(east, partitions, records, VALUE_BYTES, scale.seed)
                peak_bytes = 0
                while time.monotonic() - paused < STANDS_STILL_S:
                    peak_bytes = max(peak_bytes, private_bytes(copier.process.pid))
                    time.sleep(0.2)
                stack.resume("cluster/west")
                begun = time.monotonic()
                peak_bytes = max(peak_bytes, _await(copier, target, partitions, FIRST + EACH))
                drained_s = time.monotonic() - begun
    figures = {
        "partitions": partitions,
        "idle": idle,
        "most": peak_bytes,
        "entered_s": entered_s,
        "drained_s": drained_s,
    }
    rows = (
        ("all are taken over, nothing to copy", f"{idle / _MIB:.0f} MiB"),
        (f"{records * VALUE_BYTES // 10**6} MB to copy, at most", f"{peak_bytes / _MIB:.0f} MiB"),
    )
    header = (f"one process, {partitions:,} partitions", "private memory")
    took = f"Taken over in {entered_s:.0f} s; all was copied {drained_s:.0f} s after the target went on."
    return BenchOutcome(figures, (FigureTable("Memory of a task that copies", header, rows),), (took,))


def _write(bootstrap: str, partitions: int, records: int, record_bytes: int, seed: int) -> None:
    settings = {"enable.idempotence": False, "queue.buffering.max.kbytes": 200_000, "linger.ms": 50}
    where = {"bootstrap": bootstrap, "topic": TOPIC, "partitions": partitions}
    load("produce", LIMIT_S, **where, records=records, record_bytes=record_bytes, seed=seed, settings=settings)


def _await(copier: Program, target: Admin, partitions: int, records: int) -> int:
    """Wait until each copy has this many records; returns the maximum memory meanwhile."""
    until, peak_bytes = time.monotonic() + LIMIT_S, 0
    keys = [(TOPIC, number) for number in range(partitions)]
    while True:
        copier.check()
        for _ in range(10):
            peak_bytes = max(peak_bytes, private_bytes(copier.process.pid))
            time.sleep(0.1)
        # Each copy begins with the marker of its copier.
        left = sum(ends.high_watermark - 1 < records for ends in target.ends(keys).values())
        if not left:
            return peak_bytes
        if time.monotonic() > until:
            raise copier.failed(f"{left} partitions are not copied after {LIMIT_S:.0f} s")
