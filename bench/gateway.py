"""Paths to the same brokers, in turns: throughput, latency, CPU time and memory of each.

`--path NAME=HOST:PORT[,PID]` names one: a bootstrap address, and the process whose descendants are charged to it.
The first path is the base of the comparison. Without any, two clusters and a gateway are started here, and the paths
are direct and through the gateway, to a topic that never moved and to one that did (mapped); then both with TLS, which
the gateway ends. Before all loads the processor time of a path without clients is taken.

Throughput is measured by Kafka's tools; latency and the cost of a request by single requests with pauses, since caches
are cold between real ones. Memory is taken after all loads, of the process and its descendants: one gateway of a
fleet has a helper process that takes over operations without an executor.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path as Folder
from statistics import median
from typing import Any, NamedTuple

from bench.figures import BenchOutcome, FigureTable, number, paired_ratio, spread, turns
from bench.gateway_cost import cpu_seconds
from bench.ground import CLUSTERS, BenchError, Say, Scale, create_topic, direct, load, switch, up
from bench.java_performance import consumed_mb_s, produced_mb_s
from bench.process_cost import cpu_ns, rss_bytes, tree
from bench.tls_sides import BROKER_TLS, CLUSTER, sides
from stack.harness import Stack

KIB = 1024
ROUNDS = (6, 1)
VOLUME_BYTES = (400_000_000, 20_000_000)
"""Seconds of one run of a tool."""
FIRST = 50
"""Records before a topic moves: above them physical and client offsets differ."""
ALONE = 2
"""Batches of one record at the start of a topic. The last one is read again and again."""
SAMPLES = (2_000, 100)
"""Requests of a kind to each path in a round, one in flight."""
PAUSE_S = 0.001
SIZES = (100, KIB, 64 * KIB, KIB * KIB)
LARGE = {"max.message.bytes": str(2 * KIB * KIB)}
"""Brokers accept batches up to 1 MiB by default, so the record is smaller."""
CONNECTIONS = (1, 50, 1000)
IDLE_S = (3, 1)
KINDS = ("produce", "fetch")


class Path(NamedTuple):
    """A path to a topic.

    :ivar base: the path that it is compared with; None: it is a base.
    :ivar offset: of a record that is read again and again.
    :ivar ca_file: authority of its certificate; None: no TLS.
    """

    name: str
    bootstrap: str
    pid: int | None
    topic: str
    base: str | None
    offset: int = 0
    ca_file: str | None = None

    @property
    def settings(self) -> dict[str, str]:
        """Settings of Kafka's tools."""
        if self.ca_file is None:
            return {}
        trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca_file}
        return {"security.protocol": "SSL", **trusted}


def parse(texts: Sequence[str], topic: str) -> list[Path]:
    """Parse `NAME=HOST:PORT[,PID]`, the base first. :raises BenchError: another form, or a repeated name."""
    paths: list[Path] = []
    for text in texts:
        name, _, rest = text.partition("=")
        bootstrap, _, pid = rest.partition(",")
        if not name or not bootstrap.rpartition(":")[2].isdigit() or (pid and not pid.isdigit()):
            raise BenchError(f"--path {text!r} is not NAME=HOST:PORT[,PID], as in gateway=127.0.0.1:9092,4711")
        if any(one.name == name for one in paths):
            raise BenchError(f"--path {text!r}: there is a path {name!r} already; give each a name of its own")
        base = paths[0].name if paths else None
        paths.append(Path(name, bootstrap, int(pid) if pid else None, topic, base, ALONE - 1))
    return paths


def run(scale: Scale, say: Say) -> BenchOutcome:
    if scale.paths:
        paths = parse(scale.paths, f"bench-{int(time.time())}")
        create_topic(paths[0].bootstrap, paths[0].topic, 1, LARGE)
        _write(paths[0].bootstrap, paths[0].topic, ALONE)
        return _measured(paths, scale, say)
    with up(1, say) as stack, tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        plain = _measured(_paths(stack, "west", "", direct(stack, "west"), None, say), scale, say)
        with sides(stack, Folder(folder), say, proxied=False) as found:
            broker = next(side for side in found if side.name == BROKER_TLS)
            paths = _paths(stack, CLUSTER, ", TLS", broker.bootstrap, str(broker.ca_file), say)
            enciphered = _measured(paths, scale, say)
    tables, remarks = (*plain.tables, *enciphered.tables), (*plain.remarks, *enciphered.remarks)
    return BenchOutcome({"plain": plain.figures, "tls": enciphered.figures}, tables, remarks)


def _paths(stack: Stack, cluster: str, name: str, broker: str, ca_file: str | None, say: Say) -> list[Path]:
    """Direct and through the gateway, to a topic that was always in the cluster and to one that moved there."""
    pid, stays, comes = int(stack.gateways[0]["pid"]), f"stays-{cluster}", f"comes-{cluster}"
    (other,) = CLUSTERS.keys() - {cluster}
    create_topic(direct(stack, cluster), stays, 1, LARGE)
    create_topic(direct(stack, other), comes, 1, LARGE)
    _write(direct(stack, other), comes, FIRST)
    say(f"a topic moves to {cluster}, so that it is mapped")
    switch(stack, f"topic:{comes}", other, cluster)
    for topic in (stays, comes):
        _write(direct(stack, cluster), topic, ALONE)
    base = Path(f"direct{name}", broker, None, stays, None, ALONE - 1, ca_file)
    return [
        base,
        Path(f"gateway{name}", stack.bootstrap, pid, stays, base.name, ALONE - 1, ca_file),
        Path(f"gateway, mapped{name}", stack.bootstrap, pid, comes, base.name, FIRST + ALONE - 1, ca_file),
    ]


def _write(bootstrap: str, topic: str, records: int) -> None:
    """Records of 1 KiB, each in a batch of its own."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 3})
    for written in range(records):
        producer.produce(topic, b"v" * KIB)
        if producer.flush(30):
            raise BenchError(f"record {written} of {records} was not written to {topic} at {bootstrap} in 30 s")


def _measured(paths: Sequence[Path], scale: Scale, say: Say) -> BenchOutcome:
    idle = _idle(paths, scale.pick(*IDLE_S))
    flows = {kind: _throughput(paths, kind, scale, say) for kind in KINDS}
    calls = {(kind, KIB, 1): _calls(paths, kind, KIB, 1, scale, say) for kind in KINDS}
    for size in SIZES if not scale.quick else ():
        calls["produce", size, 1] = calls.get(("produce", size, 1)) or _calls(paths, "produce", size, 1, scale, say)
    for connections in CONNECTIONS if not scale.quick else ():
        key = ("produce", KIB, connections)
        calls[key] = calls.get(key) or _calls(paths, *key, scale, say)
    rss = {path.name: (rss_bytes([path.pid]), rss_bytes(tree(path.pid))) for path in paths if path.pid is not None}
    figures = {
        "throughput": flows,
        "calls": {f"{kind}, {size} B, {count} connections": found for (kind, size, count), found in calls.items()},
        "rss_bytes": rss,
        "idle_cores": idle,
    }
    said = "; ".join(f"{name} {100 * cores:.1f} %" for name, cores in idle.items())
    remarks = (f"Of a core, without clients: {said}.",) if idle else ()
    return BenchOutcome(figures, (_summary(paths, flows, calls, rss), _shapes(paths, calls)), remarks)


def _idle(paths: Sequence[Path], seconds: int) -> dict[str, float]:
    """Share of a core that the process of each path uses by itself, without all that it started."""
    pids = {path.name: path.pid for path in paths if path.pid is not None}
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    time.sleep(seconds)
    return {name: (cpu_seconds(pid) - before[name]) / seconds for name, pid in pids.items()}


# -- throughput -------------------------------------------------------------------------------------------------------


def _throughput(paths: Sequence[Path], kind: str, scale: Scale, say: Say) -> dict[str, dict[str, list[float]]]:
    """Per path MB/s and CPU seconds per GB, by rounds; a first round warms up the brokers."""
    volume = scale.pick(*VOLUME_BYTES)
    records = volume // KIB
    tool = produced_mb_s if kind == "produce" else consumed_mb_s
    found: dict[str, dict[str, list[float]]] = {path.name: {"mb_s": [], "cpu_s_per_gb": []} for path in paths}
    for round_number, order in enumerate(turns([path.name for path in paths], 1 + scale.pick(*ROUNDS))):
        for path in (next(one for one in paths if one.name == name) for name in order):
            before = cpu_ns(path.pid) if path.pid is not None else 0
            rate = tool(path.bootstrap, path.topic, records, KIB, path.settings)
            if round_number > 0:
                found[path.name]["mb_s"].append(rate)
                if path.pid is not None:
                    found[path.name]["cpu_s_per_gb"].append((cpu_ns(path.pid) - before) / volume)
        said = {name: round(one["mb_s"][-1]) for name, one in found.items() if one["mb_s"]}
        say(f"{kind}, round {round_number}, MB/s: {said or 'warm'}")
    return found


# -- one request in flight --------------------------------------------------------------------------------------------


def _calls(
    paths: Sequence[Path], kind: str, size: int, connections: int, scale: Scale, say: Say
) -> dict[str, dict[str, Any]]:
    """Per path seconds of each request, and µs of CPU per request, by rounds.

    Only one path is used at a time, because the CPU time of the brokers cannot be split between paths.
    """
    samples = max(scale.pick(*SAMPLES) // scale.pick(*ROUNDS), 2)
    taken: dict[str, list[float]] = {path.name: [] for path in paths}
    cpu: dict[str, list[float]] = {path.name: [] for path in paths}
    for order in turns([path.name for path in paths], scale.pick(*ROUNDS)):
        for path in (next(one for one in paths if one.name == name) for name in order):
            before = cpu_ns(path.pid) if path.pid is not None else 0
            asked = load(
                "requests",
                120.0,
                target=(path.bootstrap, path.topic),
                kind=kind,
                samples=samples,
                connections=connections,
                record_bytes=size,
                pause_s=PAUSE_S,
                seed=scale.seed,
                offset=path.offset,
                ca_file=path.ca_file,
            )
            taken[path.name] += asked["seconds"]
            if path.pid is not None:
                cpu[path.name].append((cpu_ns(path.pid) - before) / 1e3 / asked["asked"])
    say(f"{kind} of {size} B, {connections} connections, p50 in µs: { {n: _us(t, 'p50') for n, t in taken.items()} }")
    return {name: {"seconds": taken[name], "cpu_us": cpu[name]} for name in taken}


def _us(seconds: Sequence[float], which: str) -> int:
    return round(spread(seconds)[which] * 1e6)


# -- tables -----------------------------------------------------------------------------------------------------------

Calls = Mapping[tuple[str, int, int], Mapping[str, Mapping[str, Any]]]


def _summary(
    paths: Sequence[Path],
    flows: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]],
    calls: Calls,
    rss: Mapping[str, tuple[int, int]],
) -> FigureTable:
    rows = []
    for path in paths:
        ratios, per_gb = [], []
        for kind in KINDS:
            own = flows[kind][path.name]
            base = flows[kind][path.base]["mb_s"] if path.base else None
            ratios.append(f"{paired_ratio(own['mb_s'], base):.2f}" if base else f"{median(own['mb_s']):.0f} MB/s")
            per_gb.append(number(median(own["cpu_s_per_gb"]), 2) if own["cpu_s_per_gb"] else "-")
        one = calls["produce", KIB, 1]
        cpu = " / ".join(_cpu(calls[kind, KIB, 1][path.name]) for kind in KINDS)
        memory = " / ".join(f"{one / 1e6:.0f}" for one in rss.get(path.name, ())) or "-"
        rows.append((path.name, *ratios, _added(path, one), " / ".join(per_gb), cpu, memory))
    header = (
        "path", "produce / direct", "consume / direct", "added p50 / p99 µs", "CPU-s/GB produce / fetch",
        "CPU µs a request, produce / fetch", "RSS MB, own / of all it started",
    )  # fmt: skip
    return FigureTable(
        "1 KiB records, batches of 64 KiB; latency and cost of a request: one in flight", header, tuple(rows)
    )


def _shapes(paths: Sequence[Path], calls: Calls) -> FigureTable:
    rows = [
        (kind, f"{size:,} B", str(count), path.name, _added(path, found), _cpu(found[path.name]))
        for (kind, size, count), found in sorted(calls.items())
        for path in paths
    ]
    header = ("request", "record", "connections", "path", "p50 / p99 µs", "CPU µs a request")
    return FigureTable(
        "One request in flight: what a path adds, and of the direct one what it takes", header, tuple(rows)
    )


def _added(path: Path, found: Mapping[str, Mapping[str, Any]]) -> str:
    own = found[path.name]["seconds"]
    base = found[path.base]["seconds"] if path.base else None
    return " / ".join(str(_us(own, which) - (_us(base, which) if base else 0)) for which in ("p50", "p99"))


def _cpu(found: Mapping[str, Any]) -> str:
    return f"{median(found['cpu_us']):.0f}" if found["cpu_us"] else "-"
