"""The table of handlers follows the policy, and the handlers are pure."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import gateway.composed
from gateway.composed import handler
from ha_core.wire import ApiKey
from ha_core.wire.policy import POLICIES, Policy, Route

FORBIDDEN = {"asyncio", "socket", "time", "random", "threading", "logging", "uvloop", "kazoo", "selectors", "datetime"}
FILES = sorted(Path(gateway.composed.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda p: p.key.name)
def test_every_composed_api_has_a_handler_and_no_other_has(policy: Policy) -> None:
    # A transaction that began in another cluster is ended there, the others by the coordinator that the client is at.
    key, composed = policy.key, policy.route is Route.COMPOSED or policy.key is ApiKey.END_TXN

    if composed:
        assert callable(handler(key))
    else:
        with pytest.raises(KeyError, match=f"API {int(key)} has no composed handler"):
            handler(key)


_READS = ("LIST_", "DESCRIBE_", "FIND_", "METADATA", "OFFSET_FOR_", "CONSUMER_GROUP_DESCRIBE")


@pytest.mark.parametrize("policy", POLICIES.values(), ids=lambda p: p.key.name)
def test_what_is_composed_and_does_more_than_read_is_carried_to_its_end(policy: Policy) -> None:
    composed = policy.route is Route.COMPOSED or policy.key is ApiKey.END_TXN
    assert policy.completes == (composed and not policy.key.name.startswith(_READS))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_handlers_know_no_clock_no_network_and_no_loop(file: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            imported.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")

    assert not {name for name in imported if name.split(".")[0] in FORBIDDEN}
    assert not {name for name in imported if name.startswith(("gateway.upstream", "gateway.driver", "ha_core.store"))}
