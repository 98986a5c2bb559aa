"""Offset syncs of partitions that another worker owns by now. Without a cluster."""

from collections.abc import Iterable
from typing import cast

from ha_core.flows.configuration import configuration
from ha_core.flows.properties import parse
from ha_core.flows.records import OffsetSync
from ha_core.flows.sharing import SHARES
from ha_core.kafka.copying import CopyCoverage
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId
from ha_core.mirror_client import FollowedTopic
from ha_core.mirror_maker.emitting import OffsetSyncs
from ha_core.mirror_maker.held_partitions import HeldPartitions
from ha_core.mirror_maker.producing import InternalProducer, InternalRecord
from ha_core.model import Run

COPY = CopyPartition(CopyId("A->B:x", "A.t", 0), ("copies", 0), "t")
TEXT = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


class SyncsTopic:
    """Stands for the topic, its reader and its writer."""

    def __init__(self) -> None:
        self.syncs: list[OffsetSync] = []

    def read(self) -> dict[bytes, OffsetSync]:
        return {sync.key: sync for sync in self.syncs}

    def write(self, records: Iterable[InternalRecord]) -> None:
        self.syncs += [OffsetSync.decode(record.key, record.value) for record in records]


def test_a_worker_that_lost_a_partition_while_it_stood_still_writes_no_sync_of_it() -> None:
    """The next worker had written newer ones. A lower sync tells readers that the source began anew: they discarded all
    that they knew, so groups further back had no translation any more."""
    topic, now, shares = SyncsTopic(), 0.0, frozenset(range(SHARES))
    runs: tuple[Run, ...] = (Run(0, 1, 100),)
    syncs = OffsetSyncs(
        configuration(parse(TEXT, "mm2.properties"), "mm2.properties").flows[0],
        cast(InternalProducer, topic),
        lambda: {COPY.id: COPY},
        lambda: {COPY.id: CopyCoverage(runs[-1].after, True, runs)},
        HeldPartitions(lambda: shares, lambda: now),
        cast(FollowedTopic[OffsetSync], topic),
        lambda: now,
    )
    syncs.emit()
    assert (topic.syncs[-1].upstream_offset, topic.syncs[-1].downstream_offset) == (99, 100)
    # It stood still for a minute, with 50 more records; the next worker has copied 900
    now, shares, runs = 60.0, frozenset(), (Run(0, 1, 150),)
    topic.syncs.append(OffsetSync("t", 0, 999, 1001))
    syncs.emit()
    assert topic.syncs[-1].upstream_offset == 999
    # The partition comes back to it
    now, shares, runs = 120.0, frozenset(range(SHARES)), (Run(0, 1, 150), Run(150, 152, 900))
    syncs.emit()
    assert [sync.upstream_offset for sync in topic.syncs[-2:]] == [999, 1049]
