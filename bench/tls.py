"""TLS to clients, terminated by a gateway, haproxy, nginx and the broker itself: CPU per GB, and handshakes."""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import paths
from bench.cost import cpu_ns, tree
from bench.figures import BenchOutcome, FigureTable, number, paired_ratio, turns
from bench.ground import CLUSTERS, Say, Scale, direct, load
from bench.tls_sides import CLUSTER, PLAIN, TlsSide, broker_pid, sides
from stack.harness import Stack

TOPIC = "enciphered"
ROUNDS = (6, 1)
WARM_ROUNDS = 1
HANDSHAKES = ("full", "resumed")
CLIENTS = 2
"""Processes that shake hands at once: one waits while the server works for the other."""
HANDSHAKES_S = (3, 1)
SETTLED_S = 0.2
"""Seconds for the server's work after its last client has disconnected."""
START_S = 1.5
PEERS = ("haproxy", "nginx")


@dataclass(frozen=True, slots=True)
class Shaken:
    """:ivar cpu_ms: CPU of the terminator, per handshake."""

    per_s: float
    cpu_ms: float
    resumed: float
    """Share of handshakes that resumed a session."""
    cipher: str


Rounds = dict[str, list[Shaken]]
"""Side → results of each round."""


def run(scale: Scale, say: Say) -> BenchOutcome:
    say(f"starting {CLUSTER} {CLUSTERS[CLUSTER]} and a gateway, and both anew with TLS")
    with (
        Stack.up({CLUSTER: CLUSTERS[CLUSTER]}, gateways=1, full_speed=True) as stack,
        tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder,
        sides(stack, Path(folder), say) as tls_sides,
    ):
        paths.prepare(direct(stack, CLUSTER), TOPIC)
        flows = paths.measured([_path(side) for side in tls_sides], scale, say, broker=broker_pid(stack))
        shaken = _handshakes(stack, [side for side in tls_sides if side.ca_file is not None], scale, say)
    peer = next((name for name in PEERS if name in shaken[HANDSHAKES[0]]), None)
    table = FigureTable(
        f"Handshakes, {CLIENTS} clients at once: medians of {scale.pick(*ROUNDS)} rounds",
        ("handshake", "TLS is ended by", "a second", "CPU ms each", f"CPU, to {peer or 'no peer'}", "resumed"),
        tuple(shaken_row(what, name, shaken[what], peer) for what in HANDSHAKES for name in shaken[what]),
    )
    ciphers = {name: one[-1].cipher for name, one in shaken[HANDSHAKES[0]].items()}
    remark = "Agreed on: " + "; ".join(f"{name}: {cipher}" for name, cipher in ciphers.items()) + "."
    plain = {what: {name: list(map(asdict, one)) for name, one in rounds.items()} for what, rounds in shaken.items()}
    figures = {"loads": flows.figures, "handshakes": plain}
    return BenchOutcome(figures, (*flows.tables, table), (*flows.remarks, remark))


def _path(side: TlsSide) -> paths.Path:
    base = None if side.name == PLAIN else PLAIN
    ca_file = None if side.ca_file is None else str(side.ca_file)
    return paths.Path(side.name, side.bootstrap, side.pid, TOPIC, base, paths.ALONE - 1, ca_file)


def _handshakes(stack: Stack, tls_sides: list[TlsSide], scale: Scale, say: Say) -> dict[str, Rounds]:
    shaken: dict[str, Rounds] = {what: {side.name: [] for side in tls_sides} for what in HANDSHAKES}
    by_name = {side.name: side for side in tls_sides}
    broker = broker_pid(stack)
    seconds = float(scale.pick(*HANDSHAKES_S))
    for round_number, order in enumerate(turns(tuple(by_name), WARM_ROUNDS + scale.pick(*ROUNDS))):
        for what in HANDSHAKES:
            for side in (by_name[name] for name in order):
                one = _shaken(side, what == "resumed", seconds, broker)
                if round_number >= WARM_ROUNDS:
                    shaken[what][side.name].append(one)
        said = {
            what: {name: f"{one[-1].per_s:.0f}" for name, one in shaken[what].items() if one} for what in HANDSHAKES
        }
        say(f"round {round_number}, handshakes a second: {said}")
    return shaken


def _shaken(side: TlsSide, resumed: bool, seconds: float, broker: int) -> Shaken:
    ended_by = [broker] if side.pid is None else tree(side.pid)
    begin_at = time.monotonic() + START_S
    parameters: dict[str, Any] = {
        "address": side.bootstrap,
        "ca_file": str(side.ca_file),
        "resumed": resumed,
        "begin_at": begin_at,
        "seconds": seconds,
    }
    with ThreadPoolExecutor(CLIENTS) as pool:
        loads = [pool.submit(load, "handshakes", seconds + 60.0, **parameters) for _ in range(CLIENTS)]
        time.sleep(max(0.0, begin_at - time.monotonic()))  # the clients have started and are warm
        before = cpu_ns(ended_by)
        clients = [one.result() for one in loads]
    time.sleep(SETTLED_S)
    after = cpu_ns(ended_by)
    count = sum(client["handshakes"] for client in clients)
    return Shaken(
        per_s=sum(client["handshakes"] / client["seconds"] for client in clients),
        cpu_ms=(after - before) / 1e6 / count,
        resumed=sum(client["resumed"] for client in clients) / count,
        cipher=clients[0]["cipher"],
    )


def shaken_row(what: str, name: str, found: Rounds, peer: str | None) -> tuple[str, ...]:
    cpu_ms = [shaken.cpu_ms for shaken in found[name]]
    return (
        what,
        name,
        f"{median(shaken.per_s for shaken in found[name]):,.0f}",
        number(median(cpu_ms), 2),
        f"{paired_ratio(cpu_ms, [shaken.cpu_ms for shaken in found[peer]]):.2f}" if peer else "-",
        f"{100 * median(shaken.resumed for shaken in found[name]):.0f} %",
    )
