"""Clusters that exist only in this file, for executors to query: their bootstrap contains their topics and groups."""

import json
from collections.abc import Collection, Mapping
from typing import Any

from ha_core.kafka.errors import ClusterUnreachableError, NotAuthorisedError, UnsupportedByClusterError
from ha_core.kafka.facts import GroupDescription, LogEnds, RecordTimes
from ha_core.kafka.groups import Committed
from ha_core.kafka.probe import Probe
from ha_core.kafka.topics import TopicDescription
from ha_core.model import Cluster
from ha_core.plan.facts.clusters import Partition, ProducerFacts
from ha_core.wire.sasl import SecurityProfile
from spark_jobs.broker_queries import Reach

TIMEOUT_S = 1.0


class FakeAdmin:
    """Answers from `topics`: name → [[start, end, first and newest timestamp if known] or null …], `configs`, and
    `groups`: name → {state, commits, the described state if it differs}. It answers at once.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.name = cluster, cluster.name
        self.held: dict[str, Any] = json.loads(cluster.bootstrap)
        if self.held.get("down"):
            self.held = {"down": True}

    def _reached(self) -> dict[str, Any]:
        if self.held.get("down"):
            raise ClusterUnreachableError(self.name, "nowhere:1", "cannot be reached")
        return self.held

    def probe(self, timeout_s: float | None = None) -> Probe:
        down = bool(self.held.get("down"))
        return Probe(not down, "cannot be reached" if down else "", answers=not down)

    def topics(
        self, names: Collection[str] | None = None, offsets: bool = True, timeout_s: float | None = None
    ) -> dict[str, TopicDescription]:
        found = self._reached().get("topics", {})
        forbidden = set(names or ()) & set(self.held.get("forbidden", ()))
        if forbidden:
            raise NotAuthorisedError(self.name, f"may not read {sorted(forbidden)[0]}")
        return {
            name: TopicDescription(
                name=name,
                partitions=len(parts),
                replication=1,
                config=self.held.get("configs", {}).get(name, {}),
                ends={
                    index: LogEnds(one[0], one[1], one[1], one[1], 1, 0)
                    for index, one in enumerate(parts)
                    if one is not None and offsets
                },
                internal=name.startswith("__"),
            )
            for name, parts in found.items()
            if names is None or name in names
        }

    def record_times(
        self, ends: Mapping[Partition, LogEnds], timeout_s: float | None = None
    ) -> dict[Partition, RecordTimes]:
        held = {key: self._reached()["topics"][key[0]][key[1]][2:] for key in ends}
        return {key: RecordTimes(*times) for key, times in held.items() if times}

    def list_groups(self, timeout_s: float | None = None) -> dict[str, str]:
        return {name: one["state"] for name, one in self._reached().get("groups", {}).items()}

    def describe_groups(self, names: Collection[str], timeout_s: float | None = None) -> dict[str, GroupDescription]:
        groups = self._reached().get("groups", {})
        states = {name: groups[name].get("described", groups[name]["state"]) or "Empty" for name in names}
        return {name: GroupDescription(name, state, "consumer", "", (), 1) for name, state in states.items()}

    def group_offsets(
        self, names: Collection[str], stable: bool, timeout_s: float | None = None
    ) -> dict[str, dict[Partition, Committed]]:
        groups = self._reached()["groups"]
        return {
            name: {(topic, partition): (offset, "") for topic, partition, offset in groups[name]["commits"]}
            for name in names
        }

    def producers(
        self, partitions: Collection[Partition], timeout_s: float | None = None
    ) -> dict[Partition, tuple[ProducerFacts, ...]]:
        if self._reached().get("secret_producers"):
            raise NotAuthorisedError(self.name, "may not ask who writes")
        told = self._reached().get("producers")
        if told is None:
            raise UnsupportedByClusterError(self.name, "is too old")
        return {
            (topic, index): tuple(ProducerFacts(1, 0, 0, at_ms, 0, -1) for at_ms in told.get(f"{topic}-{index}", ()))
            for topic, index in partitions
        }

    def close(self) -> None:
        self.held = {"down": True}


def connect(cluster: Cluster, _profile: SecurityProfile, _timeout_s: float) -> FakeAdmin:
    return FakeAdmin(cluster)


def fleet(clusters: Mapping[str, Mapping[str, Any]], parallel: int = 2) -> Reach:
    """A fleet of clusters with the given contents."""
    made = {name: Cluster(name=name, bootstrap=json.dumps(held).ljust(3)) for name, held in clusters.items()}
    return Reach(made, {"none": SecurityProfile()}, TIMEOUT_S, parallel, connect)
