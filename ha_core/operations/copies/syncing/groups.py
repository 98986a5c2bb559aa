"""Groups' commits on mirrored topics, brought to the target: client offsets as they are, others translated.

Commits that were read are written to `/known_groups` first, then committed in the target. A forced move uses the
former, so that it never sets a group back to less than the target already had. Direct groups go on by the last known
commits while the source does not answer: no gateway and no switch takes care of them.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError, StandsInTheWayError
from ha_core.kafka.groups import Committed
from ha_core.model import KnownGroup
from ha_core.model.mirror_job import OffsetKind
from ha_core.operations.copies.syncing.copy_maps import CopyMaps
from ha_core.operations.copies.syncing.pair import MirrorPair, Synced, SyncOvertakenError, now_s
from ha_core.operations.copies.syncing.translating import (
    Carrying,
    Commits,
    carrying,
    follow_maps,
    keep_checkpoints,
    untranslated,
)
from ha_core.plan.facts.clusters import Partition, may_have_members
from ha_core.plan.facts.verdict import amount, listed
from ha_core.plan.mirror.carried import WantedCommits
from ha_core.plan.mirror.syncing import OffsetsDue, offsets_due, offsets_gone

MAPS_S = 3.0
"""Commits are read again if the maps took longer: facts may be some seconds old, not more."""


@dataclass
class Memory:
    """Facts of the source and its copies, remembered over the passes of a process.

    :ivar highest: (group, partition) → offset.
    :ivar maps: of copies.
    :ivar unknown: groups of which the pass before knew no gateway client.
    """

    highest: dict[tuple[str, Partition], int] = field(default_factory=dict)
    maps: CopyMaps = field(default_factory=CopyMaps)
    unknown: frozenset[str] = frozenset()

    def remember(self, group: str, committed: Mapping[Partition, int]) -> None:
        for key, offset in committed.items():
            self.highest[group, key] = max(offset, self.highest.get((group, key), -1))

    def of(self, topics: Collection[str]) -> dict[str, dict[Partition, int]]:
        """Group → the highest commits that the source ever had on these topics."""
        found: dict[str, dict[Partition, int]] = {}
        for (group, key), offset in self.highest.items():
            if key[0] in topics:
                found.setdefault(group, {})[key] = offset
        return found

    def keep(self, commits: Commits, pending: Collection[tuple[str, Partition]] = ()) -> None:
        """Forget commits that are gone in the source, unless they are `pending`, to be deleted in the target."""
        there = {(group, key) for group, committed in commits.items() for key in committed}.union(pending)
        self.highest = {key: offset for key, offset in self.highest.items() if key in there}


@dataclass(frozen=True)
class _Source:
    """
    :ivar states: group → its state.
    :ivar commits: on mirrored topics, for groups that have any.
    :ivar everything: all commits of these groups.
    :ivar answers: False: these are the last known commits of direct groups.
    """

    states: Mapping[str, str] = field(default_factory=dict)
    commits: Commits = field(default_factory=dict)
    everything: Commits = field(default_factory=dict)
    answers: bool = True


def sync_groups(pair: MirrorPair, memory: Memory) -> Synced:
    """Bring due commits over; groups whose commits stay behind are findings, each with its reason.

    :raises StoreError: without the store nothing is brought over.
    """
    found, renewed = _Source(), 0
    try:
        found = _read(pair)
        known = pair.store.known(KnownGroup, pair.source.cluster.name, found.commits)
        for group, before in known.items():
            memory.remember(group, before.committed)
        if not pair.dry_run and found.answers:
            renewed = _renew(pair, found, known)
        seen, begun_s = memory.of(pair.mirrors), now_s()
        follow_maps(pair, memory.maps, found.commits, seen, found.answers)
        if now_s() - begun_s > MAPS_S:
            pair.restart_age()
            found = _read(pair)
        # A gateway writes down a first use within seconds.
        carried = carrying(pair, memory.maps, found.commits, seen, memory.unknown & _live(found.states))
        memory.unknown = frozenset(found.commits.keys() - pair.homes.keys())
        there = _carry(pair, carried, found.commits)
        if found.answers:
            _name_shares(pair)
            for group, committed in found.commits.items():
                memory.remember(group, {key: offset for key, (offset, _) in committed.items()})
            memory.keep(found.commits, set(_delete(pair, carried, found.commits)))
        if not pair.dry_run:
            keep_checkpoints(pair, carried, found.commits, there)
    except KafkaAdminError as error:
        pair.add_finding("offsets", f"cluster {error.cluster}", str(error), stop=True)
    except SyncOvertakenError as error:
        pair.add_finding("offsets", f"cluster {pair.target.cluster.name}", f"{error}: the next look continues")
    direct = sum(pair.view.direct(group) is not None for group in found.commits)
    kinds: dict[OffsetKind, int] = {"client": len(found.commits) - direct, "translated": direct}
    return pair.synced("groups", len(found.commits), renewed, kinds)


def _read(pair: MirrorPair) -> _Source:
    """The source's groups; while it does not answer, the direct ones as they were last seen."""
    try:
        states = pair.source.list_groups()
        every = pair.source.group_offsets(sorted(states), stable=False)
    except KafkaAdminError as error:
        pair.add_finding("offsets", f"cluster {error.cluster}", str(error), stop=True)
        pair.restart_age()  # a hanging cluster has used up the time
        known = pair.store.known(KnownGroup, pair.source.cluster.name) if pair.view.direct_groups else {}
        last = {
            name: {key: (offset, "") for key, offset in group.committed.items()}
            for name, group in known.items()
            if pair.view.direct(name) is not None
        }
        return _Source({}, _on_mirrors(pair, last), answers=False)
    ours = _on_mirrors(pair, every)
    return _Source(states, ours, {group: every[group] for group in ours})


def _on_mirrors(pair: MirrorPair, commits: Commits) -> Commits:
    """Commits on mirrored topics, for groups that have any."""
    return {
        group: some
        for group, committed in commits.items()
        if (some := {key: value for key, value in committed.items() if key[0] in pair.mirrors})
    }


def _live(states: Mapping[str, str]) -> frozenset[str]:
    return frozenset(group for group, state in states.items() if state and may_have_members(state))


def _renew(pair: MirrorPair, found: _Source, groups: Mapping[str, KnownGroup]) -> int:
    source = pair.source.cluster.name
    changed = []
    for group, committed in found.everything.items():
        offsets: dict[str, dict[int, int]] = {}
        for (topic, partition), (offset, _) in committed.items():
            offsets.setdefault(topic, {})[partition] = offset
        if group not in groups or groups[group].offsets != offsets:
            state = found.states.get(group, "")
            changed.append(KnownGroup(cluster=source, name=group, at=pair.at, state=state, offsets=offsets))
    pair.require_fresh()
    pair.store.renew_known(KnownGroup, source, changed)
    return len(changed)


def _carry(pair: MirrorPair, carried: Carrying, commits: Commits) -> Commits:
    """Commit what is due. Returns the commits that the target has of these groups."""
    target = pair.target
    due: dict[str, OffsetsDue] = {}
    states = target.list_groups()
    there = target.group_offsets(sorted(commits), stable=False)
    counts = target.partition_counts(pair.mirrors) if commits else {}
    for group in sorted(commits):
        wanted = carried.wanted[group]
        if why := pair.group_hold(group):
            pair.add_finding("offsets", f"group {group}", why)
            continue
        found = offsets_due(wanted.commits, there[group], wanted.ours, counts)
        has_members = bool(states.get(group)) and may_have_members(states[group])
        if has_members and (found.copy or found.ahead):
            pair.add_finding("offsets", f"group {group}", f"it has members in {target.cluster.name} ({states[group]})")
            continue
        _name_left(pair, group, wanted, found, commits[group])
        if found.copy:
            due[group] = found
    failed: dict[str, str] = {}
    if not pair.dry_run:
        results = target.pool.map(partial(_commit, pair, target), due, [one.copy for one in due.values()])
        failed = {group: why for group, why in zip(due, results, strict=True) if why}
    for group, one in due.items():
        if group in failed:
            pair.add_finding("offsets", f"group {group}", failed[group])
        else:
            text = amount(len(one.copy), "partition")
            pair.changed("offsets", f"group {group}", f"{text}, translated" if group in carried.direct else text)
    done = {group: one.copy for group, one in due.items() if group not in failed}
    return {group: {**committed, **done.get(group, {})} for group, committed in there.items()}


def _name_left(
    pair: MirrorPair, group: str, wanted: WantedCommits, found: OffsetsDue, source: Mapping[Partition, Committed]
) -> None:
    about, target = f"group {group}", pair.target.cluster.name
    for (topic, partition), (ours, theirs) in found.ahead.items():
        offset = source[topic, partition][0]
        place = f"{offset}" if offset == ours else f"{offset}, which is {ours} there"
        text = (
            f"{target} has {theirs} of {topic}-{partition}, the source {place}, and is not known to have had more: it "
            "is left alone until the source gets there"
        )
        pair.add_finding("offsets", about, text)
    if found.lacking:
        named = listed(f"{topic}-{partition}" for topic, partition in found.lacking)
        pair.add_finding("offsets", about, f"{target} does not have {named} yet")
    for text in untranslated(wanted):
        pair.add_finding("offsets", about, f"not translated: {text}")


def _delete(pair: MirrorPair, carried: Carrying, commits: Commits) -> Iterator[tuple[str, Partition]]:
    """Delete in the target commits that were deleted in the source; yields, and reports, those still to be deleted.

    The source's coordinator of each group is asked, since a group that moves is listed by no broker for a moment.
    """
    gone = {
        group: lost
        for group, wanted in carried.wanted.items()
        if (lost := {key: high for key, high in wanted.ours.items() if key not in commits.get(group, {})})
    }
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
