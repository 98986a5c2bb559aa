"""Committed offsets of whole clusters, as their coordinators say them, or as they were last seen."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import Partition
from ha_core.model import KnownGroup, KnownTopic, View
from ha_core.operations.context import Environment
from ha_core.plan.aging import Commit

LIVE = frozenset({"Stable", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
"""States of a group with members."""
LOOK_S = 30.0


@dataclass(frozen=True, slots=True)
class Commits:
    """Of some topics, over all clusters."""

    of: Mapping[Partition, tuple[Commit, ...]] = field(default_factory=dict)
    unasked: tuple[str, ...] = ()
    """Clusters that do not answer, and of which nothing was recorded either."""
    left_over: tuple[str, ...] = ()
    """`group GROUP in CLUSTER`: what a cluster still holds of a group that has moved away. Nobody reads it."""


def commits(environment: Environment, view: View, topics: Collection[str], up: Mapping[str, Admin]) -> Commits:
    """Committed offsets of `topics` in every registered cluster.

    :param up: the clusters that answer.
    """
    wanted = set(topics)
    unasked: list[str] = []
    left_over: set[str] = set()
    found: dict[Partition, list[Commit]] = {}

    def ask(name: str) -> list[tuple[Partition, Commit]] | None:
        admin = up.get(name)
        try:
            return list(_last_seen(environment, name) if admin is None else _asked(admin))
        except KafkaAdminError as error:
            environment.say(f"the groups of {name} cannot be asked: {error}")
            return list(_last_seen(environment, name))
        except LookupError:
            return None

    names = sorted(view.clusters)
    for name, said in zip(names, environment.pool.map(ask, names), strict=True):
        if said is None:
            unasked.append(name)
            continue
        for key, commit in said:
            if key[0] not in wanted:
                continue
            if not commit.live and _moved_away(view, commit):
                left_over.add(f"group {commit.group} in {name}")
            else:
                found.setdefault(key, []).append(commit)
    return Commits({key: tuple(several) for key, several in found.items()}, tuple(unasked), tuple(sorted(left_over)))


def _asked(admin: Admin) -> Iterator[tuple[Partition, Commit]]:
    states = admin.list_groups(timeout_s=LOOK_S)
    unsaid = [name for name, state in states.items() if not state]
    for name, described in admin.describe_groups(unsaid, timeout_s=LOOK_S).items() if unsaid else ():
        states[name] = described.state
    committed = admin.group_offsets(sorted(states), stable=False, timeout_s=LOOK_S)
    for group, offsets in committed.items():
        for key, (offset, _) in offsets.items():
            yield key, Commit(group, admin.cluster.name, offset, states[group] in LIVE)


def _last_seen(environment: Environment, cluster: str) -> Iterator[tuple[Partition, Commit]]:
    """:raises LookupError: nobody ever looked at this cluster."""
    groups = environment.store.known(KnownGroup, cluster)
    if not groups and not environment.store.known(KnownTopic, cluster):
        raise LookupError(cluster)
    for name, group in groups.items():
        for topic, offsets in group.offsets.items():
            for partition, offset in offsets.items():
                yield (topic, partition), Commit(name, cluster, offset, False)


def _moved_away(view: View, commit: Commit) -> bool:
    group = view.groups.get(commit.group)
    return group is not None and group.cluster is not None and group.cluster != commit.cluster
