"""Produce while a cut is ahead, compared with before and after: equal loads on four topics, in turns.

The states are written to the store as documents, and each topic stays in one of them: a real crossing passes through
the middle two in order, and stays in `above the cut` for about a second, until it is settled.
"""

from __future__ import annotations

import contextlib
from statistics import median
from typing import Any

from bench.figures import BenchOutcome, FigureTable, number, paired_ratio, spread, turns
from bench.gateway_cost import Cost, CostMeter
from bench.ground import ROOT, Say, Scale, create_topic, direct, load, up
from ha_core.model import Crossing, Extent, Topic
from ha_core.store.commits import Key, StateChange
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from stack.harness import Stack

RECORD_BYTES = 1024
PARTITIONS = 3
WARM_ROUNDS = 1
ROUNDS = (5, 1)
RECORDS = (90_000, 9_000)
SAMPLES = (1500, 100)
RATE = 50.0
FAR = 1 << 40


def _moved(name: str, cut: int, writer: str = "east") -> Topic:
    """A topic that moves from east to west at `cut`; `writer` is west: it has moved."""
    extents = (
        Extent(cluster="east", start=0, end=cut, base=0, term=0),
        Extent(cluster="west", start=cut, base=0, term=1),
    )
    crossing = Crossing(operation="bench", state="open") if writer == "east" else None
    return Topic(name=name, writer=writer, partitions=dict.fromkeys(range(PARTITIONS), extents), crossing=crossing)


STATES = {
    "before": None,
    "below the cut": _moved("below", FAR),
    "above the cut": _moved("above", 1),
    "after": _moved("after", 1, "west"),
}
"""State → the document of its topic; None: a topic without a map."""


def run(scale: Scale, say: Say) -> BenchOutcome:
    topics = {state: document.name if document else "before" for state, document in STATES.items()}
    with up(1, say) as stack, contextlib.closing(connect(stack.zookeeper, root=ROOT)) as store:
        for topic in topics.values():
            for cluster in stack.clusters:
                create_topic(direct(stack, cluster), topic, PARTITIONS)
        _publish(store)
        throughput = _throughput(stack, scale, say, topics)
        samples = scale.pick(*SAMPLES)
        say(f"{samples} records to each of {len(topics)} in turns, {RATE:g}/s each")
        taken = load(
            "latency",
            60 + 8 * samples / RATE,
            targets=[(state, stack.bootstrap, topic) for state, topic in topics.items()],
            samples=samples,
            rate=RATE,
            record_bytes=RECORD_BYTES,
            seed=scale.seed,
        )
    latency = {state: spread(found) for state, found in taken.items()}
    rows = []
    for state, found in throughput.items():
        rates, cost = found["records_per_s"], found["cpu_s_per_gb"]
        ratio = paired_ratio(rates, throughput["before"]["records_per_s"])
        found["ratio"] = ratio
        p50, p99 = (latency[state][key] * 1e3 for key in ("p50", "p99"))
        rows.append(
            (
                state,
                f"{median(rates) * RECORD_BYTES / 1e6:,.0f} MB/s",
                f"{ratio:.2f}",
                number(cost, 2),
                f"{p50:.2f}",
                f"{p99:.2f}",
            )
        )
    header = ("topic", "produce", "ratio to before", "CPU s/GB", "ack p50 ms", "ack p99 ms")
    title = f"Produce while a cut lies ahead: 1 KiB, acks=all, idempotent, medians of {scale.pick(*ROUNDS)} rounds"
    return BenchOutcome(
        {"throughput": throughput, "latency": {"unit": "s", **latency}}, (FigureTable(title, header, tuple(rows)),)
    )


def _publish(store: Store) -> None:
    documents = tuple(document for document in STATES.values() if document is not None)
    expected: dict[Key, int | None] = {(Topic, document.name): None for document in documents}
    store.commit(StateChange(change_id="bench-crossing", puts=documents, expected=expected))


def _throughput(stack: Stack, scale: Scale, say: Say, topics: dict[str, str]) -> dict[str, dict[str, Any]]:
    rates: dict[str, list[float]] = {state: [] for state in topics}
    costs: dict[str, list[Cost]] = {state: [] for state in topics}
    meter = CostMeter(stack.gateways)
    records = scale.pick(*RECORDS)
    for round_number, order in enumerate(turns(tuple(topics), WARM_ROUNDS + scale.pick(*ROUNDS))):
        for state in order:
            meter.start()
            seconds = load(
                "produce",
                150.0,
                bootstrap=stack.bootstrap,
                topic=topics[state],
                partitions=PARTITIONS,
                records=records,
                record_bytes=RECORD_BYTES,
                seed=scale.seed,
                settings={},
            )["seconds"]
            costs[state].append(meter.stop())
            rates[state].append(records / seconds)
        say(f"round {round_number}, records/s: { {state: round(found[-1]) for state, found in rates.items()} }")
    return {
        state: {
            "records_per_s": rates[state][WARM_ROUNDS:],
            "cpu_s_per_gb": median(cost.cpu_s_per_gb for cost in costs[state][WARM_ROUNDS:]),
        }
        for state in topics
    }
