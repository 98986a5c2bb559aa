"""Airflow operators: each one is one call of the executor, and its words in the task's log."""

from ha_core.operators.bindings import RefreshBindingsOperator
from ha_core.operators.clusters import LookAtClusterOperator, MaskClusterOperator, UnmaskClusterOperator
from ha_core.operators.ending import OutcomeOperator, ReleaseOperator, ReportOperator
from ha_core.operators.giving_up import GiveUpOperator
from ha_core.operators.planning import ApproveSwitchOperator, PlanFaultMigrationOperator, PlanSwitchOperator
from ha_core.operators.steps import (
    AcquireOperator,
    AdoptGroupsOperator,
    CutOverOperator,
    PrepareTargetsOperator,
    RecordOperator,
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
