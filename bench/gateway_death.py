"""Standstills of producers when a gateway is killed in the middle of a move.

A move waits for the dead gateway until its session expires (6 s in the stack), and its topics cannot be written until
then. Anything longer is due to the gateways and the clients: how long a dead address is shown, and clients' timers.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figures import BenchOutcome, FigureTable, spread
from bench.ground import BenchError, Say, Scale, create_topic, direct, up
from stack.clients.process import ClientProcess, history_of
from stack.harness import Stack
from stack.history.blackout import Move, blackouts

TOPIC = "orders"
PARTITIONS = 3
RATE = 100.0
SESSION_S = 6.0
WATCHED_S = 30.0
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "confluent, plain": ("confluent-producer", {"idempotence": "off"}),
    "confluent, idempotent": ("confluent-producer", {"idempotence": "on"}),
    "kafka-python": ("kafka-python-producer", {}),
    "java": ("java-producer", {}),
}
CLIENTS_EACH = 2
"""Two of each kind, so that both gateways probably have some: one gateway dies."""


def run(scale: Scale, say: Say) -> BenchOutcome:
    rounds = scale.pick(6, 1)
    chance = random.Random(scale.seed)
    with up(2, say) as stack, tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        create_topic(direct(stack, "east"), TOPIC, PARTITIONS)
        clients = {
            f"{name}-{number}".replace(", ", "-"): (name, kind, options)
            for name, (kind, options) in KINDS.items()
            for number in range(CLIENTS_EACH)
        }
        started = [
            ClientProcess.start(
                kind,
                directory=Path(folder),
                client=client,
                bootstrap=stack.bootstrap,
                topic=TOPIC,
                rate=RATE,
                **options,
            )
            for client, (_, kind, options) in clients.items()
        ]
        try:
            for client in started:
                client.wait_for(50, "acknowledged", 90.0)
            windows = [_round(stack, number, chance, say) for number in range(rounds)]
            for client in started:
                client.stop()
        finally:
            for client in started:
                client.kill()
        history = history_of(started)
    found = blackouts(history, windows, 0.0)
    return _outcome({name: (clients[name][0], each) for name, each in found.items()}, rounds)


def _round(stack: Stack, number: int, chance: random.Random, say: Say) -> Move:
    origin, target = ("east", "west") if number % 2 == 0 else ("west", "east")
    program = str(Path(sys.executable).with_name("switchyard"))
    route = ["--from", origin, "--to", target, "--reason", "benchmark", "--yes", "--include-other-users"]
    more = ["--drain-timeout", "30", "--json", "--zookeeper", stack.zookeeper]
    command = subprocess.Popen(
        [program, "switch", "user:anonymous", *route, *more],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert command.stderr is not None
    for line in command.stderr:
        if line.startswith("operation "):
            break
    time.sleep(chance.uniform(0, 0.4))
    part = f"gateway/{chance.choice((1, 2))}"
    begun = time.time()
    stack.kill(part)
    out, said = command.communicate(timeout=120)
    lines = out.strip().splitlines()
    result = json.loads(lines[-1]).get("result") if lines else None
    if result != "succeeded":
        raise BenchError(f"round {number + 1}: the switch ended as {result}: {said[-2000:]}")
    time.sleep(max(0.0, begun + WATCHED_S - time.time()))
    stack.restart(part)
    say(f"round {number + 1}: {part} killed, {origin} → {target}")
    time.sleep(2.0)
    return Move(begun, begun + WATCHED_S)


def _outcome(found: dict[str, tuple[str, tuple[float | None, ...]]], rounds: int) -> BenchOutcome:
    figures: dict[str, Any] = {"unit": "ms", "session_ms": SESSION_S * 1000, "kinds": {}}
    rows = []
    lost = 0
    for kind in KINDS:
        each = [value for name, values in found.values() if name == kind for value in values]
        known = [value for value in each if value is not None]
        lost += len(each) - len(known)
        one = spread(known)
        figures["kinds"][kind] = {**one, "each": known}
        rows.append((kind, *(f"{one[key]:.0f}" for key in ("p50", "max")), f"{one['max'] / SESSION_S / 1000:.2f}"))
    title = f"Producers over {rounds} moves with a gateway killed in each, two of a kind"
    header = ("client", "p50 ms", "max ms", "max / session")
    return BenchOutcome(
        figures, (FigureTable(title, header, tuple(rows)),), (f"Clients that did not come back: {lost}.",)
    )
