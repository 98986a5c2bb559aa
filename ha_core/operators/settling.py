"""What a killed task of the same run has left behind."""

from __future__ import annotations

from ha_core.moves import run
from ha_core.moves.context import Environment
from ha_core.moves.registry import running_operations
from ha_core.moves.report import Report


def settle_own(environment: Environment) -> tuple[Report, ...]:
    """Bring this run's operations of one revision to their end; reports of those that have changed something."""
    left = [one for one in running_operations(environment) if one.by == environment.by and one.kind != "switch"]
    reports = [run.resume(environment, one.id) for one in left]
    return tuple(report for report in reports if report.result != "undone")
