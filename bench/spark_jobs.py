"""Spark jobs: offsets and aging over many partitions, and a dry run by spark-submit and by Spark Connect.

With many partitions the brokers are synthetic: Spark, the rows, the rules and the files are measured. The dry runs use
real clusters.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.cost import cpu_s_with_ended, tree
from bench.figures import BenchOutcome, FigureTable, spread
from bench.ground import CLUSTERS, BenchError, Say, Scale, create_topic, direct
from stack.harness import Stack
from stack.java import find_java
from stack.layout import PROJECT
from stack.spark_java import spark_environment

TOPIC_PARTITIONS = 50
CLUSTERS_ASKED = 10
READS = 96
"""Reads per partition in the history: one day, every 15 minutes."""
READ_MS = 15 * 60 * 1000
DRY_TOPICS, DRY_PARTITIONS = 20, 10
QUIET = ("--conf", "spark.log.level=WARN", "--conf", "spark.ui.enabled=false")
TIMEOUT_S = 600.0
"""Timeout of one process: six times the longest one's time on two idle cores."""


def run(scale: Scale, say: Say) -> BenchOutcome:
    sizes = (1_000, 10_000) if scale.quick else (1_000, 10_000, 100_000)
    jobs = [_measure(size, say) for size in sizes]
    dry = _real_clusters(scale, say)
    steps = ("start", "history", "offsets", "aging")
    rows = tuple(
        (f"{job['partitions']:,}", *(f"{job[f'{name}_s']:.1f} ({job[f'{name}_cpu_s']:.1f})" for name in steps))
        for job in jobs
    )
    header = ("partitions", "session start", "writing the history", "offsets", "aging")
    title = (
        f"Jobs in local[*], synthetic brokers ({CLUSTERS_ASKED} clusters), a history of {READS} reads each: seconds"
        " (CPU seconds)"
    )
    found = [
        (name, str(int(one["count"])), f"{first:.1f}", f"{one['p50']:.1f}", f"{one['max']:.1f}")
        for name, first, one in ((n, dry[n][0], spread(dry[n][1:])) for n in dry)
    ]
    tables = (
        FigureTable(title, header, rows),
        FigureTable(
            f"Dry run of offsets, {DRY_TOPICS * DRY_PARTITIONS} partitions in each of two real clusters",
            ("way", "runs after the first", "first, s", "p50, s", "max, s"),
            tuple(found),
        ),
    )
    return BenchOutcome({"unit": "s", "jobs": jobs, "dry_runs": dry}, tables)


def _measure(partitions: int, say: Say) -> dict[str, float]:
    """One process per size: otherwise an earlier size would warm up the next one."""
    say(f"offsets and aging of {partitions:,} partitions")
    program = [sys.executable, "-m", "bench.spark_jobs", str(partitions)]
    environment = {**os.environ, **spark_environment(find_java())}
    with tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        said = _finished(f"{partitions:,} partitions", [*program, folder], environment)
    answer: dict[str, float] = json.loads(said.strip().splitlines()[-1])
    return answer


def _finished(what: str, command: list[str], environment: Mapping[str, str]) -> str:
    """Runs it to its end, and returns its output."""
    try:
        done = subprocess.run(
            command, env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as expired:
        said = (expired.stderr or b"").decode(errors="replace")
        raise BenchError(f"{what}: no end after {TIMEOUT_S:g} s:\n{said[-2000:]}") from None
    if done.returncode != 0:
        raise BenchError(f"{what} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def _real_clusters(scale: Scale, say: Say) -> dict[str, list[float]]:
    """`_dry_runs` for two clusters with a record in each partition."""
    say(f"{', '.join(CLUSTERS)} and Spark Connect")
    with Stack.up(CLUSTERS, gateways=0, spark_connect=True, full_speed=True) as stack:
        topics = [f"bench-{number}" for number in range(DRY_TOPICS)]
        for cluster in stack.clusters:
            for topic in topics:
                create_topic(direct(stack, cluster), topic, DRY_PARTITIONS)
            _fill(direct(stack, cluster), topics)
        return _dry_runs(stack, topics, scale.pick(5, 1), say)


def _fill(bootstrap: str, topics: Collection[str]) -> None:
    """One record for each partition."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    for topic in topics:
        for partition in range(DRY_PARTITIONS):
            producer.produce(topic, b"record", partition=partition)
    if left := producer.flush(30):
        raise BenchError(f"{left} records were not acknowledged")


def _dry_runs(stack: Stack, topics: Collection[str], rounds: int, say: Say) -> dict[str, list[float]]:
    """Seconds of each dry run, by way; the first of each is the first after the start."""
    seconds: dict[str, list[float]] = {"spark-submit, local[*]": [], "Spark Connect": []}
    with tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        assert stack.spark is not None
        environment = {**os.environ, **spark_environment(find_java()), "SWITCHYARD_ZOOKEEPER": stack.zookeeper}
        named = [text for topic in topics for text in ("--topic", topic)]
        job = ["offsets", "--history", f"{folder}/history", "--output", folder, "--summary", f"{folder}/summary.json"]
        ways = {
            "spark-submit, local[*]": ["spark-submit", *QUIET, str(PROJECT / "spark_jobs/__main__.py"), *job, *named],
            "Spark Connect": [
                sys.executable,
                "-m",
                "spark_jobs",
                *job,
                *named,
                "--remote",
                str(stack.spark["connect"]),
            ],
        }
        for number in range(rounds + 1):
            for way, command in ways.items():
                say(f"{way}, run {number}")
                begun = time.monotonic()
                _finished(way, command, environment)
                seconds[way].append(round(time.monotonic() - begun, 2))
                total = json.loads(Path(folder, "summary.json").read_text("utf-8"))["partitions"]
                if total != 2 * DRY_TOPICS * DRY_PARTITIONS:
                    raise BenchError(f"{way} suggested {total} cuts")
    return seconds


def _within_spark(partitions: int, folder: str) -> dict[str, float]:
    """Runs both jobs in this process."""
    from ha_core.model import Cluster, Extent, Topic
    from ha_core.wire.sasl import SecurityProfile
    from spark_jobs import aging, offsets
    from spark_jobs.broker_queries import Reach
    from spark_jobs.cuts import Demand
    from spark_jobs.folder import Folder
    from spark_jobs.history import ENDS, FactHistory
    from spark_jobs.questions import Questions
    from spark_jobs.session import open_session

    topics = max(1, partitions // TOPIC_PARTITIONS // CLUSTERS_ASKED)
    now_ms = time.time_ns() // 1_000_000
    names = [f"c{number}" for number in range(CLUSTERS_ASKED)]
    clusters = {name: Cluster(name=name, bootstrap=f"synthetic:{topics}") for name in names}
    reach = Reach(clusters, {"none": SecurityProfile()}, connect=_connect)
    figures: dict[str, float] = {"partitions": topics * TOPIC_PARTITIONS * CLUSTERS_ASKED}
    marks = [(time.monotonic(), _cpu_s())]

    def mark(name: str) -> None:
        marks.append((time.monotonic(), _cpu_s()))
        (before_s, before_cpu_s), (now_s, now_cpu_s) = marks[-2:]
        figures[f"{name}_s"] = round(now_s - before_s, 2)
        figures[f"{name}_cpu_s"] = round(now_cpu_s - before_cpu_s, 2)

    with open_session() as spark, Questions(spark, reach, Folder(folder)) as ask:
        mark("start")
        history = FactHistory(f"{folder}/history")
        rows = spark.range(READS).selectExpr("id as read").crossJoin(spark.range(int(figures["partitions"])))
        ends = rows.selectExpr(
            f"concat('c', id % {CLUSTERS_ASKED}) as cluster",
            f"concat('t', floor(id / {CLUSTERS_ASKED * TOPIC_PARTITIONS})) as topic",
            f"floor(id / {CLUSTERS_ASKED}) % {TOPIC_PARTITIONS} as partition",
            "cast(0 as bigint) as start",
            "read * 900 * (id % 100) + floor(rand(7) * 100) as end",
            f"{now_ms} - ({READS} - read) * {READ_MS} as read_at_ms",
        )
        history.write(ENDS, ends.repartition(8), now_ms)
        mark("history")
        frame, troubles = offsets.pipeline(ask, history, (), Demand(), now_ms, READS * READ_MS / 1000 + 60)
        cuts = offsets.report(frame, Folder(folder), troubles, Demand(), now_ms).summary
        mark("offsets")
        maps = {}
        for number in range(topics * CLUSTERS_ASKED):
            origin = names[number % CLUSTERS_ASKED]
            moved = (
                Extent(cluster=origin, start=0, end=END, base=0, writer_epoch=0),
                Extent(cluster=names[(number + 1) % CLUSTERS_ASKED], start=END, base=0, writer_epoch=1),
            )
            name = f"t{number // CLUSTERS_ASKED}"
            key = f"{name}-{origin}"
            maps[key] = Topic(
                name=key, writer=moved[1].cluster, partitions=dict.fromkeys(range(TOPIC_PARTITIONS), moved)
            )
        verdicts = aging.report(aging.pipeline(ask, maps, {}, history, now_ms), Folder(folder), now_ms, {}).summary
        mark("aging")
    for what in (cuts["partitions"], verdicts["extents"]):
        if what != figures["partitions"]:
            raise BenchError(f"{what} rows came of {figures['partitions']} partitions")
    return figures


def _cpu_s() -> float:
    """CPU time of this process, its JVM and its Python workers so far, without other processes of the machine."""
    return cpu_s_with_ended(tree(os.getpid()))


END = 1_000_000


class _Synthetic:
    """Answers at once, like brokers that have any topic."""

    def __init__(self, topics: int) -> None:
        self.known = {f"t{number}" for number in range(topics)}

    def topics(self, names: Collection[str] | None = None, offsets: bool = True) -> dict[str, Any]:
        from ha_core.kafka.facts import LogEnds
        from ha_core.kafka.topics import TopicDescription

        ends = dict.fromkeys(range(TOPIC_PARTITIONS), LogEnds(END, END, END, END, 1, 0)) if offsets else {}
        return {
            name: TopicDescription(name, TOPIC_PARTITIONS, 1, {"retention.ms": "1000"}, ends)
            for name in (self.known if names is None else names)
        }

    def record_times(self, ends: Mapping[tuple[str, int], Any], timeout_s: float | None = None) -> dict[Any, Any]:
        from ha_core.kafka.facts import RecordTimes

        return dict.fromkeys(ends, RecordTimes(1_700_000_000_000, 1_800_000_000_000))

    def list_groups(self) -> dict[str, str]:
        return {f"g{number}": "Empty" for number in range(200)}

    def describe_groups(self, names: Collection[str]) -> dict[str, Any]:
        return {}

    def group_offsets(self, names: Collection[str], stable: bool) -> dict[str, dict[tuple[str, int], tuple[int, str]]]:
        parts: Mapping[tuple[str, int], tuple[int, str]] = {("t0", p): (END, "") for p in range(TOPIC_PARTITIONS)}
        return {name: dict(parts) for name in names}

    def producers(self, partitions: Collection[tuple[str, int]]) -> dict[tuple[str, int], Any]:
        return dict.fromkeys(partitions, ())

    def close(self) -> None:
        return None


def _connect(cluster: Any, _profile: Any, _timeout_s: float) -> _Synthetic:
    return _Synthetic(int(cluster.bootstrap.rpartition(":")[2]))


def _main(arguments: list[str]) -> Iterator[str]:
    yield json.dumps(_within_spark(int(arguments[0]), arguments[1]))


if __name__ == "__main__":
    # By module name: executors unpickle classes from there, not from `__main__`.
    from bench.spark_jobs import _main as main

    for line in main(sys.argv[1:]):
        print(line)
