"""Time from a change on the platform until every gateway enforces it; and the size of many users and rules."""

import contextlib
import gc
import os
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx

from bench import probes
from bench.cost import private_bytes
from bench.figures import BenchOutcome, FigureTable, spread
from bench.ground import BenchError, Say, Scale
from gateway.follow.platform.accounts import PlatformAccounts
from gateway.follow.platform.rights import PlatformRights
from ha_core.datacache.cache_file import CacheFile
from ha_core.datacache.core.source import Changes, Row
from ha_core.datacache.core.uncommitted import Content, UncommittedChanges
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
PAGE_ROWS = 5000
OPERATIONS = ("read", "write", "describe")
NAMES = 50_000
"""Number of topics in the rules."""
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
        size = fresh.submit(measure_size, users, rules).result()
    figures: dict[str, Any] = {"changes_ms": {way: spread(found) for way, found in changes.items()}, "size": size}
    rows = tuple(
        (_WORDS[way], *(f"{found[key]:.0f}" for key in ("p50", "p99", "max")))
        for way, found in figures["changes_ms"].items()
    )
    header = ("a rule is made or deleted", "p50 ms", "p99 ms", "max ms")
    title = f"Change → enforced by all {GATEWAYS} gateways, from before the call"
    return BenchOutcome(figures, (FigureTable(title, header, rows), _size_table(size, users, rules)))


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


# Size


def measure_size(users: int, rules: int) -> dict[str, Any]:
    """Runs in a separate process."""
    folder = Path(tempfile.mkdtemp(prefix="switchyard-bench-"))
    found: dict[str, Any] = {}
    for kind, count, value in (("user", users, _user), ("rule", rules, _rule)):
        file = folder / kind
        _store(count, value, file)
        gc.collect()
        before = private_bytes(os.getpid())
        begun = time.process_time()
        kept = CacheFile(file, "bench").load()
        assert kept is not None
        loaded = time.process_time()
        rights, accounts = PlatformRights(), PlatformAccounts()
        if kind == "rule":
            rights.follow_rules(kept.content)
        else:
            accounts.follow(kept.content)
            rights.follow_users(kept.content)
        ready = time.process_time()
        gc.collect()
        found[kind] = {
            "bytes": (private_bytes(os.getpid()) - before) / count,
            "file_bytes": file.stat().st_size / count,
            "load_s": loaded - begun,
            "in_force_s": ready - loaded,
        }
        if kind == "rule":
            found["one_change_ms"] = _one_change(kept.content, rights)
        held.append((kept, rights, accounts))
    return found


held: list[object] = []
"""Keeps measured objects alive, so that the next ones are measured beside them."""


def _size_table(size: dict[str, Any], users: int, rules: int) -> FigureTable:
    rows = tuple(
        (
            f"{count:,} {kind}s",
            *(f"{size[kind][key]:,.0f}" for key in ("bytes", "file_bytes")),
            *(f"{size[kind][key]:.1f}" for key in ("load_s", "in_force_s")),
        )
        for kind, count in (("user", users), ("rule", rules))
    )
    header = ("of a gateway", "bytes each", "in the file", "read, CPU s", "in force, CPU s")
    title = f"Size and start with a kept state; one more rule is in force after {size['one_change_ms']:.0f} ms"
    return FigureTable(title, header, rows)


def _store(count: int, value: Callable[[int], dict[str, Any]], file: Path) -> None:
    """Read and store it like a cache."""
    reading = UncommittedChanges()
    numbers = iter(range(1, count + 1))
    while page := list(islice(numbers, PAGE_ROWS)):
        rows = tuple(Row(f"{number:032x}", number, value(number)) for number in page)
        reading.add(Changes(rows, page[-1], 0))
    CacheFile(file, "bench").keep(reading.at(count), time.time())


def _one_change(content: Content, rights: PlatformRights) -> float:
    """Milliseconds."""
    row = Row("one more", content.at_us + 1, _rule(content.at_us + 1))
    begun = time.process_time()
    rights.follow_rules(content.after([row], row.changed_us))
    return (time.process_time() - begun) * 1e3


def _user(number: int) -> dict[str, Any]:
    def text(size: int) -> str:
        return b64encode(os.urandom(size)).decode()

    def keys(size: int) -> dict[str, Any]:
        return {"iterations": 8192, "salt": text(26), "server_key": text(size), "stored_key": text(size)}

    scram = {"SCRAM-SHA-256": keys(32), "SCRAM-SHA-512": keys(64)}
    said = {"name": f"user-{number}", "owner": f"team-{number % 500}", "contact": "", "super_user": False}
    return {**said, "groups": [f"group-{number % 1000}"], "scram": scram}


def _rule(number: int) -> dict[str, Any]:
    return {
        "effect": "allow",
        "host": "*",
        "name": f"topic-{number * 7919 % NAMES}",
        "operation": OPERATIONS[number % len(OPERATIONS)],
        "pattern": "literal",
        "principal": f"User:user-{number // 10}",
        "resource_type": "topic",
    }
