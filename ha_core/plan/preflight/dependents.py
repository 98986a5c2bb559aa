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
    """Topics that move, or have moved, are those that its request names."""

    readers: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Group → which of the topics it reads."""
    committed: Mapping[str, Collection[Partition]] = field(default_factory=dict)
    """Group → all that it has committed offsets of."""

    def others(self, group: str) -> list[str]:
        """Topics that it has committed offsets of, and that stay where they are."""
        return sorted({topic for topic, _ in self.committed[group]} - set(self.request.scope.topics))


def of_nobody(case: DependentsCase) -> Verdicts:
    """Without a user there is no binding to change. What a group has left behind when it moved is of nobody too."""
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
    """A super user has to reach its cluster, so no group of its own is led elsewhere."""
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
    """A crossing that is taken back deletes what it created, and with it the offsets that a group has there."""
    crossing = {name: one.crossing.operation for name, one in case.view.topics.items() if one.crossing is not None}
    for name in sorted(case.readers):
        for other in [other for other in case.others(name) if other in crossing][:1]:
            yield error(
                "topic-crosses",
                f"group {name}",
                f"Group {name} reads {other} too, which crosses over for operation {crossing[other]}.",
                "It can be moved when that has ended; an operation that moves groups takes it along by itself.",
            )
