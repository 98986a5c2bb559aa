"""Commits a group's place for another group: for consumers that begin or cease to use the gateways, or that read
another cluster past them.

A group's name has one kind of offsets. So consumers that change between gateways and clusters need another group. Its
offsets are computed from the old group's: by the maps of the topics, or by the runs of a mirror, in either direction.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ha_core.flows.translation import CopiedEnd, Translated, by_runs
from ha_core.kafka.admin import Admin
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.comparing import CopyMap
from ha_core.model import View
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.revisions import nested_by_topic
from ha_core.plan.access.carrying_groups import Place, Translate, carried
from ha_core.plan.facts.clusters import Partition, may_have_members
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import amount, listed


@dataclass(frozen=True, slots=True)
class GroupCarried:
    """
    :ivar offsets: partition → offset that is committed for the other group; in a dry run, that would be.
    :ivar left: partition → why the other group gets no offset.
    """

    here: Place
    there: Place
    offsets: Mapping[Partition, int]
    left: Mapping[Partition, str]
    dry_run: bool

    @property
    def words(self) -> str:
        would = "would have" if self.dry_run else "has"
        what = amount(len(self.offsets), "partition")
        return f"group {self.there.group} {would} the place of {self.here.group} in {self.there.cluster}: {what}"

    def to_json(self) -> dict[str, Any]:
        return {
            "from": self.here._asdict(),
            "to": self.there._asdict(),
            "offsets": nested_by_topic(self.offsets),
            "left": nested_by_topic(self.left),
            "dry_run": self.dry_run,
        }


def carry_group(
    environment: Environment, group: str, cluster: str, other: str = "", target: str = "", dry_run: bool = False
) -> GroupCarried:
    """Commit the place of `group` in `cluster` for the group `other` in `target`.

    :param other: empty: the same group, in another cluster.
    :param target: empty: the same cluster.
    :raises RefusedError: one of the groups has members, `other` is ahead already, or nothing can be carried.
    :raises KafkaAdminError: a cluster does not answer.
    """
    view = environment.store.load()
    other, target = other or group, target or cluster
    here, there = (Place(name, at, view.direct(name) is not None) for name, at in ((group, cluster), (other, target)))
    if here == there:
        raise RefusedError(
            f"Group {group} in {cluster} already has this place. Name another group, or another cluster."
        )
    if not here.direct and not there.direct:
        raise RefusedError(
            f"Neither {group} nor {other} is a direct group: client offsets are the same in every cluster, and a "
            "switch carries them over."
        )
    source, admin = admin_of(environment, cluster), admin_of(environment, target)
    offsets = _offsets(source, group)
    if not offsets:
        raise RefusedError(f"Group {group} has committed no offset in {cluster}.")
    translate = _by_mirror(environment, view, here, there, offsets)
    found = carried(view, here, there, offsets, translate)
    _require_behind(admin, there, found.offsets)
    if not found.offsets:
        raise RefusedError(f"Nothing of group {group} can be carried: {listed(sorted(set(found.left.values())))}.")
    if not dry_run:
        admin.set_group_offsets(other, {key: (offset, "") for key, offset in found.offsets.items()})
    return GroupCarried(here, there, found.offsets, found.left, dry_run)


def _offsets(admin: Admin, group: str) -> dict[Partition, int]:
    """:raises RefusedError: the group has members, so its offsets may change."""
    state = admin.list_groups().get(group, "Dead")
    if may_have_members(state):
        raise RefusedError(f"Group {group} has members in {admin.cluster.name} ({state or '?'}): stop them first.")
    return {key: offset for key, (offset, _) in admin.group_offsets([group])[group].items()}


def _require_behind(admin: Admin, there: Place, wanted: Mapping[Partition, int]) -> None:
    """:raises RefusedError: the group has members there, or is ahead of the wanted offsets."""
    beyond = {
        key: offset for key, offset in _offsets(admin, there.group).items() if key in wanted and offset > wanted[key]
    }
    if beyond:
        (topic, partition), offset = min(beyond.items())
        raise RefusedError(
            f"Group {there.group} in {there.cluster} is at offset {offset} of {topic}-{partition}, above "
            f"{wanted[topic, partition]}: it has read on. Delete its offsets there if it shall reread these records."
        )


def _by_mirror(
    environment: Environment, view: View, here: Place, there: Place, partitions: Collection[Partition]
) -> Translate:
    """Translates physical offsets of one cluster into those of the other, by the runs of mirrors between both."""
    if here.cluster == there.cluster or not (here.direct and there.direct):
        return lambda _, offset: offset
    maps: dict[Partition, CopyMap | None] = {}
    forwards = dict[Partition, bool]()
    route = here.cluster, there.cluster
    for topic, keys in grouped(partitions).items():
        for source, target in (route, route[::-1]):
            mirror = view.mirrors.get(f"{topic}@{target}")
            if mirror is not None and mirror.source == source:
                copies = {copy.id: copy.key for copy in copies_of(mirror, keys)}
                read = admin_of(environment, target).read_copies(copies_of(mirror, keys))
                maps |= {copies[id_]: one.copied for id_, one in read.items()}
                forwards |= dict.fromkeys(copies.values(), (source, target) == route)

    def translate(key: Partition, offset: int) -> int | str:
        if key not in maps:
            return f"no mirror copies {key[0]} between {here.cluster} and {there.cluster}"
        copied = maps[key]
        if copied is None:
            return "nothing is copied yet"
        runs, end = copied.runs, CopiedEnd(copied.source, copied.target)
        if not forwards[key]:
            runs, end = tuple(run.reversed for run in runs), CopiedEnd(copied.target, copied.source)
        place = by_runs(runs, offset, end)
        return place.offset if isinstance(place, Translated) else place.reason

    return translate
