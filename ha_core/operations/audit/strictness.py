"""The setting `strict`: no operation begins while its seal could not be written."""

from __future__ import annotations

from ha_core.model.strict_history import StrictHistory
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.report import Report
from ha_core.operations.engine.single import Expected, run_single


def be_strict(environment: Environment, strict: bool, reason: str) -> Report | None:
    """Change the setting, as an operation of the history; None: it is so already."""
    stored = environment.store.read(StrictHistory, StrictHistory.ONLY)
    if strict == (stored is not None):
        return None
    document = StrictHistory(since=environment.now(), by=environment.by, reason=reason)
    expected: Expected = {(StrictHistory, StrictHistory.ONLY): None if stored is None else stored[1]}
    puts = (document,) if strict else ()
    return run_single(environment, "strict-history", reason, puts, expected, {"strict": strict})
