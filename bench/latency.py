"""Added acknowledgement latency at a modest rate: direct and through the gateway in turns, record by record."""

from __future__ import annotations

from bench.figures import BenchOutcome, FigureTable, spread
from bench.ground import Say, Scale, create_topic, direct, load, switch, up

RATE = 50.0
RECORD_BYTES = 1024


def run(scale: Scale, say: Say) -> BenchOutcome:
    samples = scale.pick(3000, 200)
    with up(1, say) as stack:
        create_topic(direct(stack, "east"), "plain", 1)
        create_topic(direct(stack, "east"), "carried", 1)
        switch(stack, "topic:carried", "east", "west")
        targets = [
            ("without a map, direct", direct(stack, "east"), "plain"),
            ("without a map, gateway", stack.bootstrap, "plain"),
            ("mapped, direct", direct(stack, "west"), "carried"),
            ("mapped, gateway", stack.bootstrap, "carried"),
        ]
        say(f"{samples} records to each of {len(targets)} in turns, {RATE:g}/s each")
        taken = load(
            "latency",
            60 + 4 * samples / RATE,
            targets=targets,
            samples=samples,
            rate=RATE,
            record_bytes=RECORD_BYTES,
            seed=scale.seed,
        )
    figures = {name: spread(one) for name, one in taken.items()}
    rows = []
    for state in ("without a map", "mapped"):
        straight, through = figures[f"{state}, direct"], figures[f"{state}, gateway"]
        for key in ("p50", "p99"):
            added = through[key] - straight[key]
            figures.setdefault(f"{state}, added", {})[key] = added
            cells = (f"{straight[key] * 1e3:.2f}", f"{through[key] * 1e3:.2f}", f"{added * 1e3:+.2f}")
            rows.append((state, key, *cells, f"{through[key] / straight[key]:.2f}"))
    header = ("topic", "", "direct ms", "gateway ms", "added ms", "ratio")
    title = f"Acknowledgement latency: 1 KiB, acks=all, linger 0, one in flight, {samples} records each at {RATE:g}/s"
    return BenchOutcome({"unit": "s", **figures}, (FigureTable(title, header, tuple(rows)),))
