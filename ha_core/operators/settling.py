"""What a killed task of the same run has left behind."""

from __future__ import annotations

from ha_core.operations import run
from ha_core.operations.context import Environment
from ha_core.operations.registry import running_operations
from ha_core.operations.report import Report
from ha_core.operators.base import of_run


def settle_own(environment: Environment, owner: str) -> tuple[Report, ...]:
    """Bring the operations of one revision of the run `owner` to their end; reports of those that changed something."""
    left = [one for one in running_operations(environment) if of_run(one.by, owner) and one.kind != "switch"]
    reports = [run.resume(environment, one.id) for one in left]
    return tuple(report for report in reports if report.result != "undone")
