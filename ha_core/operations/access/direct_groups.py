"""Names the groups that read past the gateways, and takes names back, each in one revision."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ha_core.model import DirectGroups, Document, View
from ha_core.model.direct_groups import MAX_PATTERNS
from ha_core.operations.clusters.inventory import look_at_groups
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.engine.report import Report
from ha_core.operations.engine.single import run_single
from ha_core.operations.proposal.usage import known_usage
from ha_core.plan.access.direct_groups import Conflict, conflicts, gateway_groups, other_numbers
from ha_core.plan.facts.clusters import GroupFacts
from ha_core.plan.facts.verdict import amount, listed
from ha_core.store.commits import Key


@dataclass(frozen=True, slots=True)
class NamedGroup:
    """A direct group that a cluster has."""

    group: str
    pattern: str
    clusters: Mapping[str, str]
    """Cluster → the group's state there, in words."""


@dataclass(frozen=True, slots=True)
class DirectGroupsNow:
    """The patterns of direct groups, the clusters' groups that match, and matching groups that gateways also know."""

    patterns: tuple[DirectGroups, ...]
    groups: tuple[NamedGroup, ...]
    conflicts: tuple[Conflict, ...]
    unasked: Mapping[str, str]
    """Cluster → why it could not be asked; its groups are those last seen."""

    def to_json(self) -> dict[str, Any]:
        return {
            "patterns": [one.model_dump(mode="json", exclude={"schema_"}) for one in self.patterns],
            "groups": [{"group": one.group, "pattern": one.pattern, "in": dict(one.clusters)} for one in self.groups],
            "conflicts": [one._asdict() for one in self.conflicts],
            "unasked": dict(self.unasked),
        }


@dataclass(frozen=True, slots=True)
class NamingResult:
    """The result in words. `report` is None for a dry run, and if there was nothing to change."""

    words: str
    groups: tuple[str, ...]
    """Groups in the clusters that match the patterns."""
    report: Report | None = None


def direct_groups(environment: Environment) -> DirectGroupsNow:
    view = environment.store.load()
    patterns = tuple(document for _, document in sorted(view.direct_groups.items()))
    if not patterns:
        return DirectGroupsNow((), (), (), {})
    look = look_at_groups(environment, view)
    found: dict[str, dict[str, str]] = {}
    for cluster, groups in sorted(look.groups.items()):
        for name, facts in groups.items():
            found.setdefault(name, {})[cluster] = facts.words
    named = [
        NamedGroup(name, pattern, found[name]) for name in sorted(found) if (pattern := view.direct(name)) is not None
    ]
    clashes = tuple(conflicts(view, known_usage(environment).counts.values()))
    return DirectGroupsNow(patterns, tuple(named), clashes, look.why)


def add_direct_groups(
    environment: Environment, patterns: Collection[str], reason: str, dry_run: bool = False
) -> NamingResult:
    """Name groups as direct. From then on their commits count as physical offsets, and gateways refuse these groups.

    :param patterns: names of groups, or patterns.
    :param dry_run: only list the groups.
    :raises RefusedError: gateways know one of the groups, there is no reason, or there are too many patterns.
    :raises LockedError: an operation works on a group of that name.
    """
    view = environment.store.load()
    new = _asked(patterns, reason, view, known=False)
    if len(view.direct_groups) + len(new) > MAX_PATTERNS:
        raise RefusedError(
            f"There would be {len(view.direct_groups) + len(new)} patterns of direct groups, above {MAX_PATTERNS}. Use "
            "a pattern such as 'report-*' in place of names."
        )
    for group, why in sorted(gateway_groups(view, known_usage(environment).counts.values()).items()):
        if (named := next((pattern for pattern in new if fnmatchcase(group, pattern)), None)) is not None:
            raise RefusedError(
                f"{named!r} names group {group}, but {why}. Its commits are client offsets, and a direct group's are "
                "not: give the consumers that read past the gateways their own group, or choose another pattern. "
                f"If no gateway client uses the group any more: `switchyard usage forget USER --group {group}`."
            )
    names = _in_clusters(environment, view, new)
    what = f"direct groups {listed(map(repr, new))} ({_have(names)})"
    if not new:
        return NamingResult("nothing was changed: these are already direct groups", names)
    if dry_run:
        return NamingResult(f"would name {what}", names)
    puts = [DirectGroups(pattern=pattern, since=environment.now(), by=environment.by, reason=reason) for pattern in new]
    expected: dict[Key, int | None] = {(DirectGroups, pattern): None for pattern in new}
    report = run_single(environment, "direct-groups", reason, puts, expected, {"added": new, "reason": reason})
    return NamingResult(f"named {what}", names, report)


def remove_direct_groups(
    environment: Environment, patterns: Collection[str], reason: str, dry_run: bool = False
) -> NamingResult:
    """Take the names back. The commits of these groups count as client offsets from then on.

    :param dry_run: only list the groups.
    :raises RefusedError: a pattern was not added, no reason is given, or a group's numbers would mean other records.
    :raises LockedError: an operation works on a group of that name.
    """
    view = environment.store.load()
    gone = _asked(patterns, reason, view, known=True)
    kept = [pattern for pattern in view.direct_groups if pattern not in gone]
    names = tuple(
        name
        for name in _in_clusters(environment, view, gone)
        if not any(fnmatchcase(name, pattern) for pattern in kept)
    )
    look = look_at_groups(environment, view, names) if names else None
    for cluster, groups in sorted(look.groups.items()) if look is not None else ():
        for name, facts in sorted(groups.items()):
            _require_same_numbers(view, cluster, name, facts)
    what = f"{listed(map(repr, gone))} ({_have(names)})"
    if dry_run:
        return NamingResult(f"would take back {what}", names)
    expected: dict[Key, int | None] = {}
    for pattern in gone:
        stored = environment.store.read(DirectGroups, pattern)
        if stored is None:
            raise unchanged(f"Direct groups {pattern!r} have been taken back meanwhile. Run it again.")
        expected[DirectGroups, pattern] = stored[1]
    puts: list[Document] = []
    report = run_single(environment, "direct-groups", reason, puts, expected, {"removed": gone, "reason": reason})
    return NamingResult(f"took back {what}", names, report)


def _asked(patterns: Collection[str], reason: str, view: View, known: bool) -> list[str]:
    asked = [pattern.strip() for pattern in dict.fromkeys(patterns)]
    if not reason.strip():
        raise RefusedError("Naming direct groups needs a reason. Give --reason.")
    if not asked or not all(0 < len(pattern) <= 255 for pattern in asked):
        raise RefusedError("Name groups, or patterns such as 'report-*', of 1 to 255 characters.")
    if known and (missing := [pattern for pattern in asked if pattern not in view.direct_groups]):
        named = listed(map(repr, sorted(view.direct_groups))) or "none"
        raise RefusedError(
            f"{missing[0]!r} is not a pattern of direct groups. Existing patterns: {named}. Give one as it was added."
        )
    return [pattern for pattern in asked if (pattern in view.direct_groups) is known]


def _in_clusters(environment: Environment, view: View, patterns: Collection[str]) -> tuple[str, ...]:
    """Groups in any cluster that match a pattern."""
    look = look_at_groups(environment, view)
    names = {name for groups in look.groups.values() for name in groups}
    return tuple(sorted(name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)))


def _require_same_numbers(view: View, cluster: str, group: str, facts: GroupFacts) -> None:
    other = other_numbers(view, cluster, facts.offsets)
    if other:
        (topic, partition), (physical, client) = min(other.items())
        raise RefusedError(
            f"Group {group} has committed offset {physical} of {topic}-{partition} in {cluster}, which is client "
            f"offset {client}: a gateway client would read other records ({amount(len(other), 'partition')} differ). "
            "Let its consumers use the gateways with another group, for which `switchyard direct-groups carry "
            f"{group} --as NEW` commits the offsets. Or delete the group's offsets there."
        )


def _have(names: Collection[str]) -> str:
    return f"groups in the clusters: {listed(names)}" if names else "no cluster has such a group"
