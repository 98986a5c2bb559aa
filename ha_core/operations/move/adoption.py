"""Live groups are joined in the target on their members' behalf, invisible to clients until the cut."""

from collections.abc import Collection, Mapping

from ha_core.kafka.admin import Admin
from ha_core.kafka.adoption import adopt_group, keep_members_alive, remove_members
from ha_core.kafka.errors import GroupNotStableError, KafkaAdminError
from ha_core.model import MoveOperation
from ha_core.model.evidence import AdoptedGroup
from ha_core.operations.engine.cluster_admins import in_origin, in_target
from ha_core.operations.engine.journal import Journal


def adopt_groups(journal: Journal[MoveOperation]) -> None:
    """Adopt the move's groups. A group that is rebalancing is left out: its members rejoin after the cut."""
    groups = journal.moves.groups
    if not groups:
        return
    with journal.step("adopt") as seen:
        seen.update(_forget_stale(journal, groups))
        adopted, left_out = adopt(journal, groups)
        journal.note(adopted=adopted)
        seen.update(adopted={name: len(group.members) for name, group in adopted.items()}, left_out=left_out)


def _forget_stale(journal: Journal[MoveOperation], groups: Collection[str]) -> dict[str, int]:
    """Delete offsets that the groups committed in the target in an earlier stay and lack in the origin: else they would
    become valid again. Before members join there: a coordinator keeps the offsets of topics that members subscribe to.
    """
    target = journal.target
    here, there = journal.origin.group_offsets(groups), target.group_offsets(groups, stable=False)
    stale = {group: there[group].keys() - here[group].keys() for group in groups}
    kept = [
        key
        for group, partitions in stale.items()
        for key in target.delete_group_offsets(group, partitions, journal.still_ours)
    ]
    counts = {"stale_offsets": sum(map(len, stale.values())) - len(kept), "stale_offsets_kept": len(kept)}
    return {name: count for name, count in counts.items() if count}


def adopt(journal: Journal[MoveOperation], groups: Collection[str]) -> tuple[dict[str, AdoptedGroup], dict[str, str]]:
    """Adopted groups, and the others with the reason. Groups without live members are in neither."""
    origin, target = journal.origin, journal.target
    adopted: dict[str, AdoptedGroup] = {}
    left_out: dict[str, str] = {}
    for name, described in origin.describe_groups(groups).items():
        if not described.members:
            continue
        if described.protocol_type != "consumer":
            left_out[name] = f"it is of type {described.protocol_type}"
            continue
        try:
            generation = origin.group_generation(described)
            joined = adopt_group(target, described)
        except GroupNotStableError as error:
            left_out[name] = str(error)
            journal.environment.say(f"group {name} is not adopted, its members will rejoin: {error}")
            continue
        adopted[name] = AdoptedGroup(joined.generation, generation, joined.members)
    return adopted, left_out


def still_adopted(origin: Admin, target: Admin, groups: Mapping[str, AdoptedGroup]) -> dict[str, AdoptedGroup]:
    """Groups whose members are alive, in the same generation, on both sides. Keeps them alive."""
    alive: dict[str, AdoptedGroup] = {}
    for name, group in groups.items():
        try:
            keep_members_alive(origin, in_origin(name, group))
            keep_members_alive(target, in_target(name, group))
        except KafkaAdminError:
            continue
        alive[name] = group
    return alive


def renew_adoption(journal: Journal[MoveOperation]) -> None:
    """Adopt again groups that have rebalanced or expired since; the evidence gets the result."""
    adopted, target = journal.operation.evidence.adopted, journal.target
    alive = still_adopted(journal.origin, target, adopted)
    stale = [name for name in journal.moves.groups if name not in alive]
    if not stale:
        return
    for name in stale:
        if name in adopted:
            remove_members(target, in_target(name, adopted[name]))
    again, _ = adopt(journal, stale)
    if {**alive, **again} != adopted:
        journal.note(adopted={**alive, **again})
