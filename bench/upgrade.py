"""Cost of a rolling upgrade for clients: each gateway is stopped by SIGTERM and started again, one after the other.

Beside it the longest gap of the same clients in a window of the same length in which nothing happens.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figures import BenchOutcome, FigureTable, spread
from bench.gateway_death import CLIENTS_EACH, KINDS, PARTITIONS, RATE, TOPIC
from bench.ground import Say, Scale, create_topic, direct, up
from stack.clients.process import ClientProcess, history_of
from stack.harness import Stack
from stack.history.blackout import Move, blackouts

WINDOW_S = 12.0
CONSUMERS = {"confluent consumer": "confluent-consumer", "java consumer": "java-consumer"}


def run(scale: Scale, say: Say) -> BenchOutcome:
    rounds = scale.pick(5, 1)
    with up(2, say) as stack, tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder:
        create_topic(direct(stack, "east"), TOPIC, PARTITIONS)
        started, kinds = _clients(stack, Path(folder))
        try:
            for client in started:
                client.wait_for(50, "delivered" if "consumer" in client.name else "acknowledged", 90.0)
            quiet, upgraded = list[Move](), list[Move]()
            for number in range(rounds):
                quiet.append(_window())
                for part in ("gateway/1", "gateway/2"):
                    begun = time.time()
                    stack.restart(part)
                    say(f"round {number + 1}: {part} restarted in {time.time() - begun:.1f} s")
                    upgraded.append(_window(begun))
            for client in started:
                client.stop()
        finally:
            for client in started:
                client.kill()
        history = history_of(started)
    return _outcome(kinds, blackouts(history, quiet, 0.0), blackouts(history, upgraded, 0.0), rounds)


def _clients(stack: Stack, folder: Path) -> tuple[list[ClientProcess], dict[str, str]]:
    """The clients; and name → kind."""
    kinds: dict[str, str] = {}
    started = []
    programs: dict[str, tuple[str, dict[str, Any]]] = {
        **KINDS,
        **{name: (program, {"group": f"readers-{program}"}) for name, program in CONSUMERS.items()},
    }
    for kind, (program, options) in programs.items():
        for number in range(CLIENTS_EACH if kind in KINDS else 1):
            name = f"{kind}-{number}".replace(", ", "-").replace(" ", "-")
            kinds[name] = kind
            rate = {"rate": RATE} if kind in KINDS else {}
            started.append(
                ClientProcess.start(
                    program, directory=folder, client=name, bootstrap=stack.bootstrap, topic=TOPIC, **rate, **options
                )
            )
    return started, kinds


def _window(begun: float | None = None) -> Move:
    begun = time.time() if begun is None else begun
    time.sleep(max(0.0, begun + WINDOW_S - time.time()))
    return Move(begun, begun + WINDOW_S)


def _outcome(
    kinds: dict[str, str],
    quiet: dict[str, tuple[float | None, ...]],
    upgraded: dict[str, tuple[float | None, ...]],
    rounds: int,
) -> BenchOutcome:
    figures: dict[str, Any] = {"unit": "ms", "kinds": {}}
    rows, lost = [], 0
    for kind in dict.fromkeys(kinds.values()):
        both = list[dict[str, Any]]()
        for found in (quiet, upgraded):
            each = [value for name, values in found.items() if kinds[name] == kind for value in values]
            known = [value for value in each if value is not None]
            lost += len(each) - len(known)
            both.append({**spread(known), "each": known})
        figures["kinds"][kind] = {"quiet": both[0], "upgrade": both[1]}
        calm, hit = both
        rows.append(
            (kind, *(f"{one[key]:.0f}" for one in both for key in ("p50", "max")), f"{hit['p50'] / calm['p50']:.1f}")
        )
    title = f"Longest gap of a client while one of two gateways restarts, {2 * rounds} restarts"
    header = ("client", "nothing happens, p50 ms", "max ms", "restart, p50 ms", "max ms", "ratio of p50")
    return BenchOutcome(
        figures, (FigureTable(title, header, tuple(rows)),), (f"Clients that did not come back: {lost}.",)
    )
