"""Airflow operators: each one is one call of the executor, and its words in the task's log."""

from ha_core.operators.bindings import RefreshBindingsOperator
from ha_core.operators.clusters import MaskClusterOperator, UnmaskClusterOperator
from ha_core.operators.ending import ReleaseOperator, ReportOperator
from ha_core.operators.planning import ApproveSwitchOperator, PlanSwitchOperator
from ha_core.operators.steps import (
    AcquireOperator,
    AdoptGroupsOperator,
    CutOverOperator,
    PrepareTargetsOperator,
    RecordOperator,
    VerifyOperator,
)

__all__ = [
    "AcquireOperator",
    "AdoptGroupsOperator",
    "ApproveSwitchOperator",
    "CutOverOperator",
    "MaskClusterOperator",
    "PlanSwitchOperator",
    "PrepareTargetsOperator",
    "RecordOperator",
    "RefreshBindingsOperator",
    "ReleaseOperator",
    "ReportOperator",
    "UnmaskClusterOperator",
    "VerifyOperator",
]
