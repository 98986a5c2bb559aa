"""Standstill of each client in planned moves there and back under load."""

import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import BenchOutcome, FigureTable, percentile, spread
from bench.ground import Say, Scale, create_topic, direct, switch, up
from stack.clients.process import ClientProcess, history_of
from stack.harness import Stack
from stack.history.blackout import Move, blackouts

TOPIC = "orders"
PARTITIONS = 3
RATE = 100.0
SETTLE_S = 4.0
KINDS = ("confluent", "kafka-python", "java")
GOAL_MS = 1000.0


def run(scale: Scale, say: Say) -> BenchOutcome:
    switches = scale.pick(20, 2)
    chance = random.Random(scale.seed)
    with up(2, say) as stack, tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        create_topic(direct(stack, "east"), TOPIC, PARTITIONS)
        clients = at_work(stack, Path(folder))
        try:
            for client in clients:
                client.wait_for(50, "acknowledged" if client.kind.endswith("producer") else "delivered", 90.0)
            quiet = _quiet_windows(scale.pick(10, 1), say)
            moves, reports = _moves(stack, switches, chance, say)
            for client in clients:
                client.stop()
        finally:
            for client in clients:
                client.kill()
        history = history_of(clients)
    moved = blackouts(history, moves, SETTLE_S)
    usual = blackouts(history, quiet, 0.0)
    return _outcome(clients, moved, usual, reports, moves)


def at_work(stack: Stack, folder: Path, kinds: Sequence[str] = KINDS, records_s: float = RATE) -> list[ClientProcess]:
    """One producer and one consumer in its own group for each kind, all on one topic."""
    found = []
    for kind in kinds:
        found.append(
            ClientProcess.start(
                f"{kind}-consumer",
                directory=folder,
                client=f"{kind}-reads",
                bootstrap=stack.bootstrap,
                topic=TOPIC,
                group=f"{kind}-group",
            )
        )
        found.append(
            ClientProcess.start(
                f"{kind}-producer",
                directory=folder,
                client=f"{kind}-writes",
                bootstrap=stack.bootstrap,
                topic=TOPIC,
                rate=records_s,
            )
        )
    return found


def _quiet_windows(count: int, say: Say) -> list[Move]:
    """Windows as long as a move, without one: standstills that this machine causes anyway."""
    say(f"{count} windows without a move")
    time.sleep(2.0)
    windows = []
    for _ in range(count):
        begun = time.time()
        time.sleep(2.0)
        windows.append(Move(begun, time.time()))
    time.sleep(1.0)
    return windows


def _moves(stack: Stack, switches: int, chance: random.Random, say: Say) -> tuple[list[Move], list[dict[str, Any]]]:
    moves, reports = [], []
    origin, target = "east", "west"
    for number in range(switches):
        begun = time.time()
        report = switch(stack, "user:anonymous", origin, target)
        moves.append(Move(begun, time.time()))
        reports.append(report)
        say(
            f"switch {number + 1}/{switches} {origin} → {target}: "
            f"fence to cut {fence_to_cut_ms(report['steps']):.0f} ms"
        )
        origin, target = target, origin
        time.sleep(SETTLE_S + chance.random())
    return moves, reports


def fence_to_cut_ms(steps: Sequence[dict[str, Any]]) -> float:
    """The steps from `fence` to `cut` together, both included.

    :raises ValueError: one of them is missing.
    """
    names = [step["name"] for step in steps]
    first, last = names.index("fence"), names.index("cut")
    return float(sum(step["ms"] for step in steps[first : last + 1]))


def _outcome(
    clients: Sequence[ClientProcess],
    moved: dict[str, tuple[float | None, ...]],
    usual: dict[str, tuple[float | None, ...]],
    reports: list[dict[str, Any]],
    moves: list[Move],
) -> BenchOutcome:
    figures: dict[str, Any] = {"unit": "ms", "clients": {}, "steps": {}}
    rows = []
    everything: list[float] = []
    lost = 0
    for client in clients:
        found = [one for one in moved[client.name] if one is not None]
        quiet = [one for one in usual[client.name] if one is not None]
        lost += len(moved[client.name]) - len(found)
        everything += found
        one = spread(found)
        base = percentile(quiet, 50)
        figures["clients"][client.name] = {"kind": client.kind, **one, "quiet_p50": base, "each": found}
        numbers = (f"{one[key]:.0f}" for key in ("p50", "p99", "max"))
        over = sum(value > GOAL_MS for value in found)
        rows.append((client.kind, *numbers, f"{base:.0f}", f"{max(quiet):.0f}", str(over)))
    whole = spread(everything)
    figures |= {"all": whole, "never_came_back": lost}
    total = (f"{whole[key]:.0f}" for key in ("p50", "p99", "max"))
    rows.append(("all clients", *total, "", "", str(sum(value > GOAL_MS for value in everything))))
    header = ("client", "p50 ms", "p99 ms", "max ms", "without a move: p50 ms", "max ms", "over 1 s")
    title = f"Blackout per client over {len(moves)} planned switches, at {RATE:g} records/s each"
    tables = (FigureTable(title, header, tuple(rows)), _steps(reports, moves, figures))
    remarks = (f"Clients that did not come back after a switch: {lost}.",)
    return BenchOutcome(figures, tables, remarks)


def _steps(reports: list[dict[str, Any]], moves: list[Move], figures: dict[str, Any]) -> FigureTable:
    times: dict[str, list[float]] = {}
    for report in reports:
        for step in report["steps"]:
            times.setdefault(step["name"], []).append(step["ms"])
    times["fence → cut"] = [fence_to_cut_ms(report["steps"]) for report in reports]
    times["the whole command"] = [(move.until - move.t) * 1e3 for move in moves]
    rows = []
    for name, found in times.items():
        one = figures["steps"][name] = spread(found)
        rows.append((name, *(f"{one[key]:.0f}" for key in ("p50", "p99", "max"))))
    return FigureTable("Steps of the operations", ("step", "p50 ms", "p99 ms", "max ms"), tuple(rows))
