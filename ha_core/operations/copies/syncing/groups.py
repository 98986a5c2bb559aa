"""Groups' commits on mirrored topics, copied to the target as they are: they are client offsets.

Commits that were read are written to `/known_groups` first, then committed in the target. A forced move uses the
former, so that it never sets a group back to less than the target already had.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError, StandsInTheWayError
from ha_core.kafka.groups import Committed
from ha_core.model import KnownGroup
from ha_core.operations.copies.syncing.pair import MirrorPair, Synced, SyncOvertakenError
from ha_core.plan.facts.clusters import Partition, may_have_members
from ha_core.plan.facts.verdict import amount, listed
from ha_core.plan.mirror.syncing import OffsetsDue, offsets_due, offsets_gone

Commits = Mapping[str, Mapping[Partition, Committed]]


@dataclass
class Memory:
    """Commits of the source, remembered over the passes of a process.

    :ivar highest: (group, partition) → offset.
    """

    highest: dict[tuple[str, Partition], int] = field(default_factory=dict)

    def remember(self, group: str, committed: Mapping[Partition, int]) -> None:
        for key, offset in committed.items():
            self.highest[group, key] = max(offset, self.highest.get((group, key), -1))

    def of(self, group: str, committed: Mapping[Partition, Committed]) -> dict[Partition, int]:
        return {key: self.highest.get((group, key), -1) for key in committed}

    def gone(self, commits: Commits, topics: Collection[str]) -> dict[str, dict[Partition, int]]:
        """Group → commits that the source had on these topics, and does not have now."""
        found: dict[str, dict[Partition, int]] = {}
        for (group, key), offset in self.highest.items():
            if key[0] in topics and key not in commits.get(group, {}):
                found.setdefault(group, {})[key] = offset
        return found

    def keep(self, commits: Commits, pending: Collection[tuple[str, Partition]] = ()) -> None:
        """Forget commits that are gone in the source, unless they are `pending`, to be deleted in the target."""
        there = {(group, key) for group, committed in commits.items() for key in committed}.union(pending)
        self.highest = {key: offset for key, offset in self.highest.items() if key in there}


def sync_groups(pair: MirrorPair, memory: Memory) -> Synced:
    """Copy due commits; groups that cannot be copied are findings, each with its reason.

    :raises StoreError: without the store nothing is copied.
    """
    pair.restart_age()
    commits: Commits = {}
    renewed = 0
    try:
        states, commits, everything = _read(pair)
        known = pair.store.known(KnownGroup, pair.source.cluster.name, commits)
        for group, before in known.items():
            memory.remember(group, before.committed)
        if not pair.dry_run:
            renewed = _renew(pair, states, everything, known)
        _copy(pair, commits, memory)
        _name_shares(pair)
        for group, committed in commits.items():
            memory.remember(group, {key: offset for key, (offset, _) in committed.items()})
        memory.keep(commits, set(_delete(pair, commits, memory)))
    except KafkaAdminError as error:
        pair.add_finding("offsets", f"cluster {error.cluster}", str(error), stop=True)
    except SyncOvertakenError as error:
        pair.add_finding("offsets", f"cluster {pair.target.cluster.name}", f"{error}: the next look continues")
    return pair.synced("groups", len(commits), renewed)


def _read(pair: MirrorPair) -> tuple[dict[str, str], Commits, Commits]:
    """States; commits on mirrored topics, for groups that have any; all commits of these groups."""
    states = pair.source.list_groups()
    every = pair.source.group_offsets(sorted(states), stable=False)
    ours = {
        group: some
        for group, committed in every.items()
        if (some := {key: value for key, value in committed.items() if key[0] in pair.mirrors})
    }
    return states, ours, {group: every[group] for group in ours}


def _renew(pair: MirrorPair, states: Mapping[str, str], everything: Commits, groups: Mapping[str, KnownGroup]) -> int:
    source = pair.source.cluster.name
    changed = []
    for group, committed in everything.items():
        offsets: dict[str, dict[int, int]] = {}
        for (topic, partition), (offset, _) in committed.items():
            offsets.setdefault(topic, {})[partition] = offset
        if group not in groups or groups[group].offsets != offsets:
            changed.append(
                KnownGroup(cluster=source, name=group, at=pair.at, state=states.get(group, ""), offsets=offsets)
            )
    pair.require_fresh()
    pair.store.renew_known(KnownGroup, source, changed)
    return len(changed)


def _copy(pair: MirrorPair, commits: Commits, memory: Memory) -> None:
    target = pair.target
    due: dict[str, OffsetsDue] = {}
    states = target.list_groups()
    there = target.group_offsets(sorted(commits), stable=False)
    counts = target.partition_counts(pair.mirrors) if commits else {}
    for group, committed in sorted(commits.items()):
        about = f"group {group}"
        if why := pair.group_hold(group):
            pair.add_finding("offsets", about, why)
            continue
        found = offsets_due(committed, there[group], memory.of(group, committed), counts)
        has_members = group in states and bool(states[group]) and may_have_members(states[group])
        if has_members and (found.copy or found.ahead):
            pair.add_finding("offsets", about, f"it has members in {target.cluster.name} ({states[group]})")
            continue
        for (topic, partition), (ours, theirs) in found.ahead.items():
            text = (
                f"{target.cluster.name} has {theirs} of {topic}-{partition}, the source {ours}, and is not "
                "known to have had more: it is left alone until the source gets there"
            )
            pair.add_finding("offsets", about, text)
        if found.lacking:
            named = listed(f"{topic}-{partition}" for topic, partition in found.lacking)
            pair.add_finding("offsets", about, f"{target.cluster.name} does not have {named} yet")
        if found.copy:
            due[group] = found
    if pair.dry_run:
        failed: dict[str, str] = {}
    else:
        results = target.pool.map(partial(_commit, pair, target), due, [one.copy for one in due.values()])
        failed = {group: why for group, why in zip(due, results, strict=True) if why}
    for group, one in due.items():
        if group in failed:
            pair.add_finding("offsets", f"group {group}", failed[group])
        else:
            pair.changed("offsets", f"group {group}", amount(len(one.copy), "partition"))


def _delete(pair: MirrorPair, commits: Commits, memory: Memory) -> Iterator[tuple[str, Partition]]:
    """Delete in the target commits that were deleted in the source; yields, and reports, those still to be deleted.

    The source's coordinator of each group is asked, since a group that moves is listed by no broker for a moment.
    """
    gone = memory.gone(commits, pair.mirrors)
    if not gone:
        return
    names, target = sorted(gone), pair.target
    here = pair.source.group_offsets(names, stable=False)
    there, states = target.group_offsets(names, stable=False), target.list_groups()
    for group in names:
        keys = offsets_gone(here[group], there[group], gone[group])
        if not keys:
            continue
        about, topics = f"group {group}", {topic for topic, _ in keys}
        text = f"{amount(len(keys), 'partition')} deleted, as in {pair.source.cluster.name}"
        if pair.dry_run:
            pair.changed("offsets", about, text)
            continue
        why = pair.group_hold(group)
        if not why and states.get(group) and may_have_members(states[group]):
            why = f"it has members in {target.cluster.name} ({states[group]})"
        if not why:
            try:
                stay = target.delete_group_offsets(group, keys, pair.group_unchanged(group, topics))
                why = f"it has members in {target.cluster.name}" if stay else ""
            except (KafkaAdminError, SyncOvertakenError) as error:
                why = f"{error} The next look tries again."
        if why:
            pair.add_finding("offsets", about, f"its offsets were deleted in {pair.source.cluster.name}: {why}")
            yield from ((group, key) for key in keys)
        else:
            pair.changed("offsets", about, text)


def _name_shares(pair: MirrorPair) -> None:
    for group in sorted(pair.source.share_groups()):
        pair.add_finding(
            "offsets", f"group {group}", "it is a share group, whose position cannot be copied to another cluster"
        )


def _commit(pair: MirrorPair, target: Admin, group: str, wanted: Mapping[Partition, Committed]) -> str:
    """Why the commit failed; empty if it succeeded."""
    try:
        target.set_group_offsets(group, wanted, still_ours=pair.group_unchanged(group, {topic for topic, _ in wanted}))
    except StandsInTheWayError as error:
        return str(error)
    except (KafkaAdminError, SyncOvertakenError) as error:
        return f"{error} The next look tries again."
    return ""
