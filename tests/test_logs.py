"""Log lines name users, groups and client ids, which are any text: one formatter makes each record one line."""

import ast
from pathlib import Path

import pytest

from tests.syntax import tree

ROOT = Path(__file__).parent.parent
PARTS = ("ha_core", "gateway", "spark_jobs")


def log_set_ups(path: Path) -> list[str]:
    """Calls that format log lines with another formatter than `ShownFormatter`."""
    found = []
    for node in ast.walk(tree(path.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called == "logging.Formatter" and ast.unparse(node.args[0]) != "'%(message)s'":
                found.append(ast.unparse(node))
            if called == "logging.basicConfig" and not any(word.arg == "handlers" for word in node.keywords):
                found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("part", PARTS)
def test_every_log_of_the_project_shows_text_of_clients_in_one_line(part: str) -> None:
    files = sorted((ROOT / part).rglob("*.py"))

    assert {str(path.relative_to(ROOT)): found for path in files if (found := log_set_ups(path))} == {}
