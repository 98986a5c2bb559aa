"""Writes heartbeats and offset syncs, by which MirrorMaker 2's tools see a flow."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.offset_syncs import SyncEmission
from ha_core.flows.policies import HEARTBEATS
from ha_core.flows.records import Heartbeat, OffsetSync
from ha_core.kafka.copying import CopyCoverage
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId
from ha_core.mirror_client import FollowedTopic
from ha_core.mirror_maker.held_partitions import HeldPartitions
from ha_core.mirror_maker.producing import InternalProducer, InternalRecord
from ha_core.model import Run

SYNC_INTERVAL_S = 5.0
"""The newest record of a partition has a sync after this time at the latest. MirrorMaker 2 takes its `offset.flush.
interval.ms`, a minute."""
Coverage = Callable[[], Mapping[CopyId, CopyCoverage]]


@dataclass
class Heartbeats:
    """:ivar leads: whether this worker writes the flow's heartbeats."""

    flow: FlowConfig
    producer: InternalProducer
    leads: Callable[[], bool]

    def emit(self) -> None:
        if self.leads():
            heartbeat = Heartbeat(self.flow.source, self.flow.target, int(time.time() * 1000))
            self.producer.write([InternalRecord(HEARTBEATS, heartbeat.key, heartbeat.value)])


@dataclass
class OffsetSyncs:
    """
    :ivar producer: to the cluster that has the topic.
    :ivar coverage: how far each copy of this worker is, with its newest runs; the same object until that is reported
        anew.
    :ivar held: the partitions of this worker. One that stood still would write older syncs than the next worker has
        written, and readers would discard all that they know.
    :ivar written: the topic of syncs.
    :ivar emitted: number of syncs written.
    """

    flow: FlowConfig
    producer: InternalProducer
    copies: Callable[[], Mapping[CopyId, CopyPartition]]
    coverage: Coverage
    held: HeldPartitions
    written: FollowedTopic[OffsetSync]
    clock: Callable[[], float] = time.monotonic
    emitted: int = 0
    _emissions: dict[CopyId, SyncEmission] = field(default_factory=dict)
    _copies: Mapping[CopyId, CopyPartition] = field(default_factory=dict)
    _settled: dict[CopyId, tuple[Run, ...]] = field(default_factory=dict)
    """Runs of which everything is emitted. Idle copies report the same object again."""
    _looked_at: Mapping[CopyId, CopyCoverage] | None = None
    _interval_at: float = 0.0

    def emit(self) -> None:
        """A partition that has come to this worker, or whose write failed and may have been made, goes on after the
        last sync in the topic."""
        now = self.clock()
        over = now >= self._interval_at
        if over:
            self._interval_at = now + SYNC_INTERVAL_S
        copies, syncs = self.copies(), list[OffsetSync]()
        if copies is not self._copies:
            self._copies = copies
            for gone in self._emissions.keys() - copies.keys():
                self._forget(gone)
        coverage = self.coverage()
        if coverage is self._looked_at and not over:
            return
        self._begin(
            {
                id_: known.runs
                for id_, known in coverage.items()
                if known.runs and id_ in copies and id_ not in self._emissions
            },
            copies,
        )
        for id_, known in coverage.items():
            runs = known.runs
            if not runs or id_ not in copies or runs is self._settled.get(id_):
                continue
            emission = self._emissions[id_]
            its = emission.due(runs, over)
            if its and not self.held.has(copies[id_].source_key):
                self._forget(id_)
                continue
            syncs += its
            if over:
                self._settled[id_] = runs
        self._looked_at = coverage
        if not syncs:
            return
        try:
            self.producer.write(InternalRecord(self.flow.syncs_topic, sync.key, sync.value) for sync in syncs)
        except Exception:
            self._emissions.clear()
            self._settled.clear()
            self._looked_at = None
            raise
        self.emitted += len(syncs)

    def _forget(self, id_: CopyId) -> None:
        """The copy's syncs go on after the last one in the topic, if they come back to this worker."""
        del self._emissions[id_]
        self._settled.pop(id_, None)

    def _begin(self, new: Mapping[CopyId, tuple[Run, ...]], copies: Mapping[CopyId, CopyPartition]) -> None:
        if not new:
            return
        newest = self.written.read()
        for id_, runs in new.items():
            key = copies[id_].source_key
            emission = self._emissions[id_] = SyncEmission(*key, self.flow.max_lag)
            if (last := newest.get(OffsetSync(*key, 0, 0).key)) is not None:
                emission.resume(last, runs)
