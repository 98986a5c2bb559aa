"""Commits of groups on mirrored topics, copied to the target as they are: numbers that mean client offsets.

What was seen is written to `/known_groups` first, then committed in the target. A forced move goes by the former, so it
never sets a group back to less than the target already had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError, StandsInTheWayError
from ha_core.kafka.group_offsets import Committed
from ha_core.model import KnownGroup
from ha_core.operations.syncing.pair import OvertakenError, Pair, Synced
from ha_core.plan.facts import Partition, is_live
from ha_core.plan.syncing import OffsetsDue, offsets_due
from ha_core.plan.verdict import amount, listed

Commits = Mapping[str, Mapping[Partition, Committed]]


@dataclass
class Memory:
    """What was seen of the source's commits over the looks of a process.

    :ivar highest: (group, partition) → offset.
    """

    highest: dict[tuple[str, Partition], int] = field(default_factory=dict)

    def take(self, group: str, committed: Mapping[Partition, int]) -> None:
        for key, offset in committed.items():
            self.highest[group, key] = max(offset, self.highest.get((group, key), -1))

    def of(self, group: str, committed: Mapping[Partition, Committed]) -> dict[Partition, int]:
        return {key: self.highest.get((group, key), -1) for key in committed}

    def keep(self, commits: Commits) -> None:
        """Forgets what has gone in the source."""
        there = {(group, key) for group, committed in commits.items() for key in committed}
        self.highest = {key: offset for key, offset in self.highest.items() if key in there}


def sync_groups(pair: Pair, memory: Memory) -> Synced:
    """Copies what is due; groups that cannot be copied are findings, each with its reason.

    :raises StoreError: nothing is copied without it.
    """
    pair.looked_anew()
    commits: Commits = {}
    renewed = 0
    try:
        states, commits, everything = _read(pair)
        known = pair.store.known(KnownGroup, pair.source.cluster.name, commits)
        for group, before in known.items():
            memory.take(group, before.committed)
        if not pair.dry_run:
            renewed = _renew(pair, states, everything, known)
        _copy(pair, commits, memory)
        for group, committed in commits.items():
            memory.take(group, {key: offset for key, (offset, _) in committed.items()})
        memory.keep(commits)
    except KafkaAdminError as error:
        pair.tell("offsets", f"cluster {error.cluster}", str(error), stop=True)
    except OvertakenError as error:
        pair.tell("offsets", f"cluster {pair.target.cluster.name}", f"{error}: the next look goes on")
    return pair.synced("groups", len(commits), renewed)


def _read(pair: Pair) -> tuple[dict[str, str], Commits, Commits]:
    """States; commits on mirrored topics of those groups that have any; all commits of these."""
    states = pair.source.list_groups()
    every = pair.source.group_offsets(sorted(states), stable=False)
    ours = {
        group: some
        for group, committed in every.items()
        if (some := {key: value for key, value in committed.items() if key[0] in pair.mirrors})
    }
    return states, ours, {group: every[group] for group in ours}


def _renew(pair: Pair, states: Mapping[str, str], everything: Commits, known: Mapping[str, KnownGroup]) -> int:
    source = pair.source.cluster.name
    changed = []
    for group, committed in everything.items():
        offsets: dict[str, dict[int, int]] = {}
        for (topic, partition), (offset, _) in committed.items():
            offsets.setdefault(topic, {})[partition] = offset
        if group not in known or known[group].offsets != offsets:
            changed.append(
                KnownGroup(cluster=source, name=group, at=pair.at, state=states.get(group, ""), offsets=offsets)
            )
    pair.require_young()
    pair.store.renew_known(KnownGroup, source, changed)
    return len(changed)


def _copy(pair: Pair, commits: Commits, memory: Memory) -> None:
    target = pair.target
    due: dict[str, OffsetsDue] = {}
    states = target.list_groups()
    there = target.group_offsets(sorted(commits), stable=False)
    counts = target.partition_counts(pair.mirrors) if commits else {}
    for group, committed in sorted(commits.items()):
        about = f"group {group}"
        if why := pair.group_hold(group):
            pair.tell("offsets", about, why)
            continue
        found = offsets_due(committed, there[group], memory.of(group, committed), counts)
        live = group in states and bool(states[group]) and is_live(states[group])
        if live and (found.copy or found.ahead):
            pair.tell("offsets", about, f"it has members in {target.cluster.name} ({states[group]})")
            continue
        for (topic, partition), (ours, theirs) in found.ahead.items():
            text = (
                f"{target.cluster.name} has {theirs} of {topic}-{partition}, the source {ours}, and was never seen to "
                "have more: it is left alone until the source gets there"
            )
            pair.tell("offsets", about, text)
        if found.lacking:
            named = listed(f"{topic}-{partition}" for topic, partition in found.lacking)
            pair.tell("offsets", about, f"{target.cluster.name} does not have {named} yet")
        if found.copy:
            due[group] = found
    if pair.dry_run:
        failed: dict[str, str] = {}
    else:
        results = target.pool.map(partial(_commit, pair, target), due, [one.copy for one in due.values()])
        failed = {group: why for group, why in zip(due, results, strict=True) if why}
    for group, one in due.items():
        if group in failed:
            pair.tell("offsets", f"group {group}", failed[group])
        else:
            pair.changed("offsets", f"group {group}", amount(len(one.copy), "partition"))


def _commit(pair: Pair, target: Admin, group: str, wanted: Mapping[Partition, Committed]) -> str:
    """Why it was not done; empty if it was."""
    try:
        target.set_group_offsets(group, wanted, still_ours=pair.group_unchanged(group, {topic for topic, _ in wanted}))
    except StandsInTheWayError as error:
        return str(error)
    except (KafkaAdminError, OvertakenError) as error:
        return f"{error} The next look tries again."
    return ""
