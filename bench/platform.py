"""Time from a change on the platform until every gateway enforces it; and the size of many users and rules."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import httpx

from bench import platform_size, probes
from bench.figures import BenchOutcome, FigureTable, spread
from bench.ground import BenchError, Say, Scale
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.platform.kinds.rules import RuleEntry
from ha_core.platform.platform import Platform
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack

GATEWAYS = 3
TIMEOUT_S = 30.0
QUIET_S = 0.3
USER, TOPIC = "orders-app", "granted"
RULE = {"principal": f"User:{USER}", "resource_type": "topic", "name": TOPIC, "operation": "describe"}
Ways = dict[str, Callable[[bool], None]]


def run(scale: Scale, say: Say) -> BenchOutcome:
    say(f"starting east 4.3.1, {GATEWAYS} gateways and a platform")
    up = Stack.up({"east": "4.3.1"}, gateways=GATEWAYS, security="sasl", platform=True, full_speed=True)
    with up as stack, _watching(stack) as watchers, _ways(stack) as ways:
        changes: dict[str, Any] = {}
        for way, change in ways.items():
            rounds = scale.pick(200 if way == "rest" else 60, 6)
            say(f"{rounds} rules made and deleted: {way}")
            changes[way] = [_measure(change, number % 2 == 0, watchers) for number in range(rounds)]
    users, rules = scale.pick(100_000, 2_000), scale.pick(1_000_000, 20_000)
    say(f"{users} users and {rules} rules in one process")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        size = fresh.submit(platform_size.measure, users, rules).result()
    figures: dict[str, Any] = {"changes_ms": {way: spread(found) for way, found in changes.items()}, "size": size}
    rows = tuple(
        (_WORDS[way], *(f"{found[key]:.0f}" for key in ("p50", "p99", "max")))
        for way, found in figures["changes_ms"].items()
    )
    header = ("a rule is made or deleted", "p50 ms", "p99 ms", "max ms")
    title = f"Change → enforced by all {GATEWAYS} gateways, from before the call"
    return BenchOutcome(figures, (FigureTable(title, header, rows), platform_size.table(size, users, rules)))


_WORDS = {"rest": "by REST", "database": "in the database, past the service"}


@contextlib.contextmanager
def _watching(stack: Stack) -> Iterator[list[probes.AnswerWatcher]]:
    """One client at each gateway, which asks whether it may see the topic."""
    account = SecurityProfile("PLAIN", USER, stack.users[USER])
    with contextlib.ExitStack() as exits:
        watchers = []
        for gateway in stack.gateways:
            host, port = gateway["bootstrap"].rsplit(":", 1)
            connection = BlockingConnection("gateway", host, int(port), account, Deadline.after(TIMEOUT_S))
            exits.enter_context(contextlib.closing(connection))
            watchers.append(exits.enter_context(probes.AnswerWatcher(partial(_allowed, connection))))
        for watcher in watchers:
            watcher.wait_for(False, TIMEOUT_S)
        yield watchers


def _allowed(connection: BlockingConnection) -> bool:
    connection.until = Deadline.after(TIMEOUT_S)
    message = {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}
    (topic,) = connection.call(ApiKey.METADATA, message, 8)["topics"]
    return int(topic["error_code"]) != ErrorCode.TOPIC_AUTHORIZATION_FAILED


@contextlib.contextmanager
def _ways(stack: Stack) -> Iterator[Ways]:
    """Ways to make (True) or delete the rule."""
    assert stack.platform is not None
    key = RuleEntry.read(RULE).key
    headers = {"Authorization": f"Bearer {stack.platform['operator_token']}"}
    with (
        httpx.Client(base_url=stack.platform["url"], headers=headers, trust_env=False, timeout=TIMEOUT_S) as client,
        Platform.open(stack.platform["database"]) as registry,
    ):
        at = [0]

        def rest(make: bool) -> None:
            if make:
                answer = client.post("/v1/rules", json={"value": RULE, "reason": "bench"})
            else:
                answer = client.delete(f"/v1/rules/{key}", params={"version": at[0], "reason": "bench"})
            if answer.is_error:
                raise BenchError(f"the platform answered {answer.status_code}: {answer.text}")
            at[0] = answer.json()["version"]

        def database(make: bool) -> None:
            if make:
                at[0] = registry.create(RuleEntry.read(RULE), "bench", "bench").version
            else:
                at[0] = registry.delete("rules", key, at[0], "bench", "bench").version

        yield {"rest": rest, "database": database}


def _measure(change: Callable[[bool], None], make: bool, watchers: list[probes.AnswerWatcher]) -> float:
    """Milliseconds from before the change until the last gateway answers accordingly."""
    time.sleep(QUIET_S)
    begun = time.monotonic()
    change(make)
    return (max(watcher.wait_for(make, TIMEOUT_S) for watcher in watchers) - begun) * 1e3
