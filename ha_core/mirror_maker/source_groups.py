"""Finds the groups of a source that a flow follows, and reads their committed offsets."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from ha_core.flows.configuration import FlowConfig
from ha_core.flows.groups import SkippedGroup, groups_to_follow
from ha_core.kafka.admin import Admin
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
    _looked_at: float = float("-inf")

    def committed(self) -> dict[str, dict[Partition, Committed]]:
        """Group → its committed offsets. Looks for new groups every `refresh.groups.interval.seconds`."""
        pause_s = self.flow.refresh_groups_s
        if time.monotonic() < self._looked_at + (pause_s or 0):
            return self.source.group_offsets(list(self._groups), stable=False)
        names: Iterable[str] = self._groups
        if pause_s is not None or not self._groups:
            names = [name for name in self.source.list_groups() if self.flow.groups.accepts(name)]
        committed = self.source.group_offsets(list(names), stable=False)
        self._looked_at = time.monotonic()
        topics_of = {group: {topic for topic, _ in its} for group, its in committed.items()}
        judged = list(groups_to_follow(topics_of, self.flow.groups, self.flow.topics))
        self.skipped = [found for found in judged if isinstance(found, SkippedGroup)]
        self._groups = tuple(found for found in judged if not isinstance(found, SkippedGroup))
        return {group: committed[group] for group in self._groups}
