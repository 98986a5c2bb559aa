"""Paths to one topic, or to topics alike, in turns: throughput, latency, CPU time and memory of each.

Throughput is measured by Kafka's tools; latency and the cost of a request by single requests with pauses, since caches
are cold between real ones. Memory is taken after all loads, of the process and its descendants: one gateway of a
fleet has a helper process that takes over operations without an executor.
"""

import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path as File
from statistics import median
from typing import Any, NamedTuple

from bench.cost import cpu_ns, rss_bytes, tree
from bench.figures import BenchOutcome, FigureTable, number, paired_ratio, spread, turns
from bench.ground import KIB, BenchError, Say, Scale, create_topic, load
from stack.jars import class_path, kafka_jars
from stack.java import find_java
from stack.processes import run

ROUNDS = (6, 1)
VOLUME_BYTES = (400_000_000, 20_000_000)
"""Bytes of values in one run of a tool."""
SAMPLES = (2_000, 100)
"""Requests of a kind to each path in a round, one in flight."""
PAUSE_S = 0.001
IDLE_S = (3, 1)
TOOLS_VERSION = "4.3.1"
TOOL_S = 180.0
BATCH_BYTES = 64 * 1024
ALONE = 2
"""Batches of one record at the start of a topic. The last one is read again and again."""
LARGE = {"max.message.bytes": str(2 * KIB * KIB)}
"""Brokers accept batches up to 1 MiB by default, so the record is smaller."""


class Path(NamedTuple):
    """A path to a topic.

    :ivar pid: the process whose descendants are charged to the path; None: none is.
    :ivar base: the path that it is compared with; None: it is a base.
    :ivar offset: of a record that is read again and again.
    :ivar ca_file: authority of its certificate; None: no TLS.
    """

    name: str
    bootstrap: str
    pid: int | None
    topic: str
    base: str | None = None
    offset: int = 0
    ca_file: str | None = None

    @property
    def settings(self) -> dict[str, str]:
        """Settings of Kafka's tools."""
        if self.ca_file is None:
            return {}
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca_file}
        return {"security.protocol": "SSL", **trusted}

    def cpu_ns(self) -> int:
        return 0 if self.pid is None else cpu_ns(tree(self.pid))


def prepare(bootstrap: str, topic: str) -> None:
    """Create a topic of one partition, with the record that is read again and again."""
    create_topic(bootstrap, topic, 1, LARGE)
    write_alone(bootstrap, topic, ALONE)


def write_alone(bootstrap: str, topic: str, records: int) -> None:
    """Records of 1 KiB, each in a batch of its own."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 3})
    for written in range(records):
        producer.produce(topic, b"v" * KIB)
        if producer.flush(30):
            raise BenchError(f"record {written} of {records} was not written to {topic} at {bootstrap} in 30 s")


class SingleRequests(NamedTuple):
    """Requests of one kind and size, one in flight."""

    kind: str
    size: int = KIB
    connections: int = 1


BOTH = (SingleRequests("produce"), SingleRequests("fetch"))
Flows = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
"""Kind → path → figures of each round."""
Calls = Mapping[SingleRequests, Mapping[str, Mapping[str, Any]]]


def measured(
    paths: Sequence[Path], scale: Scale, say: Say, loads: Sequence[SingleRequests] = BOTH, broker: int | None = None
) -> BenchOutcome:
    """
    :param loads: begin with a request of 1 KiB of each kind, of which the throughput is measured, too.
    :param broker: its process, if its CPU time is to be shown.
    """
    idle = _idle(paths, scale.pick(*IDLE_S))
    kinds = list(dict.fromkeys(requests.kind for requests in loads))
    flows = {kind: _throughput(paths, kind, scale, say, broker) for kind in kinds}
    calls = {requests: _calls(paths, requests, scale, say) for requests in loads}
    rss = {path.name: (rss_bytes([path.pid]), rss_bytes(tree(path.pid))) for path in paths if path.pid is not None}
    figures = {
        "throughput": flows,
        "calls": {
            f"{requests.kind}, {requests.size} B, {requests.connections} connections": calls[requests]
            for requests in loads
        },
        "rss_bytes": rss,
        "idle_cores": idle,
    }
    said = "; ".join(f"{name} {100 * cores:.1f} %" for name, cores in idle.items())
    memory = "; ".join(f"{name} {own / 1e6:.0f} / {all_ / 1e6:.0f}" for name, (own, all_) in rss.items())
    remarks = (
        f"Of a core, without clients: {said or '-'}.",
        f"RSS in MB after all loads, of a process / of all that it started: {memory or '-'}.",
    )
    return BenchOutcome(figures, (flow_table(paths, flows, broker is not None), call_table(paths, calls)), remarks)


def _idle(paths: Sequence[Path], seconds: int) -> dict[str, float]:
    """Share of a core that the process of each path uses by itself, without all that it started."""
    pids = {path.name: path.pid for path in paths if path.pid is not None}
    before = {name: cpu_ns([pid]) for name, pid in pids.items()}
    time.sleep(seconds)
    return {name: (cpu_ns([pid]) - before[name]) / 1e9 / seconds for name, pid in pids.items()}


# -- throughput -------------------------------------------------------------------------------------------------------


def _throughput(
    paths: Sequence[Path], kind: str, scale: Scale, say: Say, broker: int | None
) -> dict[str, dict[str, list[float]]]:
    """Per path MB/s and CPU seconds per GB, by rounds; a first round warms up the brokers."""
    volume = scale.pick(*VOLUME_BYTES)
    tool = produced_mb_s if kind == "produce" else consumed_mb_s
    brokers = [] if broker is None else [broker]
    found: dict[str, dict[str, list[float]]] = {
        path.name: {"mb_s": [], "cpu_s_per_gb": [], "broker_s_per_gb": []} for path in paths
    }
    for round_number, order in enumerate(turns([path.name for path in paths], 1 + scale.pick(*ROUNDS))):
        for path in (next(one for one in paths if one.name == name) for name in order):
            before, before_broker = path.cpu_ns(), cpu_ns(brokers)
            rate = tool(path.bootstrap, path.topic, volume // KIB, KIB, path.settings)
            if round_number > 0:
                found[path.name]["mb_s"].append(rate)
                found[path.name]["cpu_s_per_gb"].append((path.cpu_ns() - before) / volume)
                found[path.name]["broker_s_per_gb"].append((cpu_ns(brokers) - before_broker) / volume)
        said = {name: round(one["mb_s"][-1]) for name, one in found.items() if one["mb_s"]}
        say(f"{kind}, round {round_number}, MB/s: {said or 'warm'}")
    return found


# -- Kafka's tools ----------------------------------------------------------------------------------------------------


def produced_mb_s(
    bootstrap: str, topic: str, records: int, record_bytes: int, settings: Mapping[str, str] | None = None
) -> float:
    """MB (10^6 bytes) of values per second, acks=all and idempotent, from the tool's last line."""
    told = {"batch.size": str(BATCH_BYTES), "acks": "all", **(settings or {})}
    arguments = ["--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes)]
    printed = _run("ProducerPerformance", [*arguments, "--throughput", "-1"], bootstrap, told)
    found = re.findall(r"^(\d+) records sent, ([\d.]+) records/sec", printed, re.MULTILINE)
    if not found or int(found[-1][0]) != records:
        raise BenchError(f"ProducerPerformance at {bootstrap} did not send {records} records:\n{printed[-2000:]}")
    return float(found[-1][1]) * record_bytes / 1e6


def consumed_mb_s(
    bootstrap: str, topic: str, records: int, record_bytes: int, settings: Mapping[str, str] | None = None
) -> float:
    """MB of values per second, without the time in which the group is formed.

    It commits nothing: if the group's cluster does not have the topic, the tool would retry for 30 s at its end, and
    the gateway's work for that would count as the cost of reading.
    """
    arguments = ["--topic", topic, "--num-records", str(records), "--timeout", "60000", "--hide-header"]
    told = {"auto.offset.reset": "earliest", "enable.auto.commit": "false", **(settings or {})}
    printed = _run("ConsumerPerformance", arguments, bootstrap, told)
    lines = [line.split(", ") for line in printed.splitlines() if line.count(", ") == 9]
    if not lines or int(lines[-1][4]) < records:
        raise BenchError(f"ConsumerPerformance at {bootstrap} did not read {records} records:\n{printed[-2000:]}")
    return int(lines[-1][4]) * record_bytes / 1e3 / float(lines[-1][7])


def _run(tool: str, arguments: list[str], bootstrap: str, settings: Mapping[str, str]) -> str:
    """The tool's output. :raises BenchError: it failed, or timed out."""
    java = find_java()
    jars = kafka_jars(TOOLS_VERSION, java, lambda _text: None)
    with tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        log4j = File(folder, "log4j2.properties")
        log4j.write_text("rootLogger.level = off\n", "utf-8")
        properties = File(folder, "client.properties")
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
        path = class_path(jars)
        command = [java.binary, "-Xmx512m", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED"]
        command += [f"-Dlog4j2.configurationFile={log4j}", "-cp", path, f"org.apache.kafka.tools.{tool}"]
        command += ["--bootstrap-server", bootstrap, *arguments, "--command-config", str(properties)]
        try:
            done = run(command, TOOL_S)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"{tool} at {bootstrap} did not end within {TOOL_S:.0f} s") from error
    if done.returncode != 0:
        raise BenchError(f"{tool} at {bootstrap} ended with {done.returncode}:\n{(done.stderr + done.stdout)[-2000:]}")
    return done.stdout


# -- one request in flight --------------------------------------------------------------------------------------------


def _calls(paths: Sequence[Path], requests: SingleRequests, scale: Scale, say: Say) -> dict[str, dict[str, Any]]:
    """Per path seconds of each request, and µs of CPU per request, by rounds.

    Only one path is used at a time, because the CPU time of the brokers cannot be split between paths.
    """
    samples = max(scale.pick(*SAMPLES) // scale.pick(*ROUNDS), 2)
    found: dict[str, dict[str, Any]] = {path.name: {"seconds": [], "cpu_us": []} for path in paths}
    for order in turns([path.name for path in paths], scale.pick(*ROUNDS)):
        for path in (next(one for one in paths if one.name == name) for name in order):
            before = path.cpu_ns()
            answer = load(
                "requests",
                120.0,
                target=(path.bootstrap, path.topic),
                kind=requests.kind,
                samples=samples,
                connections=requests.connections,
                record_bytes=requests.size,
                pause_s=PAUSE_S,
                seed=scale.seed,
                offset=path.offset,
                ca_file=path.ca_file,
            )
            found[path.name]["seconds"] += answer["seconds"]
            if path.pid is not None:
                found[path.name]["cpu_us"].append((path.cpu_ns() - before) / 1e3 / answer["asked"])
    p50 = {name: _us(one["seconds"], "p50") for name, one in found.items()}
    say(f"{requests.kind} of {requests.size} B, {requests.connections} connections, p50 in µs: {p50}")
    return found


def _us(seconds: Sequence[float], which: str) -> int:
    return round(spread(seconds)[which] * 1e6)


# -- tables -----------------------------------------------------------------------------------------------------------


def flow_table(paths: Sequence[Path], flows: Flows, with_broker: bool) -> FigureTable:
    rows = []
    for kind, found in flows.items():
        for path in paths:
            own = found[path.name]
            ratio = paired_ratio(own["mb_s"], found[path.base]["mb_s"]) if path.base else 1.0
            cells = [f"{median(own['mb_s']):,.0f}", f"{ratio:.2f}", _per_gb(own["cpu_s_per_gb"], path.pid)]
            if with_broker:
                together = [sum(pair) for pair in zip(own["cpu_s_per_gb"], own["broker_s_per_gb"], strict=True)]
                cells += [number(median(own["broker_s_per_gb"]), 2), number(median(together), 2)]
            rows.append((kind, path.name, *cells))
    more: tuple[str, ...] = ("broker", "together") if with_broker else ()
    header = ("load", "path", "MB/s", "to its base", "CPU-s/GB", *more)
    return FigureTable("1 KiB records, batches of 64 KiB, medians of the rounds", header, tuple(rows))


def _per_gb(rounds: Sequence[float], pid: int | None) -> str:
    return "-" if pid is None else number(median(rounds), 2)


def call_table(paths: Sequence[Path], calls: Calls) -> FigureTable:
    rows = []
    for requests, found in sorted(calls.items()):
        for path in paths:
            own, base = found[path.name], found[path.base]["seconds"] if path.base else None
            added = (_us(own["seconds"], which) - (_us(base, which) if base else 0) for which in ("p50", "p99"))
            cpu = f"{median(own['cpu_us']):.0f}" if own["cpu_us"] else "-"
            what = (requests.kind, f"{requests.size:,} B", str(requests.connections), path.name)
            rows.append((*what, " / ".join(map(str, added)), cpu))
    header = ("request", "record", "connections", "path", "p50 / p99 µs", "CPU µs a request")
    return FigureTable("One request in flight: latency that a path adds; for a base its own latency", header, (*rows,))
