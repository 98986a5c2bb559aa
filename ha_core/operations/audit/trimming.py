"""Removes the oldest operations once an export has them. That is an operation of the history, too."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ha_core.model.seal import SealFingerprint
from ha_core.operations.audit.checking import ExpectedSeals, check_file
from ha_core.operations.audit.exporting import within
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import unchanged
from ha_core.operations.engine.report import Report, report_of
from ha_core.operations.engine.single import await_served, beginning, commit_single
from ha_core.store.store import Store


@dataclass(frozen=True, slots=True)
class TrimmingPlan:
    through: SealFingerprint
    """The newest seal to remove."""
    count: int
    """Operations to remove."""


def plan_trimming(store: Store, until: datetime, export: Path) -> TrimmingPlan:
    """Everything that was sealed before `until`, if the export has it whole.

    :raises RefusedError: the export lacks some of it, or is damaged, or is of another history.
    """
    head = store.seal_head()
    old = [seal.fingerprint for seal in store.seals(head.trimmed) if within(seal.at, None, until)]
    if not old:
        return TrimmingPlan(head.anchor, 0)
    last = max(old)
    report = check_file(export, ExpectedSeals(last))
    # Operations without a seal stay.
    faults = [fault for fault in report.faults if fault.kind != "unsealed"]
    if faults or report.anchor.number > head.trimmed:
        why = faults[0].text if faults else f"it begins after seal {report.anchor.number}"
        raise unchanged(
            f"{export} does not hold seals {head.trimmed + 1} to {last.number} whole: {why}. `switchyard history "
            "export --ndjson` writes what it needs."
        )
    return TrimmingPlan(last, last.number - head.trimmed)


def trim_history(environment: Environment, plan: TrimmingPlan, reason: str) -> Report | None:
    """Remove them; None: there is nothing to remove. The removal is in the history before anything is gone.

    :raises LockedError: another process trims it.
    """
    if not plan.count:
        return None
    with beginning(environment, "trim-history", reason, ["history:trim"]) as journal:
        with journal.step("trim-history") as seen:
            seen.update(through=str(plan.through), operations=plan.count)
            commit_single(journal, (), {}, seen)
            seen["removed"] = len(environment.store.trim_history(plan.through.number))
        await_served(journal)
        return report_of(environment, journal.operation)
