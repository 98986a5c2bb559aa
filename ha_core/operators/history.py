"""Where the workers keep what is recorded of all clusters."""

from __future__ import annotations

import os
import time
from pathlib import Path

HISTORY_VARIABLE = "SWITCHYARD_HISTORY"
FRESH_S = 3600.0
"""Rates that are older say little about the next minutes; they are renewed every 15."""


def history_folder() -> str:
    """The history that Spark jobs write and read, as the environment of the workers says: a path or a URI."""
    return os.environ.get(HISTORY_VARIABLE) or str(Path(os.environ["AIRFLOW_HOME"]) / "history")


def rates_file() -> Path:
    """The newest rates of all partitions. Beside the history, where that is no store of objects."""
    history = history_folder()
    return Path(os.environ["AIRFLOW_HOME"] if "://" in history else history) / "rates.json"


def fresh_rates() -> Path | None:
    """`rates_file`, if it is less than an hour old."""
    file = rates_file()
    try:
        return file if time.time() - file.stat().st_mtime <= FRESH_S else None
    except FileNotFoundError:
        return None
