"""Cost of many users and rules of a platform: memory, and the start of a gateway with a stored state."""

from __future__ import annotations

import gc
import os
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from bench.figures import FigureTable
from bench.gateway_cost import private_bytes
from gateway.follow.platform.accounts import PlatformAccounts
from gateway.follow.platform.rights import PlatformRights
from ha_core.datacache.cache_file import CacheFile
from ha_core.datacache.core.source import Changes, Row
from ha_core.datacache.core.uncommitted import Content, UncommittedChanges

PAGE_ROWS = 5000
OPERATIONS = ("read", "write", "describe")
NAMES = 50_000
"""Number of topics in the rules."""


def measure(users: int, rules: int) -> dict[str, Any]:
    """Runs in a separate process."""
    folder = Path(tempfile.mkdtemp(prefix="switchyard-bench-"))
    found: dict[str, Any] = {}
    for kind, count, value in (("user", users, _user), ("rule", rules, _rule)):
        file = folder / kind
        _read(count, value, file)
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


def table(size: dict[str, Any], users: int, rules: int) -> FigureTable:
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


def _read(count: int, value: Callable[[int], dict[str, Any]], file: Path) -> None:
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
