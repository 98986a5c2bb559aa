"""Finds the leaders of partitions in the source."""

from collections.abc import Callable, Mapping
from functools import partial

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying.background import BackgroundWork, Outcome
from ha_core.kafka.copying.source_lanes import SourceLanes
from ha_core.kafka.copying.states import CopyLane, pause_s
from ha_core.kafka.offsets import Leadership
from ha_core.kafka.takeover import check_id
from ha_core.mirror.progress import CopyDamagedError
from ha_core.plan.facts.clusters import Partition

_LOCATE_S = 5.0
"""The broker that is asked for leaders may be the one that hangs; the next request goes to another."""
_MISSING_S = 10.0
"""A broker that has just started does not know every topic yet."""


class SourceLeaders:
    """
    :param stop: stops a partition for good, for a reason.
    :param answered: called after each answer.
    """

    def __init__(
        self,
        source: Admin,
        beside: BackgroundWork,
        lanes: SourceLanes,
        stop: Callable[[CopyLane, str], None],
        clock: Callable[[], float],
        answered: Callable[[], None],
    ) -> None:
        self._source, self._beside, self._lanes = source, beside, lanes
        self._stop, self._clock, self._answered = stop, clock, answered
        self._locating = False

    def lost(self, lane: CopyLane, why: str) -> None:
        """The partition is led by another broker now, or by none: search its leader, later with each failure."""
        lane.leader = None
        lane.look_at = self._clock() + pause_s(lane.missed)
        lane.missed += 1
        if lane.missed > 1:
            lane.trouble = why
        if lane in self._lanes:
            self._lanes.file(lane)

    def locate(self, now: float) -> None:
        """Ask for the leaders of all partitions whose search is due, by one request at a time."""
        if self._locating or not self._lanes.seeking:
            return
        lanes = {lane.source_key: lane for lane in self._lanes.seeking if lane.look_at <= now}
        if not lanes:
            return
        self._locating = True
        self._beside.start(partial(self._source.leaderships, lanes.keys(), _LOCATE_S), partial(self._located, lanes))

    def _located(self, lanes: Mapping[Partition, CopyLane], found: Outcome[dict[Partition, Leadership]]) -> None:
        self._locating = False
        self._answered()
        for key, lane in lanes.items():
            if lane not in self._lanes or lane.leader is not None:
                continue
            if not isinstance(found, dict):
                self.lost(lane, str(found))
            elif key in found:
                self._led(lane, found[key])
            else:
                self._missing(lane)

    def _led(self, lane: CopyLane, leader: Leadership) -> None:
        lane.missing_since = None
        try:
            check_id(lane.source_id, leader.topic_id, lane.copy, lane.source_key, self._source.cluster.name)
        except CopyDamagedError as error:
            self._stop(lane, str(error))
            return
        if leader.node < 0:
            topic, partition = lane.source_key
            self.lost(lane, f"{topic}-{partition} of {self._source.cluster.name}: {leader.trouble}")
        else:
            lane.leader = leader
            self._lanes.file(lane)

    def _missing(self, lane: CopyLane) -> None:
        now = self._clock()
        if lane.missing_since is None:
            lane.missing_since = now
        topic, partition = lane.source_key
        gone = f"topic {topic} of {self._source.cluster.name} has no partition {partition}, or does not exist"
        if now - lane.missing_since < _MISSING_S:
            self.lost(lane, gone)
        else:
            self._stop(lane, f"{gone}: {lane.copy.without_topic}")
