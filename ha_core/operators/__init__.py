"""Airflow operators: each one is one call of the executor, and its words in the task's log."""

from ha_core.operators.approval import ApproveOperator
from ha_core.operators.bindings import CompareBindingsOperator, RefreshBindingsOperator
from ha_core.operators.clusters import (
    CountLossOperator,
    GiveUpOperator,
    LookAtClusterOperator,
    MaskClusterOperator,
    UnmaskClusterOperator,
)
from ha_core.operators.ending import OutcomeOperator, ReleaseOperator
from ha_core.operators.migration import (
    AwaitCutsSensor,
    ListBatchesOperator,
    MigrateBatchOperator,
    PlanMigrationOperator,
    ReleaseMigrationOperator,
    ReportMigrationOperator,
    RollbackMigrationOperator,
)
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
from ha_core.operators.upkeep import (
    AgeMigrationsOperator,
    CheckOriginsOperator,
    RecordKnownOperator,
    SettleMigrationsOperator,
)

__all__ = [
    "AcquireOperator",
    "AdoptGroupsOperator",
    "AgeMigrationsOperator",
    "ApproveOperator",
    "AwaitCutsSensor",
    "CheckOriginsOperator",
    "CompareBindingsOperator",
    "CountLossOperator",
    "CutOverOperator",
    "GiveUpOperator",
    "ListBatchesOperator",
    "LookAtClusterOperator",
    "MaskClusterOperator",
    "MigrateBatchOperator",
    "OutcomeOperator",
    "PlanFaultMigrationOperator",
    "PlanMigrationOperator",
    "PlanSwitchOperator",
    "PrepareTargetsOperator",
    "RecordKnownOperator",
    "RecordOperator",
    "RefreshBindingsOperator",
    "ReleaseMigrationOperator",
    "ReleaseOperator",
    "ReportMigrationOperator",
    "ReportOperator",
    "RollbackMigrationOperator",
    "SettleMigrationsOperator",
    "UnmaskClusterOperator",
    "VerifyOperator",
]
