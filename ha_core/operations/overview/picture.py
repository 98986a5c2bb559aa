"""One look at the whole installation: the state in ZooKeeper, clusters, gateways, problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ha_core.model import (
    ExpectedGateway,
    ExpectedNumber,
    GatewayRecord,
    Lock,
    Mirror,
    Operation,
    WaitingApproval,
)
from ha_core.operations.access.caches import CacheStanding, caches
from ha_core.operations.clusters import registered
from ha_core.operations.clusters.mirrors import MirrorsNow, mirrors_now, synced
from ha_core.operations.clusters.registered import ClusterState
from ha_core.operations.engine.environment import Environment
from ha_core.operations.mirror.pattern_states import patterns_now
from ha_core.operations.overview.assessment import Assessment, assess


@dataclass(frozen=True, slots=True)
class Picture:
    at: str
    """UTC, ISO 8601."""
    revision: int
    clusters: tuple[ClusterState, ...]
    gateways: tuple[GatewayRecord, ...]
    expected: Mapping[str, ExpectedGateway]
    number: ExpectedNumber | None
    running: tuple[Operation, ...]
    locks: tuple[Lock, ...]
    approvals: tuple[WaitingApproval, ...]
    mirrors: MirrorsNow
    platform: tuple[CacheStanding, ...]
    assessment: Assessment
    warnings: tuple[str, ...]
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the document for machines."""

    def to_json(self) -> dict[str, Any]:
        return {
            "problems": self.assessment.problems,
            "notices": self.assessment.notices,
            "warnings": self.warnings,
            "revision": self.revision,
            "clusters": self.clusters,
            "gateways": self.gateways,
            "expected_gateways": [*self.expected.values()],
            "expected_number": None if self.number is None else self.number.number,
            "operations": [
                {
                    "operation": o.id,
                    "kind": o.kind,
                    "state": o.state,
                    "by": o.by,
                    "reason": o.reason,
                    "started": o.started,
                }
                for o in self.running
            ],
            "approvals": self.approvals,
            "locks": self.locks,
            "mirrors": self.mirrors.totals_json(),
            "platform": self.platform,
            **self.more,
        }


def take_picture(environment: Environment) -> Picture:
    store = environment.store
    view, states, gateways = store.load(left_out=(Mirror,)), registered.cluster_states(environment), store.gateways()
    running = registered.running_operations(environment)
    mirrors = mirrors_now(environment)
    assessment = assess(environment, view, states, gateways, running)
    now = environment.now()
    return Picture(
        at=now,
        revision=view.revision,
        clusters=states,
        gateways=tuple(gateways),
        expected=store.expected_gateways(),
        number=store.expected_number(),
        running=running,
        locks=tuple(store.locks()),
        approvals=tuple(one for one in store.waiting_approvals() if one.answer_by > now),
        mirrors=mirrors,
        platform=caches(environment),
        assessment=assessment,
        warnings=environment.warnings,
        more={
            "mirror_syncs": synced(environment, mirrors.mirrors),
            "mirror_patterns": patterns_now(environment),
        },
    )
