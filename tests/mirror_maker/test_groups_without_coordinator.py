"""Groups of a flow whose coordinators are away: the others have their offsets all the same. Without a cluster."""

from collections.abc import Collection
from typing import Any, cast

import pytest

from ha_core.flows.configuration import configuration
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.groups import SkippedGroup
from ha_core.flows.properties import parse
from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import NotReadyError
from ha_core.kafka.groups import Committed
from ha_core.mirror_maker.clusters import FlowCluster
from ha_core.mirror_maker.source_groups import SourceGroups
from ha_core.plan.facts.clusters import Partition


def flow() -> FlowConfig:
    text = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
    return configuration(parse(text, "mm2.properties"), "mm2.properties").flows[0]


class Source:
    """Stands for an admin.

    :ivar away: groups that have no coordinator.
    """

    def __init__(self, **groups: int) -> None:
        self.cluster = FlowCluster("A", "a:1", "mm2.properties")
        self.groups, self.away = groups, set[str]()

    def list_groups(self) -> dict[str, str]:
        return dict.fromkeys(self.groups, "Stable")

    def group_offsets(
        self, names: Collection[str], partial: bool = False, **_: Any
    ) -> dict[str, dict[Partition, Committed]]:
        if self.away and not partial:
            raise NotReadyError("A", "a group has no coordinator.")
        return {name: {("t", 0): (self.groups[name], "")} for name in names if name not in self.away}


def test_a_group_without_coordinator_is_named_and_the_others_have_their_offsets() -> None:
    source = Source(billing=5, stranded=7)
    groups = SourceGroups(flow(), cast(Admin, source))
    source.away = {"stranded"}
    for _ in ("a look for groups", "a round between two looks"):
        assert groups.committed() == {"billing": {("t", 0): (5, "")}}
        assert groups.skipped == [SkippedGroup("stranded", "its coordinator in A does not answer")]
    source.away = set()
    assert groups.committed() == {"billing": {("t", 0): (5, "")}, "stranded": {("t", 0): (7, "")}}
    assert groups.skipped == []
    source.away = {"billing", "stranded"}
    with pytest.raises(NotReadyError, match="no coordinator of a group answers"):
        groups.committed()
