"""Modules that a command loads at its start, which delay a forced switch."""

import subprocess
import sys

import pytest

_LOAD = "import sys; from ha_core.cli import main; print(*sys.modules)"


@pytest.fixture(scope="module")
def loaded() -> frozenset[str]:
    done = subprocess.run([sys.executable, "-c", _LOAD], capture_output=True, text=True, check=True, timeout=60)
    return frozenset(done.stdout.split())


@pytest.mark.parametrize("library", ["kafka", "httpx", "sqlalchemy", "pyspark", "airflow", "matplotlib"])
def test_a_command_starts_without_libraries_of_other_commands(loaded: frozenset[str], library: str) -> None:
    assert "ha_core.operations.running.engine" in loaded
    assert library not in loaded
