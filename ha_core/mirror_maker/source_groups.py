"""Finds the groups of a source that a flow follows, and reads their committed offsets."""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.groups import SkippedGroup, groups_to_follow
from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import NotReadyError
from ha_core.kafka.groups import Committed
from ha_core.plan.facts.clusters import Partition


@dataclass
class SourceGroups:
    """
    :ivar skipped: groups that the flow does not follow, with the reason, as of the last look for groups.
    """

    flow: FlowConfig
    source: Admin
    skipped: list[SkippedGroup] = field(default_factory=list)
    _groups: tuple[str, ...] = ()
    _judged: list[SkippedGroup] = field(default_factory=list)
    _looked_at: float = float("-inf")

    def committed(self) -> dict[str, dict[Partition, Committed]]:
        """Group → its committed offsets. Looks for new groups each `refresh.groups.interval.seconds`.

        :raises NotReadyError: no coordinator answers.
        """
        pause_s = self.flow.refresh_groups_s
        if time.monotonic() < self._looked_at + (pause_s or 0):
            found, unheard = self._read(self._groups)
            self.skipped = [*self._judged, *unheard]
            return found
        names: Iterable[str] = self._groups
        if pause_s is not None or not self._groups:
            names = [name for name in self.source.list_groups() if self.flow.groups.accepts(name)]
        committed, unheard = self._read(tuple(names))
        self._looked_at = time.monotonic()
        topics_of = {group: {topic for topic, _ in its} for group, its in committed.items()}
        judged = list(groups_to_follow(topics_of, self.flow.groups, self.flow.topics))
        self._judged = [found for found in judged if isinstance(found, SkippedGroup)]
        self.skipped = [*self._judged, *unheard]
        followed = [found for found in judged if not isinstance(found, SkippedGroup)]
        self._groups = (*followed, *(one.group for one in unheard))
        return {group: committed[group] for group in followed}

    def _read(self, groups: Collection[str]) -> tuple[dict[str, dict[Partition, Committed]], list[SkippedGroup]]:
        found = offsets_of(self.source, groups) if groups else {}
        return found, [unheard_group(group, self.flow.source) for group in groups if group not in found]


def offsets_of(admin: Admin, groups: Collection[str]) -> dict[str, dict[Partition, Committed]]:
    """Committed offsets of the groups whose coordinators answer: they do not wait for the others.

    :raises NotReadyError: none answers.
    """
    found = admin.group_offsets(groups, stable=False, partial=True)
    if not found:
        raise NotReadyError(admin.cluster.name, "no coordinator of a group answers.")
    return found


def unheard_group(group: str, cluster: str) -> SkippedGroup:
    return SkippedGroup(group, f"its coordinator in {cluster} does not answer")
