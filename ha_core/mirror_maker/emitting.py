"""Writes heartbeats and offset syncs, by which MirrorMaker 2's tools see a flow."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ha_core.flows.configuration import FlowConfig
from ha_core.flows.offset_syncs import SyncEmission
from ha_core.flows.policies import HEARTBEATS
from ha_core.flows.records import Heartbeat, OffsetSync
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId
from ha_core.mirror_maker.producing import InternalProducer, InternalRecord
from ha_core.model import Run

SYNC_INTERVAL_S = 5.0
"""Seconds after which the newest record of a partition gets a sync at the latest. MirrorMaker 2 uses
`offset.flush.interval.ms`, a minute by default."""
Runs = Callable[[], Mapping[CopyId, tuple[Run, ...]]]


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
    :ivar producer: writes to the cluster that has the offset syncs topic.
    :ivar runs: the newest runs of each of this worker's copies.
    :ivar emitted: number of syncs written.
    """

    flow: FlowConfig
    producer: InternalProducer
    copies: Callable[[], Mapping[CopyId, CopyPartition]]
    runs: Runs
    clock: Callable[[], float] = time.monotonic
    emitted: int = 0
    _emissions: dict[CopyId, SyncEmission] = field(default_factory=dict)
    _interval_at: float = 0.0

    def emit(self) -> None:
        """Write the syncs that are due. After a failed write every partition begins with a sync again: if the write had
        succeeded after all, the repeated syncs change nothing."""
        now = self.clock()
        over = now >= self._interval_at
        if over:
            self._interval_at = now + SYNC_INTERVAL_S
        copies, syncs = self.copies(), list[OffsetSync]()
        for gone in self._emissions.keys() - copies.keys():
            del self._emissions[gone]
        for id_, runs in self.runs().items():
            if (copy := copies.get(id_)) is None:
                continue
            emission = self._emissions.get(id_)
            if emission is None:
                emission = self._emissions[id_] = SyncEmission(*copy.source_key, self.flow.max_lag)
            syncs += emission.due(runs, over)
        if not syncs:
            return
        try:
            self.producer.write(InternalRecord(self.flow.syncs_topic, sync.key, sync.value) for sync in syncs)
        except Exception:
            self._emissions.clear()
            raise
        self.emitted += len(syncs)
