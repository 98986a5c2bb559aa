"""Pre-flight of groups that follow the topics that they read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.verdict import Verdicts, error, listed
from ha_core.plan.move.closure import users_at
from ha_core.plan.preflight.case import PreflightCase
from ha_core.plan.routing.resolve import at_home, group_homes


@dataclass(frozen=True)
class DependentsCase(PreflightCase):
    """Input of rules for dependent groups. Its request names the topics that move, or have moved."""

    readers: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Group → topics of the request that it reads."""
    committed: Mapping[str, Collection[Partition]] = field(default_factory=dict)
    """Group → all partitions that it has committed offsets of."""

    def others(self, group: str) -> list[str]:
        """Topics with commits of the group that do not move."""
        return sorted({topic for topic, _ in self.committed[group]} - set(self.request.scope.topics))


def of_nobody(case: DependentsCase) -> Verdicts:
    """Groups without a known user, and so without a binding to change. Commits left behind by a move do not count."""
    homes = group_homes(case.view, case.usage.values())
    for name in sorted(case.readers):
        moved = not at_home(homes, name, case.request.origin)
        if not moved and not any(used.groups.get(name) for used in case.usage.values()):
            yield error(
                "unknown-group-user",
                f"group {name}",
                f"Group {name} reads {listed(sorted(case.readers[name]))}, but no user of it is known.",
                f"Declare who uses it: `switchyard usage declare USER --group {name}`.",
            )


def of_super_users(case: DependentsCase) -> Verdicts:
    """Groups of super users, which have to reach their own cluster, so their groups stay."""
    for name in sorted(case.readers):
        users = users_at(case.view, case.usage, name, case.request.origin)
        if users and all(map(case.view.super_user_of, users)):
            yield error(
                "super-user",
                f"group {name}",
                f"Group {name} is used by super users only ({listed(users)}), which have to reach their cluster.",
                "Give its readers a user of their own.",
            )


def beside_a_crossing(case: DependentsCase) -> Verdicts:
    """An undone crossing deletes the topics that it created, and with them the commits that a group has there."""
    crossing = {name: one.crossing.operation for name, one in case.view.topics.items() if one.crossing is not None}
    for name in sorted(case.readers):
        for other in [other for other in case.others(name) if other in crossing][:1]:
            yield error(
                "topic-crosses",
                f"group {name}",
                f"Group {name} also reads {other}, which crosses over in operation {crossing[other]}.",
                "Move it when that has ended; an operation that moves groups takes it along by itself.",
            )
