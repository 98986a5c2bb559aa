"""Planned switches of a mirrored topic to its copy and back, under load. The clients are those of `blackout`."""

import random
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.blackout import GOAL_MS, KINDS, RATE, SETTLE_S, at_work, fence_to_cut_ms
from bench.figures import BenchOutcome, FigureTable, spread
from bench.ground import CLUSTERS, Say, Scale, create_topic, direct, switch
from bench.mirror_sides import command
from bench.waiting import go_on, mirrored
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from stack.clients.process import history_of
from stack.demo.workload import ROOT
from stack.harness import Stack
from stack.history.blackout import Move, blackouts

TOPIC = "orders"
"""From `blackout`, as the clients are."""
PARTITIONS = 3
USER = "user:anonymous"


def run(scale: Scale, say: Say) -> BenchOutcome:
    chance = random.Random(scale.seed)
    say("starting two clusters, two gateways and the job that copies mirrors")
    with (
        Stack.up(CLUSTERS, gateways=2, mirror=True, record_facts_s=5, full_speed=True) as stack,
        tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder,
    ):
        store = connect(stack.zookeeper, root=ROOT)
        create_topic(direct(stack, "east"), TOPIC, PARTITIONS)
        clients = at_work(stack, Path(folder))
        try:
            go_on(clients)
            command(stack, "mirror", "link", TOPIC, "--from", "east", "--to", "west")
            moves, reports = _planned(stack, store, scale.pick(10, 2), chance, say)
            for client in clients:
                client.stop()
            moved = blackouts(history_of(clients), moves, SETTLE_S)
        finally:
            for client in clients:
                client.kill()
            store.close()
    everything = [one for found in moved.values() for one in found if one is not None]
    fenced = [fence_to_cut_ms(report["steps"]) for report in reports]
    figures = {"blackout_ms": spread(everything), "fence_to_cut_ms": spread(fenced)}
    rows = [(name, *(f"{one[key]:.0f}" for key in ("p50", "p99", "max"))) for name, one in figures.items()]
    table = FigureTable(
        f"{len(reports)} planned switches of a mirrored topic, {len(KINDS)} kinds of clients at {RATE:g} records/s",
        ("", "p50 ms", "p99 ms", "max ms"),
        (("blackout of a client", *rows[0][1:]), ("fence to cut", *rows[1][1:])),
    )
    over = sum(one > GOAL_MS for one in everything)
    return BenchOutcome(figures, (table,), (f"Blackouts over {GOAL_MS:g} ms: {over} of {len(everything)}.",))


def _planned(
    stack: Stack, store: Store, switches: int, chance: random.Random, say: Say
) -> tuple[list[Move], list[dict[str, Any]]]:
    """There and back: an even number of switches ends at the start."""
    moves, reports = [], []
    origin, target = "east", "west"
    for number in range(switches):
        mirrored(store, TOPIC, target, PARTITIONS, RATE)
        begun = time.time()
        report = switch(stack, USER, origin, target)
        moves.append(Move(begun, time.time()))
        reports.append(report)
        say(f"switch {number + 1}/{switches}, {origin} → {target}: {fence_to_cut_ms(report['steps']):.0f} ms fenced")
        origin, target = target, origin
        time.sleep(SETTLE_S + chance.random())
    return moves, reports
