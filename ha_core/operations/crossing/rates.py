"""How fast logs grow: from a summary of recorded history where there is one, else from two looks at the ends."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.operations.context import Environment
from ha_core.operations.errors import RefusedError
from ha_core.plan.cuts import Rates
from ha_core.plan.facts import Partition

LOOKS_APART_S = 3.0
SAFETY = 2.0
"""A look of some seconds says little about the next minutes: what it sees is doubled."""


def looked_at(environment: Environment, origin: Admin, partitions: Collection[Partition]) -> Rates:
    """Rates from two looks at the log ends, some seconds apart."""
    if not partitions:
        return Rates({}, "nothing is to be looked at")
    first = origin.ends(partitions)
    begun = environment.monotonic()
    environment.sleep(LOOKS_APART_S)
    second = origin.ends(partitions)
    elapsed_s = max(environment.monotonic() - begun, 0.001)
    seen = {key: max(0, second[key].log_end - first[key].log_end) / elapsed_s for key in partitions}
    return Rates(
        {key: rate * SAFETY for key, rate in seen.items()},
        f"twice what the logs grew between two looks {elapsed_s:.1f} s apart, for want of a history",
        expected_per_s=seen,
        sources=dict.fromkeys(seen, "two looks"),
    )


def from_summary(path: Path, cluster: str) -> Rates:
    """Rates from the summary of the `offsets` job: `{"partitions": [{"cluster", "topic", "partition", "rate",
    "upper_rate", "how"}, …]}`, records per second. The upper rate is taken where there is one. A row whose rate is a
    `default` was not measured, so it counts as missing. Further keys are ignored.

    :raises RefusedError: the file is not readable, or not of that form.
    """
    try:
        document = json.loads(path.read_text())
        rows: list[dict[str, Any]] = document["partitions"]
        measured = {
            (str(row["topic"]), int(row["partition"])): row
            for row in rows
            if row.get("cluster") == cluster and row.get("how") != "default"
        }
        rates = {key: float(row.get("upper_rate") or row.get("rate") or 0.0) for key, row in measured.items()}
        means = {key: float(row["rate"]) for key, row in measured.items() if row.get("rate") is not None}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(
            f"The rates in {path} cannot be used ({type(error).__name__}: {error}). Give the summary of the job "
            "`offsets`, or leave --rates out: then two looks at the log ends are taken."
        ) from error
    chance = document.get("chance")
    stated = f", passed too early with a chance of {chance:g}" if isinstance(chance, int | float) else ""
    sources = {key: f"history, {row['how']}" if row.get("how") else "history" for key, row in measured.items()}
    return Rates(rates, f"the recorded history in {path.name}{stated}", means, sources)
