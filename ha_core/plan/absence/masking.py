"""Effects of masking a cluster: topics, groups and users that stop, by the state, by usage, and by existing topics."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ha_core.model import Identity, Usage, View
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.routing.resolve import cluster_for_group, cluster_for_topic


@dataclass(frozen=True, slots=True)
class Affected:
    """Topics, groups and users that stop with a masked cluster. A topic has one writer, so no other one takes over."""

    written: tuple[str, ...] = ()
    """Topics that can be neither written nor read at their end."""
    older: tuple[str, ...] = ()
    """Topics written elsewhere whose older records are there: readers of these records wait."""
    groups: tuple[str, ...] = ()
    """Groups that cannot join or commit."""
    users: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """User → `topic NAME` and `group NAME` that stop for it; empty: bound there, without known usage."""

    mirrors: tuple[str, ...] = ()
    """Mirrors from it or to it, `topic NAME to CLUSTER`: their settings, rights and groups are not synced. Records are
    copied as long as the cluster answers."""

    @property
    def anything(self) -> bool:
        return bool(self.written or self.older or self.groups or self.users or self.mirrors)

    def to_json(self) -> dict[str, Any]:
        """Lists throughout: Airflow shows a tuple as one word in brackets."""
        users = {user: list(uses) for user, uses in self.users.items()}
        lists = {"written": self.written, "older": self.older, "groups": self.groups, "mirrors": self.mirrors}
        return {**{what: [*names] for what, names in lists.items()}, "users": users}


def holders_of(topics: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Topic → clusters that have it. `topics`: cluster → its topics."""
    return grouped((name, cluster) for cluster, names in topics.items() for name in names)


def affected(view: View, usage: Mapping[str, Usage], cluster: str, holders: Mapping[str, Collection[str]]) -> Affected:
    """:param holders: topic → clusters where it is known to exist."""

    def existing(topic: str) -> Collection[str]:
        return holders.get(topic, ())

    users = {user: tuple(sorted(_stopped(view, used, cluster, existing))) for user, used in usage.items()}
    bound = {user for user, bindings in view.bindings.items() if bindings.cluster == cluster}
    used = {f"topic {topic}" for one in usage.values() for topic in one.topics}
    stopped = {what for several in users.values() for what in several}

    def is_written(name: str) -> bool:
        if (document := view.mapped(name)) is not None:
            return cluster in document.writers
        if f"topic {name}" in used:
            return f"topic {name}" in stopped
        return cluster_for_topic(view, Identity("", ""), name, existing).cluster == cluster

    here = {name for name, clusters in holders.items() if cluster in clusters}
    written = {name for name in here | view.topics.keys() if is_written(name)}
    older = {
        name
        for name, topic in view.topics.items()
        if name not in written
        and any(extent.cluster == cluster and not extent.ignored for _, extent in topic.all_extents())
    }
    groups = {name for name, group in view.groups.items() if group.cluster == cluster}
    groups |= {what.removeprefix("group ") for what in stopped if what.startswith("group ")}
    return Affected(
        tuple(sorted(written)),
        tuple(sorted(older)),
        tuple(sorted(groups)),
        {user: users.get(user, ()) for user in sorted(bound | {name for name, what in users.items() if what})},
        tuple(
            sorted(
                f"topic {mirror.topic} to {mirror.target}"
                for mirror in view.mirrors.values()
                if cluster in (mirror.source, mirror.target)
            )
        ),
    )


def _stopped(view: View, used: Usage, cluster: str, existing: Callable[[str], Collection[str]]) -> Iterator[str]:
    for name, uses in used.topics.items():
        identities = [Identity(used.user, use.instance) for use in uses]
        # The cluster where a missing topic would be created does not count.
        known = existing(name) or name in view.topics
        if known and any(
            cluster_for_topic(view, identity, name, existing).cluster == cluster for identity in identities
        ):
            yield f"topic {name}"
    for name, uses in used.groups.items():
        if any(cluster_for_group(view, Identity(used.user, use.instance), name) == cluster for use in uses):
            yield f"group {name}"
