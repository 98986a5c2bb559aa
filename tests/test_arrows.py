"""The design's arrows: allowed imports between parts, and parts without clock and network."""

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.syntax import tree

ROOT = Path(__file__).parent.parent
OURS = ("ha_core", "gateway", "stack", "bench", "spark_jobs", "dags", "plugins")
CODECS = ("google_crc32c", "kafka", "lz4", "snappy", "zstandard")
IMPURE = frozenset(
    {"asyncio", "socket", "selectors", "ssl", "time", "random", "secrets", "threading", "multiprocessing", "subprocess"}
    | {"concurrent", "kazoo", "confluent_kafka", "uvloop", "logging.handlers", "http", "urllib.request", "signal"}
)
SESSION_IMPURE = frozenset({"asyncio", "socket", "selectors", "ssl", "time", "uvloop", "kazoo", "threading", "random"})
COMPUTED = "(a computed name)"
CLOCK_CALLS = frozenset({"now", "utcnow", "today"})


@dataclass(frozen=True)
class Rule:
    folder: str
    """Folder relative to the project; the rule holds for every Python file below it."""
    ours: tuple[str, ...] | None
    """Parts of this project that it may import besides itself; None: unrestricted."""
    others: tuple[str, ...] | None
    """Packages besides the standard library that it may import; None: any."""
    forbidden: frozenset[str] = frozenset()
    clock: bool = True
    """Whether it may read the clock by datetime."""


_PURE = (
    *("ha_core.wire", "ha_core.model", "ha_core.plan"),
    *(
        "gateway.model.topology",
        "gateway.model.client_zones",
        "gateway.model.copies",
        "gateway.model.handler_registry",
        "gateway.model.local_names",
        "gateway.model.remote_topics",
        "gateway.model.rights",
        "gateway.quotas",
    ),
)
_STATE = ("ha_core.model", "ha_core.plan", "ha_core.store")
_BELOW = (*_STATE, "ha_core.wire", "ha_core.kafka", "ha_core.mirror", "ha_core.operations.access.bindings_file")
_BELOW_JOBS = (*_STATE, "ha_core.wire", "ha_core.kafka", "ha_core.mirror")
_SHOWN = ("ha_core.model", "ha_core.plan", "ha_core.operations", "ha_core.operations.access.bindings_file")
_ERRORS = ("ha_core.kafka.errors", "ha_core.store.errors")
_ACCOUNT = "ha_core.wire.sasl.SecurityProfile"
_PROFILES = (
    "ha_core.kafka.security.profiles",
    "ha_core.kafka.security.begin_login",
    "ha_core.kafka.security.fields_of",
    "ha_core.kafka.errors.SecurityProfileError",
)

RULES = (
    Rule("ha_core/model", (), ("pydantic", "re2"), IMPURE, clock=False),
    Rule("ha_core/plan", ("ha_core.model",), (), IMPURE, clock=False),
    Rule("ha_core/wire", (), ("google_crc32c",), IMPURE, clock=False),
    Rule("ha_core/flows", ("ha_core.model", "ha_core.plan.facts"), ("javaproperties",), IMPURE, clock=False),
    Rule(
        "ha_core/client_properties",
        (
            *("ha_core.flows", "ha_core.kafka.errors", "ha_core.kafka.security", "ha_core.model.cluster"),
            *("ha_core.model.numeral", "ha_core.wire"),
        ),
        ("cryptography",),
    ),
    Rule(
        "ha_core/mirror_client",
        (
            "ha_core.flows",
            "ha_core.client_properties",
            "ha_core.mirror",
            "ha_core.model.Run",
            "ha_core.model.linear_pattern",
        ),
        ("confluent_kafka",),
    ),
    Rule(
        "ha_core/mirror_maker",
        (
            *("ha_core.client_properties", "ha_core.flows", "ha_core.kafka", "ha_core.metrics", "ha_core.mirror"),
            *("ha_core.mirror_client", "ha_core.model", "ha_core.plan.facts.clusters", "ha_core.store", "ha_core.wire"),
        ),
        ("confluent_kafka", "cryptography", "prometheus_client"),
    ),
    Rule("ha_core/tls", ("ha_core.wire.tls_files",), ()),
    Rule("ha_core/store", ("ha_core.model", "ha_core.tls", "ha_core.wire.tls_files"), ("kazoo", "yaml")),
    Rule("ha_core/datacache", ("ha_core.store", "ha_core.model.layered"), ()),
    Rule("ha_core/datacache/core", ("ha_core.model.layered",), (), IMPURE, clock=False),
    Rule("ha_core/mirror", ("ha_core.model", "ha_core.wire"), CODECS, IMPURE, clock=False),
    Rule(
        "ha_core/kafka",
        ("ha_core.model", "ha_core.plan.facts.clusters", "ha_core.wire", "ha_core.mirror", "ha_core.tls"),
        None,
    ),
    # The job and the operators' commands both keep a mirror's settings, partitions, ACLs and commits equal. The job
    # links topics of patterns by the operation of the operators' command: two ways to link would be two sets of checks.
    Rule(
        "spark_jobs",
        (
            *(*_BELOW_JOBS, "ha_core.flows", "ha_core.mirror_maker", "ha_core.metrics"),
            *("ha_core.operations.copies.syncing", "ha_core.operations.running.pattern_linking"),
        ),
        None,
    ),
    Rule(
        "gateway",
        (
            "ha_core.wire",
            "ha_core.model",
            "ha_core.plan",
            "ha_core.store",
            "ha_core.metrics",
            "ha_core.tls",
            "ha_core.datacache",
            "ha_core.platform.remote",
            "ha_core.platform.remote_changes",
            "ha_core.platform.errors.PlatformAwayError",
            "ha_core.platform.errors.PlatformRefusedError",
            "ha_core.platform.scram.ITERATIONS",
            *_PROFILES,
        ),
        None,
    ),
    Rule("ha_core/metrics", (), ("prometheus_client",)),
    Rule("gateway/quotas", ("ha_core.model", "ha_core.plan"), (), IMPURE, clock=False),
    Rule("gateway/authentication", ("ha_core.wire",), None),
    Rule(
        "gateway/config",
        (
            *("gateway.authentication", "gateway.model", "gateway.runtime", "gateway.session"),
            *("ha_core.model.access", "ha_core.plan.access.rights", "ha_core.wire", "ha_core.tls"),
            *("ha_core.store.security", "ha_core.store.errors", "ha_core.kafka.security", "ha_core.kafka.errors"),
            *("ha_core.datacache.state", "ha_core.platform.scram.ITERATIONS"),
        ),
        ("pydantic", "yaml"),
    ),
    Rule(
        "gateway/session",
        (
            *_PURE,
            *("gateway.model.counts", "gateway.model.latencies.LAST_TIMED"),
            *("gateway.runtime.offload.DeferredFreeList", "gateway.runtime.offload.free"),
        ),
        None,
        SESSION_IMPURE,
        clock=False,
    ),
    # Names shared with a session: the duplicate lookup's batch, the transaction writes, the refusal.
    Rule(
        "gateway/composed",
        (
            *_PURE,
            "gateway.session.produce.duplicate_offsets.EarlierBatch",
            "gateway.session.refusal.Refusal",
            "gateway.session.transaction_writes.TransactionEvidence",
        ),
        None,
        SESSION_IMPURE,
        clock=False,
    ),
    Rule(
        "ha_core/operations",
        (
            *(*_BELOW, "ha_core.datacache", "ha_core.flows", "ha_core.mirror_client", "ha_core.mirror_maker"),
            *("ha_core.platform.documents.parsed", "ha_core.platform.errors.PlatformError"),
        ),
        None,
    ),
    Rule(
        "ha_core/platform",
        (
            *("ha_core.model", "ha_core.datacache.core", "ha_core.metrics"),
            *("ha_core.wire.errors", "ha_core.wire.sasl_scram", "ha_core.wire.sasl_steps.ScramKey"),
        ),
        ("alembic", "fastapi", "httpx", "pydantic", "sqlalchemy", "starlette", "uvicorn", "yaml", COMPUTED),
    ),
    Rule("ha_core/present", (*_SHOWN, "ha_core.flows.remarks"), ("markupsafe",), IMPURE, clock=False),
    Rule(
        "ha_core/cli",
        (
            *_SHOWN,
            *_ERRORS,
            "ha_core.flows",
            "ha_core.mirror_client",
            "ha_core.mirror_maker",
            "ha_core.metrics.http.HttpServer",
            "ha_core.present",
            "ha_core.platform",
            "ha_core.store.store.Store",
            "ha_core.datacache.poller.ChangeNotifier",
        ),
        ("typer", "rich", "matplotlib", COMPUTED),
    ),
    Rule(
        "ha_core/hooks",
        ("ha_core.model", "ha_core.operations", "ha_core.kafka", "ha_core.platform", *_ERRORS, _ACCOUNT),
        ("airflow", "sqlalchemy"),
    ),
    Rule(
        "ha_core/operators",
        (
            *(*_SHOWN, *_ERRORS, "ha_core.present", "ha_core.hooks", "ha_core.platform", "ha_core.kafka.security"),
            *(_ACCOUNT, "ha_core.flows.configuration.Configuration", "ha_core.metrics"),
        ),
        ("airflow", "fastapi", "markupsafe", "openlineage", "prometheus_client", "yaml"),
    ),
    Rule("dags", ("ha_core.operators",), ()),
    Rule("plugins", ("ha_core.operators.pages", "ha_core.operators.platform"), ("airflow", "fastapi")),
)


def violations(source: str, module: str, rule: Rule) -> list[str]:
    """Violations of `rule` in `source`, the text of `module`, with line numbers."""
    own = rule.folder.replace("/", ".")
    found: list[str] = []
    for node in ast.walk(tree(source)):
        for name in _imported(node, module):
            why = _why_not(name, own, rule)
            if why:
                found.append(f"{module}:{getattr(node, 'lineno', 0)}: imports {name}, {why}")
        if (
            not rule.clock
            and isinstance(node, ast.Attribute)
            and node.attr in CLOCK_CALLS
            and ast.unparse(node.value).split(".")[-1] in {"datetime", "date"}
        ):
            found.append(
                f"{module}:{node.lineno}: reads the clock by {ast.unparse(node)}; take the time as an argument"
            )
    return found


def _imported(node: ast.AST, module: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = module.split(".")[: -node.level]
            base = ".".join([*package, base] if base else package)
        return [f"{base}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in {
        "__import__",
        "import_module",
        "importlib.import_module",
    }:
        first = node.args[0] if node.args else None
        return [str(first.value)] if isinstance(first, ast.Constant) else [COMPUTED]
    return []


def _why_not(name: str, own: str, rule: Rule) -> str:
    if any(_within(name, part) for part in rule.forbidden):
        return "which this part must not know"
    if _within(name, own):
        return ""
    top = name.partition(".")[0]
    if top in OURS:
        if rule.ours is None or any(_within(name, part) for part in rule.ours):
            return ""
        return f"and {own} may import only {', '.join(rule.ours) or 'itself'}"
    if top in sys.stdlib_module_names or rule.others is None or top in rule.others:
        return ""
    return f"and {own} may import only the standard library{''.join(f' and {o}' for o in rule.others)}"


def _within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _files(rule: Rule) -> list[Path]:
    return sorted((ROOT / rule.folder).rglob("*.py"))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.folder)
def test_every_part_imports_only_what_the_design_lets_it(rule: Rule) -> None:
    found = []
    for path in _files(rule):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found += violations(path.read_text(), ".".join(parts), rule)

    assert found == []


def test_every_rule_finds_files() -> None:
    assert len(_files(RULES[0])) > 5
    assert len(_files(RULES[1])) > 5


OF = {rule.folder: rule for rule in RULES}
PLAN = OF["ha_core/plan"]
JOBS = OF["spark_jobs"]
GATEWAY = OF["gateway"]
SESSION = OF["gateway/session"]
COMPOSED = OF["gateway/composed"]
OPERATIONS = OF["ha_core/operations"]
PRESENT = OF["ha_core/present"]
CLI = OF["ha_core/cli"]
HOOKS = OF["ha_core/hooks"]
OPERATORS = OF["ha_core/operators"]
DAGS = OF["dags"]


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (PLAN, "import asyncio"),
        (PLAN, "import time as t"),
        (PLAN, "from concurrent.futures import Future"),
        (PLAN, "import logging.handlers"),
        (PLAN, "from logging import handlers"),
        (PLAN, "def later():\n    from kazoo.client import KazooClient"),
        (PLAN, "if True:\n    import random"),
        (PLAN, "import pydantic"),
        (PLAN, "from ha_core.store import Store"),
        (PLAN, "from ha_core import store"),
        (PLAN, "from ..store import Store"),
        (PLAN, "from .. import store"),
        (PLAN, "import gateway.session"),
        (PLAN, "import importlib\nimportlib.import_module('socket')"),
        (PLAN, "from datetime import datetime\nat = datetime.now()"),
        (PLAN, "import datetime\nat = datetime.datetime.utcnow()"),
        (OF["ha_core/model"], "from ha_core.plan import facts"),
        (OF["ha_core/wire"], "import kio"),
        (OF["ha_core/store"], "from ha_core.plan.move.planner import steps"),
        (OF["ha_core/kafka"], "from ha_core.plan.move.planner import steps"),
        (OF["ha_core/datacache"], "from ha_core.model import User"),
        (OF["ha_core/datacache"], "import sqlalchemy"),
        (OF["ha_core/datacache/core"], "import threading"),
        (OF["ha_core/datacache/core"], "from ha_core.store.tree import Tree"),
        (OF["ha_core/mirror"], "import socket"),
        (OF["ha_core/client_properties"], "import confluent_kafka"),
        (OF["ha_core/client_properties"], "from ha_core.kafka.admin import Admin"),
        (OF["ha_core/mirror_maker"], "from ha_core.operations.running import engine"),
        (OF["ha_core/mirror"], "from ha_core.kafka.admin import Admin"),
        (JOBS, "from ha_core.operations.running.engine import run"),
        (JOBS, "from ha_core.operations.mirror.linking import plan_link"),
        (JOBS, "import stack"),
        (GATEWAY, "from ha_core.kafka import Admin"),
        (GATEWAY, "import stack"),
        (OF["gateway/authentication"], "from gateway.config import Config"),
        (OF["gateway/config"], "from gateway.follow.followed_file import FollowedFile"),
        (OF["gateway/config"], "from gateway.process.gateway import Gateway"),
        (SESSION, "import asyncio"),
        (SESSION, "from time import monotonic"),
        (SESSION, "from gateway.composed.ask import Ask"),
        (SESSION, "from gateway.process.gateway import Gateway"),
        (COMPOSED, "from gateway.session.produce.duplicate_offsets import DuplicateOffsets"),
        (COMPOSED, "from gateway.session import commands"),
        (COMPOSED, "from ha_core.store import connect"),
        (PRESENT, "import rich"),
        (PRESENT, "from ha_core.cli import output"),
        (OPERATIONS, "from ha_core.present.page import Table"),
        (CLI, "from ha_core.operators.forms import Flag"),
        (CLI, "from ha_core.hooks.zookeeper import hosts"),
        (CLI, "def late():\n    from ha_core.kafka.admin import Admin"),
        (CLI, "from ha_core.store import connect"),
        (CLI, "import airflow"),
        (HOOKS, "from ha_core.operators.base import Context"),
        (HOOKS, "from ha_core.store.zookeeper import Store"),
        (HOOKS, "from ha_core.plan.facts.verdict import listed"),
        (OPERATORS, "from ha_core.cli.exits import SUCCESS"),
        (OPERATORS, "def late():\n    from ha_core.kafka.admin import Admin"),
        (OPERATORS, "from ha_core.store import connect"),
        (OPERATORS, "import dags.switch"),
        (OPERATORS, "import pyspark"),
        (DAGS, "from ha_core.operations import engine"),
        (DAGS, "from ha_core.model import Operation"),
        (DAGS, "from airflow.sdk import DAG"),
    ],
)
def test_a_planted_violation_is_found(rule: Rule, source: str) -> None:
    assert violations(source, f"{rule.folder.replace('/', '.')}.planted", rule)


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (PLAN, "from __future__ import annotations\nimport ast, logging\nfrom ha_core.model import View"),
        (PLAN, "from ha_core.plan.facts.clusters import Facts\nfrom .facts import Facts\nfrom . import facts"),
        (PLAN, "from datetime import datetime\nat = datetime.fromisoformat('2026-01-01')"),
        (OF["ha_core/model"], "import pydantic"),
        (OF["ha_core/kafka"], "from ha_core.plan.facts.clusters import TopicFacts\nimport confluent_kafka"),
        (JOBS, "from ha_core.plan.migration.aging import blocks\nfrom ha_core.kafka import Admin\nimport pyspark"),
        (GATEWAY, "import uvloop\nimport socket\nfrom ha_core.store import connect"),
        (SESSION, "from gateway.model.topology import Topology\nfrom ha_core.wire import ErrorCode"),
        (
            COMPOSED,
            "from gateway.session.produce.duplicate_offsets import EarlierBatch\nfrom ha_core.model import Extent",
        ),
        (CLI, "from ha_core.store.errors import LockedError\nfrom ha_core.present.page import Page\nimport typer"),
        (HOOKS, "from ha_core.kafka.admin import Admin\nfrom airflow.sdk import BaseHook"),
        (OPERATORS, "from ha_core.hooks.zookeeper import SwitchyardHook\nfrom ha_core.operations import engine"),
        (DAGS, "from datetime import timedelta\nfrom ha_core.operators import forms"),
    ],
)
def test_imports_that_the_design_allows_are_not_found(rule: Rule, source: str) -> None:
    assert violations(source, f"{rule.folder.replace('/', '.')}.planted", rule) == []


OFFSETS = ("ha_core", "gateway", "spark_jobs", "dags")
"""Modules that must leave the arithmetic of client and physical offsets to `ha_core.model.extent`."""


def offset_arithmetic(source: str) -> list[str]:
    """Sums and differences in `source` with an extent's `base`, or with a hand-made `shift`."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree(source))
        if isinstance(node, (ast.BinOp, ast.AugAssign))
        and isinstance(node.op, (ast.Add, ast.Sub))
        and any(_base(operand) for operand in ast.iter_child_nodes(node))
    ]


def _base(node: ast.AST) -> bool:
    """Whether the operand is a `base`, or a maximum or minimum with one."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in {"max", "min"}:
        return any(_base(argument) for argument in node.args)
    return isinstance(node, ast.Attribute) and node.attr == "base"


def test_offsets_are_translated_by_extents_and_nowhere_else() -> None:
    found = {
        str(path.relative_to(ROOT)): said
        for part in OFFSETS
        for path in sorted((ROOT / part).rglob("*.py"))
        if path != ROOT / "ha_core/model/extent.py" and (said := offset_arithmetic(path.read_text()))
    }

    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "extent.start + (offset - extent.base)",
        "shift = read.extent.start - read.extent.base",
        "end - origin.base + origin.start",
        "extent.base + 1",
        "start + max(0, held - extent.base)",
        "max(offset, extent.base) - extent.base",
        "at -= max(low, extent.base)",
    ],
)
def test_planted_arithmetic_of_offsets_is_found(source: str) -> None:
    assert offset_arithmetic(source)


@pytest.mark.parametrize(
    "source", ["ends.target > target.base", "max(at, extent.base)", "append(before, 'west', at + 1, last.base)"]
)
def test_comparing_physical_offsets_is_no_arithmetic(source: str) -> None:
    assert offset_arithmetic(source) == []


def borrowed(source: str, module: str) -> list[str]:
    """Imports of `source`, the text of a test, from other test modules: shared code belongs into its own module."""
    return [
        f"{module}:{getattr(node, 'lineno', 0)}: imports {name}"
        for node in ast.walk(tree(source))
        for name in _imported(node, module)
        if name.startswith("tests.") and any(part.startswith("test_") for part in name.split(".")[1:])
    ]


def test_no_test_module_imports_from_another_one() -> None:
    paths = {str(path.relative_to(ROOT)): path for path in sorted((ROOT / "tests").rglob("*.py"))}

    found = {
        name: said
        for name, path in paths.items()
        if (said := borrowed(path.read_text(), name.removesuffix(".py").replace("/", ".")))
    }

    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "from tests.plan.test_crossing import opened",
        "from tests.plan import test_crossing",
        "import tests.plan.test_crossing",
        "from . import test_crossing",
        "from .test_crossing import opened",
        "from ..store.test_commit import put",
    ],
)
def test_a_planted_import_from_another_test_module_is_found(source: str) -> None:
    assert borrowed(source, "tests.plan.planted")


@pytest.mark.parametrize(
    "source", ["from tests.plan.revisions import written", "from .maps import cut", "import pytest"]
)
def test_shared_builders_are_no_imports_from_another_test_module(source: str) -> None:
    assert borrowed(source, "tests.plan.planted") == []
