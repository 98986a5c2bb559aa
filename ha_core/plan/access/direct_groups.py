"""Direct groups against groups of gateway clients: a group's numbers are of one kind only. No effects."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ha_core.model import Usage, View
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.verdict import listed


class Conflict(NamedTuple):
    """A group that is named as direct, or would be, and that gateways lead clients of.

    :ivar pattern: the one that names it.
    :ivar why: how gateways know it, for people.
    """

    group: str
    pattern: str
    why: str


def gateway_groups(view: View, usages: Iterable[Usage]) -> dict[str, str]:
    """Group → how gateways know it: it is bound, was moved, or a user of it is known."""
    users: dict[str, set[str]] = {}
    for usage in usages:
        for name in usage.groups:
            users.setdefault(name, set()).add(usage.user)
    found = {name: f"gateways know users of it: {listed(sorted(some))}" for name, some in users.items()}
    for user, bindings in view.bindings.items():
        found |= {name: f"{user}##{name} is bound to {cluster}" for name, cluster in bindings.groups.items()}
    return found | {name: f"it was moved to {group.cluster}" for name, group in view.groups.items() if group.cluster}


def conflicts(view: View, usages: Iterable[Usage]) -> Iterator[Conflict]:
    """Direct groups that gateways know, by name."""
    for group, why in sorted(gateway_groups(view, usages).items() if view.direct_groups else ()):
        if (pattern := view.direct(group)) is not None:
            yield Conflict(group, pattern, why)


def other_numbers(view: View, cluster: str, offsets: Mapping[Partition, int]) -> dict[Partition, tuple[int, int]]:
    """Partition → (physical offset, client offset), where they differ, of a direct group's commits in a cluster.

    A cluster that holds no extent of a partition has a copy: its mirror brings the right number.
    """
    places = {key: (offset, view.client_place(cluster, key, offset)) for key, offset in offsets.items()}
    return {key: (offset, place) for key, (offset, place) in places.items() if place is not None and place != offset}
