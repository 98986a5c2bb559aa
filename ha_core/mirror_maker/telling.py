"""Logs which partitions are not copied, and why, for workers without ZooKeeper and metrics."""

import logging
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field

from ha_core.kafka.copying import ELSEWHERE, TAKEN_OVER, CopyStatus
from ha_core.mirror.notes import CopyId

log = logging.getLogger(__name__)
_PATIENCE_S = 15.0
"""Seconds for which a partition may stand still before it is logged: takeovers and leader changes take less."""
_MOST = 20


@dataclass
class StandstillLog:
    """Logs the partitions of one flow that are not copied."""

    flow: str
    clock: Callable[[], float] = time.monotonic
    _since: dict[CopyId, float] = field(default_factory=dict)
    _told: dict[CopyId, str] = field(default_factory=dict)

    def look(self, standing: Mapping[CopyId, CopyStatus], copies: Container[CopyId]) -> None:
        """Each reason is told once, at most so many at a look; partitions that go on are counted.

        :param standing: partitions that are not being copied.
        :param copies: all partitions of this worker.
        """
        now = self.clock()
        still = {id_: status.reason for id_, status in standing.items() if status.reason not in {TAKEN_OVER, ELSEWHERE}}
        self._since = {id_: self._since.get(id_, now) for id_ in still}
        due = [
            id_
            for id_, since in self._since.items()
            if now - since >= _PATIENCE_S and self._told.get(id_) != still[id_]
        ]
        for id_ in due[:_MOST]:
            log.warning("%s: %s-%d is not copied: %s", self.flow, id_.topic, id_.partition, still[id_])
        if len(due) > _MOST:
            log.warning("%s: %d more partitions are not copied", self.flow, len(due) - _MOST)
        self._told |= {id_: still[id_] for id_ in due}
        again = [id_ for id_ in self._told if id_ in copies and id_ not in standing]
        if again:
            log.info("%s: %d partitions are copied again", self.flow, len(again))
        self._told = {id_: why for id_, why in self._told.items() if id_ in still}
