"""Differences of a copy to its source other than records and settings (`plan/facts/settings`): access rules and groups'
offsets. No effects.

Only copiers may write to a copy: rights are carried over topic by topic, so that a rule for a prefix opens nothing else
in the target, and rights to write only under a guard that disables them (`copy_guard`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ha_core.model import Identity, Usage, View
from ha_core.plan.facts.clusters import Partition, TopicAcl
from ha_core.plan.routing.resolve import cluster_for_group

READ, WRITE, ALL, DESCRIBE, DESCRIBE_CONFIGS = 3, 4, 2, 8, 10
_TO_READ = (READ, DESCRIBE, DESCRIBE_CONFIGS)
_TO_USE = (*_TO_READ, WRITE)
_ALL_TOPICS = "*"


@dataclass(frozen=True, slots=True)
class RulesDue:
    """:ivar missing: to be added in the target.
    :ivar alone: rules of a carried kind that only the target has: the source may have removed them since.
    """

    missing: frozenset[TopicAcl]
    alone: frozenset[TopicAcl]


def rules_due(
    source: Collection[TopicAcl],
    target: Collection[TopicAcl],
    topics: Collection[str],
    guarded: Collection[str] = (),
) -> RulesDue:
    """Rules of these topics that the target lacks. Those that only the target has may be its own; `rules_revoked` finds
    those that may go.

    :param guarded: topics whose guard disables rights to write there, so that these are carried over as well.
    """

    def comes_along(rule: TopicAcl) -> bool:
        return rule.operation in _TO_READ or (rule.operation == WRITE and rule.name in guarded)

    every = {rule for topic in topics for rule in _of_copy(source, topic)}
    wanted = {rule for rule in every if comes_along(rule)}
    there = {topic: {_who(rule) for rule in target if covers(rule, topic)} for topic in topics}
    missing = frozenset(rule for rule in wanted if _who(rule) not in there[rule.name])
    alone = frozenset(rule for rule in target if rule.pattern == "literal" and rule.name in there and comes_along(rule))
    return RulesDue(missing, alone - every)


class RulesRevoked(NamedTuple):
    """Rules that a mirror has brought, and that its source no longer has.

    :ivar gone: to be removed in the target.
    :ivar last: topic → those that stay, because without them no rule of the target would concern the topic, and brokers
        with `allow.everyone.if.no.acl.found` would let everybody in.
    """

    gone: frozenset[TopicAcl]
    last: Mapping[str, frozenset[TopicAcl]]


def rules_revoked(
    alone: Collection[TopicAcl], target: Collection[TopicAcl], brought: Collection[TopicAcl], copier: str = ""
) -> RulesRevoked:
    """
    :param alone: see `RulesDue`.
    :param target: all rules there, without guards, which go when the copy becomes the writer.
    :param brought: rules that syncs of the mirror have added. No others are removed.
    :param copier: the account that copies; its rules stay.
    """
    revoked = {rule for rule in frozenset(brought).intersection(alone) if rule.principal != copier}
    left = frozenset(target) - revoked
    bare = {rule.name for rule in revoked if not any(covers(other, rule.name) for other in left)}
    last = {topic: frozenset(rule for rule in revoked if rule.name == topic) for topic in bare}
    return RulesRevoked(frozenset(rule for rule in revoked if rule.name not in bare), last)


def writers(rules: Collection[TopicAcl], topics: Collection[str]) -> frozenset[str]:
    """Principals that a rule allows to write to one of the topics."""
    allowing = [rule for rule in rules if rule.allows and rule.operation in (ALL, WRITE)]
    return frozenset(rule.principal for rule in allowing if any(covers(rule, topic) for topic in topics))


def covers(rule: TopicAcl, topic: str) -> bool:
    """Whether the rule applies to the topic."""
    if rule.pattern == "prefixed":
        return topic.startswith(rule.name)
    return rule.name in (topic, _ALL_TOPICS)


def _of_copy(source: Collection[TopicAcl], topic: str) -> Iterator[TopicAcl]:
    for rule in source:
        if covers(rule, topic):
            operations = _TO_USE if rule.operation == ALL else (rule.operation,)
            for operation in operations:
                if operation in _TO_USE:
                    yield rule._replace(pattern="literal", name=topic, operation=operation)


def _who(rule: TopicAcl) -> tuple[str, str, int, bool]:
    return rule.principal, rule.host, rule.operation, rule.allows


Committed = tuple[int, str]
"""(client offset, metadata)."""


@dataclass(frozen=True, slots=True)
class OffsetsDue:
    """:ivar copy: to be committed in the target.
    :ivar ahead: partition → (source, target): the target's offset is above all that were seen in the source.
    :ivar lacking: partitions that the target does not have.
    """

    copy: Mapping[Partition, Committed]
    ahead: Mapping[Partition, tuple[int, int]]
    lacking: tuple[Partition, ...]


def offsets_due(
    source: Mapping[Partition, Committed],
    target: Mapping[Partition, Committed],
    seen: Mapping[Partition, int],
    counts: Mapping[str, int],
) -> OffsetsDue:
    """Commits of one group to copy. They never go backwards, unless the source itself did.

    :param seen: the highest offset ever seen in the source. An offset at or below it in the target came from there; one
        above it was committed by another client, which had read further.
    :param counts: topic → partitions in the target.
    """
    copy: dict[Partition, Committed] = {}
    ahead: dict[Partition, tuple[int, int]] = {}
    lacking: list[Partition] = []
    for key, wanted in sorted(source.items()):
        found = target.get(key)
        if key[1] >= counts.get(key[0], 0):
            lacking.append(key)
        elif found is None or wanted[0] >= found[0] or found[0] <= seen.get(key, -1):
            if found != wanted:
                copy[key] = wanted
        else:
            ahead[key] = (wanted[0], found[0])
    return OffsetsDue(copy, ahead, tuple(lacking))


def offsets_gone(
    source: Collection[Partition], target: Mapping[Partition, Committed], seen: Mapping[Partition, int]
) -> tuple[Partition, ...]:
    """Commits of one group that came from the source, which has deleted them since.

    :param source: partitions with commits in the source.
    :param seen: the highest offset ever seen in the source. One above it in the target is another client's, and stays.
    """
    return tuple(
        sorted(key for key, high in seen.items() if key not in source and -1 < target.get(key, (-1, ""))[0] <= high)
    )


def homes(view: View, usages: Iterable[Usage]) -> dict[str, frozenset[str]]:
    """group → the clusters to which its bound and known users are routed; groups without known users are missing."""
    found: dict[str, set[str]] = {name: {group.cluster} for name, group in view.groups.items() if group.cluster}
    for bindings in view.bindings.values():
        for name, cluster in bindings.groups.items():
            found.setdefault(name, set()).add(cluster)
    for usage in usages:
        for name, uses in usage.groups.items():
            for use in uses:
                if home := cluster_for_group(view, Identity(usage.user, use.instance), name):
                    found.setdefault(name, set()).add(home)
    return {name: frozenset(clusters) for name, clusters in found.items()}
