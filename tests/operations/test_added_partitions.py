"""A topic that gets partitions while it is being moved leaves none of them in the origin."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import LogEnds
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import StepFailedError
from ha_core.operations.move.fenced_reads import FencedReads
from ha_core.plan.facts.clusters import Partition, ProducerFacts

KNOWN = (("orders", 0), ("orders", 1))


@dataclass
class Quiet:
    """A cluster whose logs stand still at 10."""

    partitions: int = len(KNOWN)

    def ends(self, partitions: Collection[Partition], timeout_s: float | None = None) -> dict[Partition, LogEnds]:
        return dict.fromkeys(partitions, LogEnds(0, 10, 10, 10, leader=1, leader_epoch=1))

    def producers(
        self, partitions: Collection[Partition], timeout_s: float | None = None
    ) -> dict[Partition, tuple[ProducerFacts, ...]]:
        return dict.fromkeys(partitions, ())

    def partition_counts(self, names: Collection[str]) -> dict[str, int]:
        return dict.fromkeys(names, self.partitions)


def fenced_reads(environment: Environment, origin: Quiet) -> FencedReads:
    return FencedReads(environment, cast(Admin, origin), cast(Admin, Quiet()), KNOWN, (), timeout_s=1)


def test_reading_ends_fails_when_a_topic_got_partitions_before_its_fence(environment: Environment) -> None:
    # Given a topic of two partitions, whose third one was added and written since the move looked at it
    # When the ends are read under the fence
    # Then there is no cut: the target would be the writer of the third, too, and its records would be unreachable
    with pytest.raises(StepFailedError, match=r"orders has 3 partitions .*, 2 when the move began"):
        fenced_reads(environment, Quiet(3)).read()


def test_ends_are_read_of_a_topic_whose_partition_count_is_unchanged(environment: Environment) -> None:
    assert fenced_reads(environment, Quiet()).read().ends.keys() == set(KNOWN)
