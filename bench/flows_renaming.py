"""MB per CPU-second of a copy under another name, as flows make it, against a copy under its own: one run, in turns."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka.admin import AdminClient

from bench.copiers import COPY_LOG, CopyTask, copy_loop
from bench.copying_speed import BenchCopy, Bounds, watch
from bench.figures import BenchOutcome, FigureTable, number, paired_ratio, turns
from bench.filling import multiply
from bench.flow_command import TARGET
from bench.ground import BenchError, Say, Scale, create_topic, direct, load, up
from ha_core.kafka.admin import Admin
from ha_core.model import Cluster

TOPIC, PARTITIONS = "to-rename", 4
SIDES = {"its own name": TOPIC, "another name": f"east.{TOPIC}"}
GOAL = 0.05
_RECORD_BYTES = 1024
_LIMIT_S = 240.0


def run(scale: Scale, say: Say) -> BenchOutcome:
    with up(0, say) as stack, tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        found = _measured(scale, direct(stack, "east"), direct(stack, TARGET), Path(folder), say)
    named, said = _table(found)
    return BenchOutcome({"rounds": found}, (named,), (said,), missed=() if within(found) else (said,))


def _measured(scale: Scale, source: str, target: str, folder: Path, say: Say) -> dict[str, list[float]]:
    """Side → MB per CPU-second in each round.

    :raises BenchError: a round could not be measured.
    """
    create_topic(source, TOPIC, PARTITIONS)
    create_topic(target, COPY_LOG, 1)
    where = {"bootstrap": source, "topic": TOPIC, "partitions": PARTITIONS}
    settings = {"enable.idempotence": False}
    records = scale.pick(100_000, 20_000)
    load("produce", 120.0, **where, records=records, record_bytes=_RECORD_BYTES, seed=scale.seed, settings=settings)
    filled = multiply(bootstrap=source, topic=TOPIC, partitions=PARTITIONS, total_bytes=scale.pick(1_000, 60) * 10**6)
    found: dict[str, list[float]] = {side: [] for side in SIDES}
    with Admin(Cluster(name="west", bootstrap=target)) as admin:
        for count, order in enumerate(turns(list(SIDES), scale.pick(6, 1))):
            for side in order:
                found[side].append(_round(SIDES[side], count, source, target, filled["records"], admin, folder))
            say(f"round {count + 1}: " + ", ".join(f"{side} {number(found[side][-1])} MB/CPU-s" for side in SIDES))
    return found


def _round(copy: str, count: int, source: str, target: str, records: int, admin: Admin, folder: Path) -> float:
    create_topic(target, copy, PARTITIONS)
    remote = "" if copy == TOPIC else copy
    task = CopyTask(source, target, TOPIC, PARTITIONS, f"round-{count}-{copy}", remote=remote)
    try:
        with copy_loop(task, folder) as copier:
            speed = watch(copier, BenchCopy(admin, copy, PARTITIONS), records, Bounds(warm_cpu_s=1.0), _LIMIT_S)
    finally:
        client = AdminClient({"bootstrap.servers": target, "log_level": 3})  # kept: its end would cancel the deletion
        client.delete_topics([copy])[copy].result(60)
    if not speed.cpu_s:
        raise BenchError(f"no CPU time was measured for {copy}")
    return speed.records * _RECORD_BYTES / 1e6 / speed.cpu_s


def within(found: Mapping[str, Sequence[float]]) -> bool:
    own, other = (found[side] for side in SIDES)
    return paired_ratio(other, own) >= 1 - GOAL


def _table(found: dict[str, list[float]]) -> tuple[FigureTable, str]:
    own, other = (found[side] for side in SIDES)
    ratio = paired_ratio(other, own)
    rows = tuple((side, *(number(one) for one in rounds)) for side, rounds in found.items())
    header = ("copy under", *(f"round {count + 1}" for count in range(len(own))))
    kept = "within" if within(found) else "not within"
    said = f"Renaming costs {100 * (1 - ratio):.1f} % by the median of the rounds: {kept} {100 * GOAL:.0f} %."
    return FigureTable("Copies under another name, MB per CPU-second", header, rows), said
