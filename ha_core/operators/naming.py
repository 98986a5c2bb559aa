"""Ids of operations that a DAG run starts: derived from the run, so that retries and cleared tasks find them again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ha_core.model import Operation

MAX_ATTEMPTS = 99


def base_id(dag_id: str, run_id: str, run_after: datetime) -> str:
    """`switch-YYYYMMDD-HHMMSS-XXXXXXXX`: sorts by time, and is the same whenever it is asked for this run."""
    digest = hashlib.sha256(f"{dag_id}/{run_id}".encode()).hexdigest()[:8]
    return f"switch-{run_after:%Y%m%d-%H%M%S}-{digest}"


def attempts(base: str) -> Iterator[str]:
    """`ID`, `ID.2`, `ID.3` …: an undone operation has ended for good, so the next attempt of a run has its own."""
    yield base
    yield from (f"{base}.{number}" for number in range(2, MAX_ATTEMPTS + 1))


def current_id(base: str, read: Callable[[str], Operation | None]) -> str:
    """The id under which the run works now: the newest attempt, or the one after it where that was undone.

    :raises ValueError: the run has used up its attempts.
    """
    for operation_id in attempts(base):
        found = read(operation_id)
        if found is None or found.state != "undone":
            return operation_id
    raise ValueError(f"{base} was undone {MAX_ATTEMPTS} times. Trigger a new run.")


def known_ids(base: str, read: Callable[[str], Operation | None]) -> list[str]:
    """Ids of the operations that the run has created."""
    return list(takewhile(lambda operation_id: read(operation_id) is not None, attempts(base)))
