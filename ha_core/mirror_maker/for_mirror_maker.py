"""Writes for a real MirrorMaker 2 how far a flow has copied, so that it can replace Switchyard at any time."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from ha_core.flows.connect_state import ConnectState
from ha_core.kafka.admin import Admin
from ha_core.mirror_maker.handover import (
    OffsetsProducer,
    ensure_offsets_topic,
    require_stopped,
    write_source_offsets,
)
from ha_core.mirror_maker.held_partitions import HeldPartitions
from ha_core.plan.facts.clusters import Partition

EVERY_S = 60.0
"""Connect's default of `offset.flush.interval.ms`."""


@dataclass
class OffsetsForMirrorMaker:
    """
    :ivar reached: partition of the source → source offset below which its copy is complete.
    :ivar held: the partitions of this worker: one that stood still may have older offsets than the next one has
        written.
    """

    source_alias: str
    target: Admin
    producer: OffsetsProducer
    reached: Callable[[], Mapping[Partition, int]]
    held: HeldPartitions
    _written: dict[Partition, int] = field(default_factory=dict)

    def write(self) -> None:
        """Write the offsets that have changed since the last write.

        :raises HandoverError: the target does not acknowledge them, or MirrorMaker 2 runs and writes its own.
        """
        self._write({key: offset for key, offset in self.reached().items() if self._written.get(key) != offset})

    def write_last(self) -> Collection[Partition]:
        """All of them, after the copier has ended. An unchanged one may have been overwritten by a worker that had it
        before, and that stood still.

        :return: their partitions; MirrorMaker 2 knows no exact offsets of others.
        :raises HandoverError: as `write`.
        """
        return self._write(self.reached())

    def _write(self, due: Mapping[Partition, int]) -> Collection[Partition]:
        if not due:
            return ()
        state = ConnectState.dedicated(self.source_alias)
        require_stopped(self.target, state)
        ensure_offsets_topic(self.target, state)
        ours = {key: offset for key, offset in due.items() if self.held.has(key)}
        write_source_offsets(self.producer, state, ours)
        self._written |= ours
        return ours
