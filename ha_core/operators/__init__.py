"""Airflow operators: each one is one call of the executor, and its words in the task's log."""

from ha_core.operators.approval import ApproveSwitchOperator
from ha_core.operators.bindings import RefreshBindingsOperator
from ha_core.operators.clusters import GiveUpOperator, LookAtClusterOperator, MaskClusterOperator, UnmaskClusterOperator
from ha_core.operators.ending import OutcomeOperator, ReleaseOperator
from ha_core.operators.switch import (
    AcquireOperator,
    AdoptGroupsOperator,
    CutOverOperator,
    PlanFaultMigrationOperator,
    PlanSwitchOperator,
    PrepareTargetsOperator,
    RecordOperator,
    ReportOperator,
    VerifyOperator,
)
from ha_core.operators.upkeep import AgeMigrationsOperator, CheckOriginsOperator

__all__ = [
    "AcquireOperator",
    "AdoptGroupsOperator",
    "AgeMigrationsOperator",
    "ApproveSwitchOperator",
    "CheckOriginsOperator",
    "CutOverOperator",
    "GiveUpOperator",
    "LookAtClusterOperator",
    "MaskClusterOperator",
    "OutcomeOperator",
    "PlanFaultMigrationOperator",
    "PlanSwitchOperator",
    "PrepareTargetsOperator",
    "RecordOperator",
    "RefreshBindingsOperator",
    "ReleaseOperator",
    "ReportOperator",
    "UnmaskClusterOperator",
    "VerifyOperator",
]
