"""Finds the leaders of partitions in the source, and compares the last copied record before it goes on there: a source
that was away may come back with another log (`last_records`)."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying.background import BackgroundWork, Outcome
from ha_core.kafka.copying.source_lanes import SourceLanes
from ha_core.kafka.copying.states import CopyLane, pause_s
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.last_records import COMPARED_AT_ONCE, rewritten
from ha_core.kafka.offsets import Leadership
from ha_core.kafka.takeover import check_id
from ha_core.mirror.progress import CopyDamagedError
from ha_core.plan.facts.clusters import Partition

_LOCATE_S = 5.0
"""The broker that is asked for leaders may be the one that hangs; the next request goes to another."""
_MISSING_S = 10.0
"""A broker that has just started does not know every topic yet."""


_AWAY = "its last copied record cannot be compared: the leader in source or target is away"
_Brokers = tuple[int, int]
"""Leaders in source and target."""


class Led(NamedTuple):
    lane: CopyLane
    leader: Leadership


class SourceLeaders:
    """
    :param target: None: no record is compared.
    :param stop: stops a partition for good, for a reason.
    :param answered: called after each answer.
    """

    def __init__(
        self,
        source: Admin,
        target: Admin | None,
        beside: BackgroundWork,
        lanes: SourceLanes,
        stop: Callable[[CopyLane, str], None],
        clock: Callable[[], float],
        answered: Callable[[], None],
    ) -> None:
        self._source, self._target, self._beside, self._lanes = source, target, beside, lanes
        self._stop, self._clock, self._answered = stop, clock, answered
        self._locating = False
        self._proving = set[CopyLane]()
        self._unproven: dict[_Brokers, deque[Led]] = {}
        """Partitions whose comparison has to wait for that of others of the same brokers."""

    def lost(self, lane: CopyLane, why: str) -> None:
        """The partition is led by another broker now, or by none: search its leader, later with each failure."""
        lane.leader, lane.proven = None, False
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
        lanes = {lane.source_key: lane for lane in self._lanes.seeking if lane.look_at <= now and self._is_ready(lane)}
        if not lanes:
            return
        self._locating = True
        self._beside.start(partial(self._source.leaderships, lanes.keys(), _LOCATE_S), partial(self._located, lanes))

    def _located(self, lanes: Mapping[Partition, CopyLane], found: Outcome[dict[Partition, Leadership]]) -> None:
        self._locating = False
        self._answered()
        unproven: dict[_Brokers, list[Led]] = {}
        for key, lane in lanes.items():
            if lane not in self._lanes or lane.leader is not None:
                continue
            if not isinstance(found, dict):
                self.lost(lane, str(found))
            elif key not in found:
                self._missing(lane)
            elif self._led(lane, found[key]):
                unproven.setdefault((found[key].node, lane.target_node), []).append(Led(lane, found[key]))
        for brokers, led in unproven.items():  # a broker that hangs delays its own partitions only
            self._prove(brokers, led)

    def _is_ready(self, lane: CopyLane) -> bool:
        """Records that were read before the leader was lost are appended first: the last of them is compared."""
        return lane not in self._proving and (lane.proven or lane.partition.idle)

    def _led(self, lane: CopyLane, leader: Leadership) -> bool:
        """True if its last copied record has to be compared first."""
        lane.missing_since = None
        try:
            check_id(lane.source_id, leader.topic_id, lane.copy, lane.source_key, self._source.cluster.name)
        except CopyDamagedError as error:
            self._stop(lane, str(error))
            return False
        if leader.node < 0:
            topic, partition = lane.source_key
            self.lost(lane, f"{topic}-{partition} of {self._source.cluster.name}: {leader.trouble}")
        elif self._target is not None and not lane.proven and lane.last_copied is not None:
            return True
        else:
            self._goes_on(lane, leader)
        return False

    def _goes_on(self, lane: CopyLane, leader: Leadership) -> None:
        lane.proven, lane.leader = True, leader
        self._lanes.file(lane)

    def _prove(self, brokers: _Brokers, led: Sequence[Led]) -> None:
        self._proving.update(lane for lane, _ in led)
        if brokers in self._unproven:  # a comparison runs, and `_proven` goes on with these
            self._unproven[brokers] += led
        else:
            self._unproven[brokers] = deque(led)
            self._prove_next(brokers)

    def _prove_next(self, brokers: _Brokers) -> None:
        assert self._target is not None
        waiting, some = self._unproven[brokers], list[Led]()
        while waiting and len(some) < COMPARED_AT_ONCE:
            led = waiting.popleft()
            if led.lane in self._lanes:
                some.append(led)
            else:
                self._proving.discard(led.lane)
        if not some:
            del self._unproven[brokers]
            return
        wanted = [last for lane, _ in some if (last := lane.last_copied) is not None]
        self._beside.start(partial(rewritten, self._source, self._target, wanted), partial(self._proven, brokers, some))

    def _proven(
        self, brokers: _Brokers, some: Sequence[Led], found: Outcome[dict[Partition, bool | KafkaAdminError]]
    ) -> None:
        self._answered()
        told: Mapping[Partition, object] = found if isinstance(found, dict) else {}
        if not any(isinstance(one, bool) for one in told.values()):
            # The others of these brokers would wait as long, and get no answer either.
            some = [*some, *self._unproven[brokers]]
            self._unproven[brokers].clear()
        self._proving.difference_update(lane for lane, _ in some)
        for lane, leader in some:
            if lane not in self._lanes or lane.leader is not None:
                continue
            differs = told.get(lane.source_key, _AWAY if isinstance(found, dict) else found)
            if differs is False:
                self._goes_on(lane, leader)
            elif differs is True:
                self._stop(lane, _other_log(lane, self._source.cluster.name))
            else:
                self.lost(lane, str(differs))
        self._prove_next(brokers)

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


def _other_log(lane: CopyLane, cluster: str) -> str:
    topic, partition = lane.source_key
    last = lane.last_copied
    assert last is not None
    kept = "Save what only the copy holds, then "
    if not lane.copy.source_topic:
        kept = (
            "Where the copy is right, a forced switch keeps it "
            f"(`switchyard mask {cluster}` first if {cluster} answers). Otherwise "
        )
    return (
        f"source and copy differ: {topic}-{partition} of {cluster} has another record at offset {last.source} than the "
        "copy. The source lost its last records and was written to since (a broker lost power, its disk was restored), "
        f"or the copy was changed. {kept}{lane.copy.anew}"
    )
