"""Writes heartbeats and offset syncs, the signs by which MirrorMaker 2's tools see a flow."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ha_core.flows.configuration import FlowConfig
from ha_core.flows.offset_syncs import SyncEmission
from ha_core.flows.policies import HEARTBEATS
from ha_core.flows.records import Heartbeat, OffsetSync
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId
from ha_core.mirror_client import FollowedTopic
from ha_core.mirror_maker.producing import InternalProducer, InternalRecord
from ha_core.model import Run

SYNC_INTERVAL_S = 5.0
"""The newest record of a partition has a sync after this time at the latest. MirrorMaker 2 takes its `offset.flush.
interval.ms`, a minute."""
Runs = Callable[[], Mapping[CopyId, tuple[Run, ...]]]


@dataclass
class Heartbeats:
    """:ivar leads: True if this worker writes the flow's heartbeats."""

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
    :ivar runs: newest runs of each copy of this worker.
    :ivar written: the topic of syncs.
    :ivar emitted: number of syncs written.
    """

    flow: FlowConfig
    producer: InternalProducer
    copies: Callable[[], Mapping[CopyId, CopyPartition]]
    runs: Runs
    written: FollowedTopic[OffsetSync]
    clock: Callable[[], float] = time.monotonic
    emitted: int = 0
    _emissions: dict[CopyId, SyncEmission] = field(default_factory=dict)
    _interval_at: float = 0.0

    def emit(self) -> None:
        """A partition that has come to this worker, or whose write failed and may have been made, goes on after the
        last sync in the topic."""
        now = self.clock()
        over = now >= self._interval_at
        if over:
            self._interval_at = now + SYNC_INTERVAL_S
        copies, syncs = self.copies(), list[OffsetSync]()
        for gone in self._emissions.keys() - copies.keys():
            del self._emissions[gone]
        all_runs = {id_: runs for id_, runs in self.runs().items() if id_ in copies and runs}
        self._begin({id_: runs for id_, runs in all_runs.items() if id_ not in self._emissions}, copies)
        for id_, runs in all_runs.items():
            emission = self._emissions[id_]
            syncs += emission.due(runs, over)
        if not syncs:
            return
        try:
            self.producer.write(InternalRecord(self.flow.syncs_topic, sync.key, sync.value) for sync in syncs)
        except Exception:
            self._emissions.clear()
            raise
        self.emitted += len(syncs)

    def _begin(self, new: Mapping[CopyId, tuple[Run, ...]], copies: Mapping[CopyId, CopyPartition]) -> None:
        if not new:
            return
        newest = self.written.read()
        for id_, runs in new.items():
            key = copies[id_].source_key
            emission = self._emissions[id_] = SyncEmission(*key, self.flow.max_lag)
            if (last := newest.get(OffsetSync(*key, 0, 0).key)) is not None:
                emission.resume(last, runs)
