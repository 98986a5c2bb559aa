"""A mirrored topic under load: planned switches to its copy and back, then its cluster is killed, repeatedly.

A forced switch is timed from the kill, after which the command or the form's run is triggered at once, to the first
acknowledgement of the copy's cluster. The clients are those of `blackout`; none is restarted.

For the forced switches the clients in pure Python end, and Airflow stands still while the command is timed. Elsewhere
they are on machines of their own; here they take most of two cores, and the figures would be theirs.
"""

import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.blackout import KINDS, RATE, SETTLE_S, at_work, fence_to_cut_ms
from bench.figures import BenchOutcome, FigureTable, spread
from bench.ground import CLUSTERS, FORCED, BenchError, Say, Scale, create_topic, direct, switch
from bench.mirror_sides import command
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from stack.clients.process import ClientProcess, history_of
from stack.demo.airflow_api import AirflowApi, AirflowError, tell_tasks
from stack.demo.workload import ROOT
from stack.harness import Stack
from stack.history.blackout import Move, blackouts
from stack.history.events import Acked

TOPIC = "orders"
"""From `blackout`, as the clients are."""
PARTITIONS = 3
USER = "user:anonymous"
GO_ON = 50
PATIENCE_S = 180.0
GOALS_S = {"command": 3.0, "form": 15.0}
PURE_PYTHON = "kafka-python"
FORM = "fail_over_cluster"
AIRFLOW = ("airflow/scheduler", "airflow/dag-processor", "airflow/triggerer", "airflow/api-server")
GOAL_MS = 1000.0


class Forced(NamedTuple):
    """Seconds from the kill; `ended_s` is the end of the command, or of the whole run."""

    by: str
    first_ack_s: float
    everybody_s: float
    """Until all producers have an acknowledgement."""
    ended_s: float


def run(scale: Scale, say: Say) -> BenchOutcome:
    chance = random.Random(scale.seed)
    say("starting two clusters, two gateways, Airflow and the job that copies mirrors")
    with (
        Stack.up(CLUSTERS, gateways=2, airflow=True, mirror=True, record_facts_s=5, full_speed=True) as stack,
        tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder,
    ):
        store = connect(stack.zookeeper, root=ROOT)
        create_topic(direct(stack, "east"), TOPIC, PARTITIONS)
        clients = at_work(stack, Path(folder))
        try:
            _go_on(clients)
            command(stack, "mirror", "link", TOPIC, "--from", "east", "--to", "west")
            moves, reports = _planned(stack, store, scale.pick(10, 2), chance, say)
            moved = blackouts(history_of(clients), moves, SETTLE_S)
            forced = _forced(stack, store, clients, scale, say)
            for client in clients:
                client.stop()
        finally:
            for client in clients:
                client.kill()
            store.close()
    return _outcome(moved, reports, forced)


def _planned(
    stack: Stack, store: Store, switches: int, chance: random.Random, say: Say
) -> tuple[list[Move], list[dict[str, Any]]]:
    """There and back: an even number of switches ends at the start."""
    moves, reports = [], []
    origin, target = "east", "west"
    for number in range(switches):
        _mirrored(store, target)
        begun = time.time()
        report = switch(stack, USER, origin, target)
        moves.append(Move(begun, time.time()))
        reports.append(report)
        say(f"switch {number + 1}/{switches}, {origin} → {target}: {fence_to_cut_ms(report['steps']):.0f} ms fenced")
        origin, target = target, origin
        time.sleep(SETTLE_S + chance.random())
    return moves, reports


def _forced(stack: Stack, store: Store, clients: Sequence[ClientProcess], scale: Scale, say: Say) -> list[Forced]:
    ways: dict[str, Callable[[], None]] = {
        "command": partial(_by_command, stack, say),
        "form": partial(_by_form, stack, say),
    }
    found = []
    for client in clients:
        if client.kind.startswith(PURE_PYTHON):
            client.stop()
    clients = [client for client in clients if not client.kind.startswith(PURE_PYTHON)]
    for way, trigger in ways.items():
        for _ in range(scale.pick(5, 1)):
            _mirrored(store, "west")
            marks = {client: client.mark() for client in clients if client.kind.endswith("producer")}
            if way == "command":
                _each(stack.pause)
            begun = time.time()
            stack.kill("cluster/east")
            trigger()
            ended_s = time.time() - begun
            _go_on(clients)
            first = _first_acks(store, marks, begun)
            found.append(Forced(way, min(first), max(first), ended_s))
            say(f"forced by {way}: first acknowledgement after {min(first):.2f} s, all after {max(first):.2f} s")
            if way == "command":
                _each(stack.resume)
            _home_again(stack, store)
    return found


def _each(action: Callable[[str], None]) -> None:
    for part in AIRFLOW:
        action(part)


def _by_command(stack: Stack, say: Say) -> None:
    steps = switch(stack, USER, "east", "west", FORCED)["steps"]
    took = (f"{step['name']} {step['ms']:.0f}" for step in steps)
    say(f"steps, ms: {', '.join(took)}")


def _by_form(stack: Stack, say: Say) -> None:
    assert stack.airflow is not None
    airflow = AirflowApi(stack.airflow["url"], stack.airflow["user"], stack.airflow["password"])
    run_id = f"bench-{time.time_ns()}"
    airflow.trigger(FORM, run_id, {"cluster": "east", "reason": "benchmark"})
    try:
        tell_tasks(airflow, FORM, run_id, say)
    except AirflowError as error:
        raise BenchError(str(error)) from error


def _first_acks(store: Store, marks: Mapping[ClientProcess, int], begun: float) -> list[float]:
    """For each producer, the time of the first record that was acknowledged above the cut.

    :param marks: positions in the histories before the switch.
    """
    cuts = {partition: extents[-1].start for partition, extents in store.load().topics[TOPIC].partitions.items()}
    found = []
    for client, mark in marks.items():
        acked = (event for event in client.events(mark) if isinstance(event, Acked))
        found.append(min(one.t for one in acked if one.offset >= cuts[one.partition]) - begun)
    return found


def _home_again(stack: Stack, store: Store) -> None:
    """Make east the standby, switch back to it, and make west the standby."""
    stack.restart("cluster/east")
    stack.wait_ready("cluster/east")
    command(stack, "mirror", "reconcile", "east")
    _mirrored(store, "east")
    switch(stack, USER, "west", "east")


def _mirrored(store: Store, target: str) -> None:
    """Wait until the copy has hardly any lag. :raises BenchError: it does not get there."""
    until = time.monotonic() + PATIENCE_S
    while True:
        reports = [partition for report in store.mirror_reports().values() for partition in report.partitions]
        partition_reports = [report for report in reports if report.mirror == f"{TOPIC}@{target}"]
        if len(partition_reports) == PARTITIONS and all(
            report.state == "copying" and report.within(int(RATE)) for report in partition_reports
        ):
            return
        if time.monotonic() > until:
            raise BenchError(f"{TOPIC} is not mirrored to {target} after {PATIENCE_S:.0f} s: {partition_reports}")
        time.sleep(0.2)


def _go_on(clients: Sequence[ClientProcess]) -> None:
    """Wait until each client has made progress."""
    whats = ["acknowledged" if client.kind.endswith("producer") else "delivered" for client in clients]
    wanted = [client.count(what) + GO_ON for client, what in zip(clients, whats, strict=True)]
    for client, count, what in zip(clients, wanted, whats, strict=True):
        client.wait_for(count, what, PATIENCE_S)


def _outcome(
    moved: dict[str, tuple[float | None, ...]], reports: Sequence[dict[str, Any]], forced: Sequence[Forced]
) -> BenchOutcome:
    everything = [one for found in moved.values() for one in found if one is not None]
    fenced = [fence_to_cut_ms(report["steps"]) for report in reports]
    planned = {"blackout_ms": spread(everything), "fence_to_cut_ms": spread(fenced)}
    rows = [(name, *(f"{one[key]:.0f}" for key in ("p50", "p99", "max"))) for name, one in planned.items()]
    by: dict[str, Any] = {}
    lines = []
    for way, goal_s in GOALS_S.items():
        runs = [one for one in forced if one.by == way]
        by[way] = {name: spread([getattr(one, name) for one in runs]) for name in Forced._fields[1:]}
        cells = (f"{by[way][name]['p50']:.2f} / {by[way][name]['max']:.2f}" for name in Forced._fields[1:])
        lines.append((way, str(len(runs)), *cells, f"{goal_s:g}"))
    tables = (
        FigureTable(
            f"{len(reports)} planned switches of a mirrored topic, {len(KINDS)} kinds of clients at {RATE:g} records/s",
            ("", "p50 ms", "p99 ms", "max ms"),
            (("blackout of a client", *rows[0][1:]), ("fence to cut", *rows[1][1:])),
        ),
        FigureTable(
            "Forced switches: seconds from the kill of the cluster, p50 / max",
            (
                "by",
                "times",
                "first acknowledgement",
                "every producer has one",
                "command or run ended",
                "goal of the first",
            ),
            tuple(lines),
        ),
    )
    over = sum(one > GOAL_MS for one in everything)
    remark = f"Blackouts over {GOAL_MS:g} ms in planned switches: {over} of {len(everything)}."
    return BenchOutcome({**planned, "forced_s": by}, tables, (remark,))
