"""A group's commit in the target never goes by offsets that are older than what the group has read there. Without a
cluster."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, cast

from ha_core.flows.configuration import configuration
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.properties import parse
from ha_core.flows.records import Checkpoint
from ha_core.flows.translation import Translated, Translation
from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import GroupDescription
from ha_core.kafka.groups import Committed
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId
from ha_core.mirror_client import FollowedTopic
from ha_core.mirror_maker.clusters import FlowCluster
from ha_core.mirror_maker.groups import GroupOffsets
from ha_core.mirror_maker.held_partitions import HeldPartitions
from ha_core.mirror_maker.producing import InternalProducer
from ha_core.mirror_maker.translating import ExactMaps
from ha_core.plan.facts.clusters import Partition

COPY = CopyPartition(CopyId("A->B:x", "A.t", 0), ("copies", 0), "t")
PLACE: Partition = ("A.t", 0)


def flow() -> FlowConfig:
    text = (
        "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
        "sync.group.offsets.enabled = true\n"
    )
    return configuration(parse(text, "mm2.properties"), "mm2.properties").flows[0]


class Source:
    """All groups have read up to offset 10."""

    def __init__(self, *groups: str) -> None:
        self.cluster, self.groups = FlowCluster("A", "a:1", "mm2.properties"), groups

    def list_groups(self) -> dict[str, str]:
        return dict.fromkeys(self.groups, "Stable")

    def group_offsets(self, names: Collection[str], **_: Any) -> dict[str, dict[Partition, Committed]]:
        return {name: {("t", 0): (10, "")} for name in names}


class Target:
    """Its groups are empty.

    :ivar offsets: committed offsets; a group without one has never read here.
    :ivar before: called before each commit reaches the coordinator.
    """

    def __init__(self, before: Callable[[str], None]) -> None:
        self.cluster, self.before = FlowCluster("B", "b:1", "mm2.properties"), before
        self.offsets: dict[str, int] = {}

    def log_starts(self, keys: Iterable[Partition], _: float) -> dict[Partition, int]:
        return dict.fromkeys(keys, 0)

    def list_groups(self) -> dict[str, str]:
        return {}

    def describe_groups(self, names: Collection[str], **_: Any) -> dict[str, GroupDescription]:
        return {name: GroupDescription(name, "Empty", "consumer", "", (), 1) for name in names}

    def group_offsets(self, names: Collection[str], **_: Any) -> dict[str, dict[Partition, Committed]]:
        return {name: {PLACE: (self.offsets[name], "")} if name in self.offsets else {} for name in names}

    def set_group_offsets(
        self, group: str, committed: Mapping[Partition, Committed], still_ours: Callable[[], None]
    ) -> None:
        self.before(group)
        still_ours()
        self.offsets[group] = committed[PLACE][0]


class Maps:
    def translate(self, wanted: Mapping[CopyPartition, Iterable[int]]) -> dict[tuple[CopyId, int], Translation]:
        return {(copy.id, at): Translated(at, "exact") for copy, offsets in wanted.items() for at in offsets}


def groups(source: Source, target: Target, clock: Callable[[], float]) -> GroupOffsets:
    return GroupOffsets(
        flow(),
        cast(Admin, source),
        cast(Admin, target),
        cast(InternalProducer, None),
        cast(ExactMaps, Maps()),
        lambda: {("t", 0): COPY},
        HeldPartitions(lambda: frozenset(range(16))),
        cast(FollowedTopic[Checkpoint], None),
        clock=clock,
    )


def test_a_group_that_reads_on_while_other_groups_are_committed_is_not_taken_back() -> None:
    """A worker once read the offsets of all groups first. With a thousand groups, those committed last had ten seconds
    to start in the target, read on and stop; then the worker took them back, and they read these records again."""
    now = 0.0

    def before(group: str) -> None:
        nonlocal now
        now += 1.0
        if group == "first":
            target.offsets["second"] = 50

    target = Target(before)
    target.offsets = {"first": 5, "second": 5}
    found = groups(Source("first", "second"), target, lambda: now)
    found.commit()
    assert target.offsets == {"first": 10, "second": 50}
    assert [(one.group, one.partition) for one in found.not_committed] == [("second", PLACE)]


def test_a_worker_that_stood_still_before_its_commit_takes_no_group_back() -> None:
    """After a failover, a worker that was stopped (SIGSTOP) between its look at the group and its commit went on, and
    committed over what the group had read in the target."""
    now = 0.0

    def before(group: str) -> None:
        nonlocal now
        now += 60.0
        target.offsets[group] = 50

    target = Target(before)
    target.offsets = {"billing": 5}
    found = groups(Source("billing"), target, lambda: now)
    found.commit()
    assert target.offsets == {"billing": 50}
    assert "60 s ago" in found.not_committed[0].reason
    target.before = lambda _: None
    target.offsets = {"billing": 7}
    found.commit()
    assert target.offsets == {"billing": 10}
    assert found.not_committed == []
