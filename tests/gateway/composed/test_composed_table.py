"""Composed handlers are pure; `tests/wire/test_apis.py` keeps them in step with the table."""

import ast
from pathlib import Path

import pytest

import gateway.composed

FORBIDDEN = {"asyncio", "socket", "time", "random", "threading", "logging", "uvloop", "kazoo", "selectors", "datetime"}
FILES = sorted(Path(gateway.composed.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.name)
def test_handlers_use_no_clock_no_network_and_no_loop(file: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            imported.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")

    assert not {name for name in imported if name.split(".")[0] in FORBIDDEN}
    assert not {name for name in imported if name.startswith(("gateway.upstream", "gateway.process", "ha_core.store"))}
