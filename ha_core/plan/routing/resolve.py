"""Resolves the cluster of a request: by the topic's map, else the finest binding, else the existing topic, else the
default."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal, NamedTuple

from ha_core.model import Identity, Usage, UserBindings, View

Level = Literal["map", "group", "user#topic", "hint", "user+instance", "user", "topic", "default"]
EXPLICIT_LEVELS: frozenset[Level] = frozenset({"user#topic", "hint", "user+instance", "user"})
"""Levels that an operator's binding decides."""


class Resolved(NamedTuple):
    cluster: str | None
    """None: no level decides, and there is no default."""
    level: Level
    """The level that decided. `hint` is the `user#topic` level of the topic that an HA client id names."""
    differs: bool
    """The topic exists only in other clusters than that of `level`, and is served from one of them."""


def cluster_for_topic(
    view: View, identity: Identity, topic: str, existing: Callable[[str], Collection[str]]
) -> Resolved:
    """The cluster that serves `topic` to `identity`.

    :param existing: names of the clusters in which a topic is known to exist.
    """
    if (document := view.mapped(topic)) is not None:
        return Resolved(document.writer, "map", False)
    bindings, default = view.bindings.get(identity.user), view.default_cluster
    bound, level = _bound(bindings, identity, topic)
    if bindings is not None and bindings.local_names is not None:
        # The source's topic of a name that a remote topic gets, or will get, must not be read in its place.
        return Resolved(bound or default, level, False)
    holders = existing(topic)
    if not holders:
        return Resolved(bound or default, level, False)
    if bound in holders:
        return Resolved(bound, level, False)
    # All gateways have to choose alike, whatever order they learnt of the holders in.
    own = default if default in holders else min(holders)
    if bound is not None:
        return Resolved(own, level, True)
    return Resolved(own, "topic", default not in holders and len(holders) > 1)


def cluster_for_group(view: View, identity: Identity, group: str) -> str | None:
    """The cluster whose coordinator serves `group` to `identity`; None: no level decides.

    The topic of an HA client id does not count: a `user#topic` move leaves groups and their offsets where they are.
    """
    return lead_group(view, identity, group)[0]


def lead_group(view: View, identity: Identity, group: str) -> tuple[str | None, Level]:
    """`cluster_for_group`, and the level that decides."""
    bindings = view.bindings.get(identity.user)
    moved = None if bindings is None else bindings.groups.get(group)
    if moved:
        return moved, "group"
    bound, level = _bound(bindings, Identity(identity.user, identity.instance), "")
    return bound or view.default_cluster, level


def group_homes(view: View, usages: Iterable[Usage]) -> dict[str, frozenset[str]]:
    """Moved group → its target, and the clusters to which its bound and known users are routed.

    A group that was never moved is missing, and may be in any cluster, because not all its users are known. So is a
    group with a user that is routed to no cluster.
    """
    homes: dict[str, set[str | None]] = {name: {group.cluster} for name, group in view.groups.items() if group.cluster}
    for bindings in view.bindings.values():
        for name in bindings.groups.keys() & homes.keys():
            homes[name].add(bindings.groups[name])
    for usage in usages:
        for name in usage.groups.keys() & homes.keys():
            users = (Identity(usage.user, use.instance) for use in usage.groups[name])
            homes[name].update(cluster_for_group(view, user, name) for user in users)
    return {name: frozenset(c for c in found if c is not None) for name, found in homes.items() if None not in found}


def at_home(homes: Mapping[str, Collection[str]], group: str, cluster: str) -> bool:
    """Whether a user may be routed to the group's coordinator in `cluster`. :param homes: see `group_homes`."""
    return cluster in homes.get(group, (cluster,))


def cluster_for_user(view: View, identity: Identity) -> str | None:
    """The cluster of requests without a topic or group: transactional ids and cluster-wide requests.

    The topic of an HA client id counts here: its transactions need the cluster that writes its partitions.
    """
    return _bound(view.bindings.get(identity.user), identity, "")[0] or view.default_cluster


def _bound(bindings: UserBindings | None, identity: Identity, topic: str) -> tuple[str | None, Level]:
    if bindings is None:
        return None, "default"
    if topic in bindings.topics:
        return bindings.topics[topic], "user#topic"
    if identity.topic_hint in bindings.topics:
        return bindings.topics[identity.topic_hint], "hint"
    instance = bindings.instance(identity.instance)
    if instance in bindings.instances:
        return bindings.instances[instance], "user+instance"
    if bindings.cluster is not None:
        return bindings.cluster, "user"
    return None, "default"
