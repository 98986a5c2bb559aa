"""Looks at a cluster that was away: how it stands, and what its logs hold."""

from __future__ import annotations

from collections.abc import Collection

from ha_core.kafka.admin import Admin
from ha_core.kafka.topics import TopicDescription
from ha_core.model import View
from ha_core.operations.engine.cluster_admins import PROBE_S
from ha_core.operations.engine.environment import Environment
from ha_core.plan.absence.decision import Log, LogHeld, Presence, Unsettled, out_of_service
from ha_core.plan.facts.clusters import Partition

LOOK_S = 30.0


def presence(environment: Environment, view: View, name: str, *, behind_mask: bool = False) -> Presence:
    """:param behind_mask: ask the cluster even if it is masked.
    :raises RefusedError: the executor does not have its security profile.
    """
    if (out := out_of_service(view, name)) is not None and not (behind_mask and out.state == "masked"):
        return out
    found = environment.admin(view.clusters[name]).probe(timeout_s=PROBE_S)
    return Presence(name, "back" if found.reachable else "refuses" if found.answers else "away", found.error)


def logs_there(admin: Admin, partitions: Collection[Partition]) -> dict[Partition, Log]:
    """:raises KafkaAdminError: the cluster cannot be asked."""
    there = admin.topics({topic for topic, _ in partitions}, timeout_s=LOOK_S)
    return {key: _log(admin.cluster.name, there.get(key[0]), key[1]) for key in partitions}


def _log(cluster: str, described: TopicDescription | None, partition: int) -> Log:
    if described is None or partition >= described.partitions:
        return None
    ends = described.ends.get(partition)
    if ends is None:
        return Unsettled(f"no leader in {cluster} answers for it yet")
    if not ends.replicated:
        return Unsettled(f"its replicas in {cluster} have not caught up yet")
    return LogHeld(ends.start, ends.log_end, ends.last_stable)
