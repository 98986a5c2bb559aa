"""Partitions of a copy loop as they are filed by what they need of the source."""

from ha_core.kafka.copying.source_lanes import SourceLanes
from ha_core.kafka.copying.states import CopyLane
from ha_core.kafka.offsets import Leadership
from ha_core.mirror.lag import LagTracker
from ha_core.mirror.pace import RateMeter
from ha_core.mirror.partition import PartitionCopy
from ha_core.mirror.progress import Progress, Writer
from tests.kafka.mirroring import copy_of


def test_a_partition_that_left_while_it_was_fetched_stays_away() -> None:
    """The target had refused the first note of a partition, so the copier left it. Then the answer of its fetch came,
    with nothing that was taken: the partition counted as one that holds records, and the loop ended with a KeyError,
    for all partitions of all flows of the process."""
    copy = PartitionCopy(Progress(Writer(900, 3), 0, 0))
    lane = CopyLane(copy_of("orders"), copy, 0.0, RateMeter(0.0), LagTracker(), 0, 0, 0)
    lane.leader = Leadership(0, 1, "ab" * 16)
    lanes = SourceLanes()
    lanes.add(lane)
    assert list(lanes.busy[0]) == [lane]
    lanes.drop(lane)
    lanes.served(lane)
    assert lanes.held().in_all == 0
    lanes.pause_holding(0)
    assert lane not in lanes
    assert list(lanes.busy[0]) == []
