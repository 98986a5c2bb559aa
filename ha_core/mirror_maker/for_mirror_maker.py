"""Writes for a real MirrorMaker 2 how far a flow has copied, so that it can replace Switchyard at any time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ha_core.flows.connect_state import ConnectState
from ha_core.kafka.admin import Admin
from ha_core.mirror_maker.handover import (
    OffsetsProducer,
    ensure_offsets_topic,
    require_stopped,
    write_source_offsets,
)
from ha_core.plan.facts.clusters import Partition

EVERY_S = 60.0
"""Connect's default of `offset.flush.interval.ms`."""


@dataclass
class OffsetsForMirrorMaker:
    """
    :ivar reached: partition of the source → source offset below which its copy is complete.
    """

    source_alias: str
    target: Admin
    producer: OffsetsProducer
    reached: Callable[[], Mapping[Partition, int]]
    _written: dict[Partition, int] = field(default_factory=dict)
    _there: bool = False

    def write(self) -> None:
        """Write the offsets that have changed since the last write.

        :raises HandoverError: the target does not acknowledge them, or MirrorMaker 2 runs and writes its own.
        """
        state = ConnectState.dedicated(self.source_alias)
        changed = {key: offset for key, offset in self.reached().items() if self._written.get(key) != offset}
        if not changed:
            return
        require_stopped(self.target, state)
        if not self._there:
            ensure_offsets_topic(self.target, state)
            self._there = True
        write_source_offsets(self.producer, state, changed)
        self._written |= changed
