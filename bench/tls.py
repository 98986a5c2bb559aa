"""TLS to clients, terminated by a gateway, haproxy, nginx and the broker itself: CPU per GB, and handshakes."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import BenchOutcome, FigureTable, number, paired_ratio, turns
from bench.gateway_cost import cpu_seconds
from bench.ground import CLUSTERS, BenchError, Say, Scale, create_topic, direct, load
from bench.tls_sides import CLUSTER, TlsSide, broker_pid, sides
from stack.harness import Stack

RECORD_BYTES = 1024
PARTITIONS = 3
TOPIC = "enciphered"
LOADS = ("produce", "fetch")
RECORDS = (150_000, 6_000)
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
class Spent:
    """CPU-seconds per GB of values, and throughput.

    :ivar ended: CPU of the terminator in front of the broker; 0 if the broker terminates TLS.
    """

    ended: float
    broker: float
    mb_per_s: float


@dataclass(frozen=True, slots=True)
class Shaken:
    """:ivar cpu_ms: CPU of the terminator, per handshake."""

    per_s: float
    cpu_ms: float
    resumed: float
    """Share of handshakes that resumed a session."""
    cipher: str


Rounds = dict[str, list[Any]]
"""Side → results of each round."""


def run(scale: Scale, say: Say) -> BenchOutcome:
    say(f"starting {CLUSTER} {CLUSTERS[CLUSTER]} and a gateway, and both anew with TLS")
    with (
        Stack.up({CLUSTER: CLUSTERS[CLUSTER]}, gateways=1, full_speed=True) as stack,
        tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder,
        sides(stack, Path(folder), say) as found,
    ):
        create_topic(direct(stack, CLUSTER), TOPIC, PARTITIONS)
        spent = _loads(stack, found, scale, say)
        shaken = _handshakes(stack, [side for side in found if side.ca_file is not None], scale, say)
    peer = next((name for name in PEERS if name in spent[LOADS[0]]), None)
    rounds = scale.pick(*ROUNDS)
    tables = (
        FigureTable(
            f"CPU-seconds per GB of values, 1 KiB records, acks=all, idempotent: medians of {rounds} rounds",
            ("load", "TLS is ended by", "it", "broker", "together", f"it, to {peer or 'no peer'}", "MB/s"),
            tuple(spent_row(what, name, spent[what], peer) for what in LOADS for name in spent[what]),
        ),
        FigureTable(
            f"Handshakes, {CLIENTS} clients at once: medians of {rounds} rounds",
            ("handshake", "TLS is ended by", "a second", "CPU ms each", f"CPU, to {peer or 'no peer'}", "resumed"),
            tuple(shaken_row(what, name, shaken[what], peer) for what in HANDSHAKES for name in shaken[what]),
        ),
    )
    ciphers = {name: one[-1].cipher for name, one in shaken[HANDSHAKES[0]].items()}
    remark = "Agreed on: " + "; ".join(f"{name}: {cipher}" for name, cipher in ciphers.items()) + "."
    return BenchOutcome({"loads": _plain(spent), "handshakes": _plain(shaken)}, tables, (remark,))


def _loads(stack: Stack, found: list[TlsSide], scale: Scale, say: Say) -> dict[str, Rounds]:
    """All sides in turns; the first rounds warm up the broker and do not count."""
    spent: dict[str, Rounds] = {what: {side.name: [] for side in found} for what in LOADS}
    by_name = {side.name: side for side in found}
    broker = broker_pid(stack)
    records = scale.pick(*RECORDS)
    gb = records * RECORD_BYTES / 1e9
    for round_number, order in enumerate(turns(tuple(by_name), WARM_ROUNDS + scale.pick(*ROUNDS))):
        for what in LOADS:
            for side in (by_name[name] for name in order):
                parameters: dict[str, Any] = {
                    "bootstrap": side.bootstrap,
                    "topic": TOPIC,
                    "partitions": PARTITIONS,
                    "records": records,
                    "settings": side.settings,
                }
                if what == "produce":
                    parameters |= {"record_bytes": RECORD_BYTES, "seed": scale.seed}
                before = _cpu_s(side), cpu_seconds(broker)
                seconds = _loaded(what, side, parameters)
                after = _cpu_s(side), cpu_seconds(broker)
                if round_number >= WARM_ROUNDS:
                    cost = Spent((after[0] - before[0]) / gb, (after[1] - before[1]) / gb, gb * 1e3 / seconds)
                    spent[what][side.name].append(cost)
        said = {what: {name: f"{one[-1].ended:.2f}" for name, one in spent[what].items() if one} for what in LOADS}
        say(f"round {round_number}, CPU s/GB of the TLS terminator: {said}")
    return spent


def _loaded(what: str, side: TlsSide, parameters: dict[str, Any]) -> float:
    try:
        return float(load(what, 150.0, **parameters)["seconds"])
    except BenchError as error:
        raise BenchError(f"{what} by way of {side.name}: {error}") from error


def _cpu_s(side: TlsSide) -> float:
    return 0.0 if side.cpu_s is None else side.cpu_s()


def _handshakes(stack: Stack, found: list[TlsSide], scale: Scale, say: Say) -> dict[str, Rounds]:
    shaken: dict[str, Rounds] = {what: {side.name: [] for side in found} for what in HANDSHAKES}
    by_name = {side.name: side for side in found}
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
        before = cpu_seconds(broker) if side.cpu_s is None else side.cpu_s()
        clients = [one.result() for one in loads]
    time.sleep(SETTLED_S)
    after = cpu_seconds(broker) if side.cpu_s is None else side.cpu_s()
    count = sum(one["handshakes"] for one in clients)
    return Shaken(
        per_s=sum(one["handshakes"] / one["seconds"] for one in clients),
        cpu_ms=(after - before) * 1e3 / count,
        resumed=sum(one["resumed"] for one in clients) / count,
        cipher=clients[0]["cipher"],
    )


def spent_row(what: str, name: str, found: Rounds, peer: str | None) -> tuple[str, ...]:
    ended = [one.ended for one in found[name]]
    return (
        what,
        name,
        number(median(ended), 2) if any(ended) else "-",
        number(median(one.broker for one in found[name]), 2),
        number(median(one.ended + one.broker for one in found[name]), 2),
        _to_peer(ended, [one.ended for one in found.get(peer or "", [])]),
        f"{median(one.mb_per_s for one in found[name]):,.0f}",
    )


def shaken_row(what: str, name: str, found: Rounds, peer: str | None) -> tuple[str, ...]:
    cpu_ms = [one.cpu_ms for one in found[name]]
    return (
        what,
        name,
        f"{median(one.per_s for one in found[name]):,.0f}",
        number(median(cpu_ms), 2),
        _to_peer(cpu_ms, [one.cpu_ms for one in found.get(peer or "", [])]),
        f"{100 * median(one.resumed for one in found[name]):.0f} %",
    )


def _to_peer(measured: list[float], peer: list[float]) -> str:
    """The ratio, if there is a peer, and both values are measurable."""
    return f"{paired_ratio(measured, peer):.2f}" if any(measured) and peer and all(peer) else "-"


def _plain(found: dict[str, Rounds]) -> dict[str, Any]:
    """The rounds as JSON."""
    return {what: {name: list(map(asdict, rounds)) for name, rounds in one.items()} for what, one in found.items()}
