"""Gateway and direct path on real Kafka: throughput, CPU per request and per GB, without and with a map."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from bench.figures import BenchOutcome, FigureTable, number, paired_ratio, turns
from bench.gateway_cost import Cost, CostMeter
from bench.ground import Say, Scale, create_topic, direct, load, switch, up
from stack.harness import Stack

RECORD_BYTES = 1024
PARTITIONS = 3
IDLE_S = 3.0
PATHS = ("direct", "gateway")
STATES = ("without a map", "mapped, term 1")
ROUNDS = (7, 1)
WARM_ROUNDS = 2
A_RECORD_A_REQUEST = {"linger.ms": 0, "batch.num.messages": 1}
SHAPES: dict[str, tuple[str, dict[str, Any], tuple[int, int]]] = {
    "produce, batched": ("produce", {}, (180_000, 15_000)),
    "fetch": ("fetch", {}, (360_000, 30_000)),
    "produce, a record a request": ("produce", A_RECORD_A_REQUEST, (15_000, 1_500)),
}
"""Shape → (load program, settings of confluent-kafka besides its defaults, records in full and quick)."""


def run(scale: Scale, say: Say) -> BenchOutcome:
    with up(1, say) as stack:
        create_topic(direct(stack, "east"), "plain", PARTITIONS)
        create_topic(direct(stack, "east"), "carried", PARTITIONS)
        idle = _idle(stack)
        figures: dict[str, Any] = {"idle_cpu_s_per_s": idle}
        figures["without a map"] = _state(stack, scale, say, "without a map", "plain", "east")
        figures["switch"] = switch(stack, "topic:carried", "east", "west")["partitions"]
        figures["mapped, term 1"] = _state(stack, scale, say, "mapped, term 1", "carried", "west")
    rows = [
        _row(state, shape, figures[state][shape]) for state in ("without a map", "mapped, term 1") for shape in SHAPES
    ]
    rounds = scale.pick(7, 2)
    header = ("topic", "load", "direct", "gateway", "ratio", "CPU µs/request", "CPU s/GB")
    table = FigureTable(
        f"Throughput at 1 KiB records, acks=all, idempotent: medians of {rounds} rounds", header, tuple(rows)
    )
    return BenchOutcome(figures, (table,), (f"The gateway without clients uses {idle * 100:.1f} % of a core.",))


def _idle(stack: Stack) -> float:
    meter = CostMeter(stack.gateways)
    meter.start()
    time.sleep(IDLE_S)
    return meter.stop().cpu_s / IDLE_S


def _state(stack: Stack, scale: Scale, say: Say, state: str, topic: str, cluster: str) -> dict[str, Any]:
    """Both paths to one topic of one cluster, in turns; the first rounds warm up the brokers and do not count."""
    bootstraps = {"direct": direct(stack, cluster), "gateway": stack.bootstrap}
    rates: dict[str, dict[str, list[float]]] = {shape: {path: [] for path in PATHS} for shape in SHAPES}
    costs: dict[str, list[Cost]] = {shape: [] for shape in SHAPES}
    meter = CostMeter(stack.gateways)
    for round_number, order in enumerate(turns(PATHS, WARM_ROUNDS + scale.pick(*ROUNDS))):
        for shape, (program, settings, sizes) in SHAPES.items():
            records = scale.pick(*sizes)
            for path in order:
                parameters: dict[str, Any] = {
                    "bootstrap": bootstraps[path],
                    "topic": topic,
                    "partitions": PARTITIONS,
                    "records": records,
                    "settings": settings,
                }
                if program == "produce":
                    parameters |= {"record_bytes": RECORD_BYTES, "seed": scale.seed}
                meter.start()
                seconds = load(program, 150.0, **parameters)["seconds"]
                if path == "gateway":
                    costs[shape].append(meter.stop())
                rates[shape][path].append(records / seconds)
        said = {shape: {path: round(found[-1]) for path, found in one.items()} for shape, one in rates.items()}
        say(f"{state}, round {round_number}, records/s: {said}")
    return {shape: _summary(rates[shape], costs[shape]) for shape in SHAPES}


def _summary(all_rates: dict[str, list[float]], all_costs: list[Cost]) -> dict[str, Any]:
    rates = {path: found[WARM_ROUNDS:] for path, found in all_rates.items()}
    costs = all_costs[WARM_ROUNDS:]
    return {
        "records_per_s": rates,
        "ratio": paired_ratio(rates["gateway"], rates["direct"]),
        "cpu_us_per_request": median(cost.us_per_request for cost in costs),
        "cpu_s_per_gb": median(cost.cpu_s_per_gb for cost in costs),
        "kb_per_request": median(cost.client_bytes / 1e3 / max(1.0, cost.requests) for cost in costs),
    }


def _row(state: str, shape: str, found: dict[str, Any]) -> tuple[str, ...]:
    cells = []
    for path in PATHS:
        rate = median(found["records_per_s"][path])
        if SHAPES[shape][1]:
            cells.append(f"{rate:,.0f}/s")
        else:
            cells.append(f"{rate * RECORD_BYTES / 1e6:,.0f} MB/s")
    request = f"{number(found['cpu_us_per_request'])} ({number(found['kb_per_request'], 2)} kB)"
    return (state, shape, *cells, f"{found['ratio']:.2f}", request, number(found["cpu_s_per_gb"], 2))
