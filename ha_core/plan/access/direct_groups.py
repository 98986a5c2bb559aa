"""Finds groups that are direct groups and groups of gateway clients at once, which no group may be. No effects."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ha_core.model import Usage, View
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.verdict import listed


class Conflict(NamedTuple):
    """A group that matches a pattern of direct groups, but that gateways know.

    :ivar pattern: the pattern that names the group.
    :ivar why: how gateways know the group, for people.
    """

    group: str
    pattern: str
    why: str


def gateway_groups(view: View, usages: Iterable[Usage]) -> dict[str, str]:
    """Group → how gateways know it: it is bound, it was moved, or one of its users is known."""
    users: dict[str, set[str]] = {}
    for usage in usages:
        for name in usage.groups:
            users.setdefault(name, set()).add(usage.user)
    found = {name: f"gateways know users of it: {listed(sorted(some))}" for name, some in users.items()}
    for user, bindings in view.bindings.items():
        found |= {name: f"{user}##{name} is bound to {cluster}" for name, cluster in bindings.groups.items()}
    return found | {name: f"it was moved to {group.cluster}" for name, group in view.groups.items() if group.cluster}


def conflicts(view: View, usages: Iterable[Usage]) -> Iterator[Conflict]:
    """Direct groups that gateways know, sorted by name."""
    for group, why in sorted(gateway_groups(view, usages).items() if view.direct_groups else ()):
        if (pattern := view.direct(group)) is not None:
            yield Conflict(group, pattern, why)


def other_numbers(view: View, cluster: str, offsets: Mapping[Partition, int]) -> dict[Partition, tuple[int, int]]:
    """Partition → (physical offset, client offset) of a direct group's commits in a cluster, where both differ.

    Partitions of which the cluster holds no extent are left out: they are copies, whose mirror brings the right number.
    """
    places = {key: (offset, view.client_place(cluster, key, offset)) for key, offset in offsets.items()}
    return {key: (offset, place) for key, (offset, place) in places.items() if place is not None and place != offset}
