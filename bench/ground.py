"""Shared by benchmarks: their size, a stack, topics, moves, and load in a separate process."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from ha_core.model import Document
from ha_core.store.commits import Key, StateChange, key_of
from ha_core.store.store import Store
from stack.harness import Stack
from stack.processes import run

CLUSTERS = {"east": "3.9.2", "west": "4.3.1"}
ROOT = "/switchyard"
KIB = 1024
SWITCH_TIMEOUT_S = 120.0
SERVED_S = 60.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scale:
    """Amount of work. `quick` only checks that everything works; its figures mean nothing."""

    quick: bool
    seed: int
    paths: tuple[str, ...] = ()
    """Paths for `gateway` to compare; empty: it starts its own."""

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full


class BenchError(Exception):
    """A benchmark could not take its measurements."""


def up(gateways: int, say: Say) -> Stack:
    """A stack that ends with this process at the latest."""
    say(f"starting {', '.join(f'{name} {version}' for name, version in CLUSTERS.items())}, {gateways} gateway(s)")
    return Stack.up(CLUSTERS, gateways=gateways, full_speed=True)


def direct(stack: Stack, cluster: str) -> str:
    """Bootstrap address of a cluster, without a gateway."""
    return str(stack.clusters[cluster]["bootstrap"])


def create_topic(bootstrap: str, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
    """Create it with these settings; returns when every partition has a leader. Raises BenchError after 30 s."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    admin.create_topics([NewTopic(topic, partitions, config=dict(config or {}))])[topic].result(30)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = admin.list_topics(topic, timeout=10).topics[topic].partitions
        if len(found) == partitions and all(one.leader >= 0 for one in found.values()):
            return
        time.sleep(0.05)
    raise BenchError(f"{topic} at {bootstrap} has no leader for each of its {partitions} partitions after 30 s")


FORCED = ("--mode", "forced", "--unread", "wait")


def switch(stack: Stack, scope: str, origin: str, target: str, how: Sequence[str] = ()) -> dict[str, Any]:
    """Run a move with the `switchyard` command; returns its report. Raises BenchError if it did not succeed.

    :param how: further options, `FORCED` if the origin is dead; without any it is planned.
    """
    program = str(Path(sys.executable).with_name("switchyard"))
    route = ["--from", origin, "--to", target, "--reason", "benchmark", "--yes", "--include-other-users"]
    done = subprocess.run(
        [program, "switch", scope, *route, *how, "--json", "--zookeeper", stack.zookeeper],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SWITCH_TIMEOUT_S,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    report: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    if done.returncode != 0 or report.get("result") != "succeeded":
        raise BenchError(f"switch {scope} {origin} → {target} failed: {report}\n{done.stderr[-2000:]}")
    return report


def change_of(store: Store, *documents: Document) -> StateChange:
    """A change that puts the documents over their present versions."""
    expected: dict[Key, int | None] = {}
    for key in (key_of(document) for document in documents):
        held = store.read(*key)
        expected[key] = None if held is None else held[1]
    return StateChange(change_id=f"bench-{uuid4().hex}", puts=documents, expected=expected)


def until_served(store: Store, revision: int) -> None:
    """Wait until every gateway reports the revision. :raises BenchError: not within `SERVED_S`."""
    until = time.monotonic() + SERVED_S
    while any(gateway.revision < revision for gateway in store.gateways()):
        if time.monotonic() > until:
            raise BenchError(f"not every gateway serves revision {revision} after {SERVED_S:g} s")
        time.sleep(0.001)


def load(do: str, timeout_s: float, **parameters: Any) -> dict[str, Any]:
    """Run `bench.load` in a separate process and return its answer; raises BenchError."""
    try:
        words = [sys.executable, "-m", "bench.load", json.dumps({"do": do, **parameters})]
        done = run(words, timeout_s, cwd=Path(__file__).parent.parent)
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"{do} {parameters} did not end within {timeout_s:.0f} s") from error
    if done.returncode != 0:
        raise BenchError(f"{do} {parameters} failed:\n{done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer
