"""Groups that follow their topics: for which users a group's coordinator is in the origin, and what holds them up."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ha_core.model import Identity, Usage, View
from ha_core.plan.resolve import cluster_for_group


def users_at(view: View, usage: Mapping[str, Usage], group: str, cluster: str) -> tuple[str, ...]:
    """Users of `group` whose requests for it go to the coordinator in `cluster`, by what `usage` (user → uses) says."""
    return tuple(
        user
        for user, used in sorted(usage.items())
        if any(
            cluster_for_group(view, Identity(user, use.instance), group) == cluster
            for use in used.groups.get(group, ())
        )
    )


def has_user(usage: Mapping[str, Usage], group: str) -> bool:
    """Whether anybody is known to use the group, wherever it is coordinated."""
    return any(used.groups.get(group) for used in usage.values())


def crossing_for(view: View, topics: Collection[str]) -> dict[str, str]:
    """Those of `topics` that cross over now → the operation. Until it ends they may be taken back, and be deleted."""
    return {
        name: topic.crossing.operation
        for name in sorted(topics)
        if (topic := view.topics.get(name)) is not None and topic.crossing is not None
    }
