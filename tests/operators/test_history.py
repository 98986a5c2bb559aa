"""Recorded rates that a migration uses."""

import os
import time
from pathlib import Path

import pytest

from ha_core.operators.spark import FRESH_S, fresh_rates, history_folder, rates_file


def test_rates_are_stored_beside_the_history_and_used_for_an_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHYARD_HISTORY", str(tmp_path))
    assert fresh_rates() is None, "none were ever recorded"
    rates_file().write_text("{}")
    assert fresh_rates() == tmp_path / "rates.json"
    then = time.time() - FRESH_S - 1
    os.utime(rates_file(), (then, then))
    assert fresh_rates() is None


def test_rates_of_a_history_in_an_object_store_are_stored_on_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("SWITCHYARD_HISTORY", "s3a://facts/history")
    assert (history_folder(), rates_file()) == ("s3a://facts/history", tmp_path / "rates.json")
    monkeypatch.delenv("SWITCHYARD_HISTORY")
    assert rates_file() == tmp_path / "history" / "rates.json"
