"""Groups that follow their topics: who reads them, and for which users a group's coordinator is in the origin."""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

from ha_core.model import Identity, Usage, View
from ha_core.plan.resolve import cluster_for_group

_SHORT, _INT = struct.Struct(">h"), struct.Struct(">i")


def assigned_topics(assignment: bytes) -> frozenset[str]:
    """Topics that a member of a group was assigned partitions of (ConsumerProtocolAssignment, any version).

    Empty for what is not an assignment of consumers: the bytes are the clients' own, and brokers never look at them.
    """
    found: set[str] = set()
    try:
        (count,) = _INT.unpack_from(assignment, _SHORT.size)
        at = _SHORT.size + _INT.size
        for _ in range(count):
            (length,) = _SHORT.unpack_from(assignment, at)
            at += _SHORT.size
            name = assignment[at : at + length].decode()
            (partitions,) = _INT.unpack_from(assignment, at + length)
            if length < 0 or partitions < 0:
                return frozenset()
            at += length + _INT.size + partitions * _INT.size
            if at > len(assignment):
                return frozenset()
            if partitions:
                found.add(name)
    except (struct.error, UnicodeDecodeError):
        return frozenset()
    return frozenset(found)


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
