"""Asks the source for what fetches do not show: how new the rest of a lagging partition is, and the ends of partitions
that are not fetched."""

from collections.abc import Mapping
from functools import partial

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying.background import BackgroundWork, Outcome
from ha_core.kafka.copying.source_lanes import SourceLanes
from ha_core.kafka.copying.states import CopyLane
from ha_core.kafka.copying.statuses import SourceEnds
from ha_core.kafka.facts import LogEnds
from ha_core.model.isolation import Isolation
from ha_core.plan.facts.clusters import Partition

WATCH_EVERY_S = 2.0


class SourceWatch:
    def __init__(self, source: Admin, beside: BackgroundWork, lanes: SourceLanes, isolation: Isolation) -> None:
        self._source, self._beside, self._lanes, self._isolation = source, beside, lanes, isolation
        self._asking_ends = False

    def ask(self, now: float) -> None:
        """Call it each `WATCH_EVERY_S`."""
        self._ask_times()
        self._ask_ends(now)

    def ends(self, last_stable: int, high_watermark: int) -> SourceEnds:
        return SourceEnds(self._isolation.end(last_stable, high_watermark), high_watermark)

    def _ask_times(self) -> None:
        """Asks for the newest times of lagging partitions: the last fetch does not show how new the rest is."""
        by_node: dict[int, dict[Partition, CopyLane]] = {}
        for node, its in self._lanes.busy.items():
            if its:
                by_node[node] = {lane.source_key: lane for lane in its}
        for node, lanes in by_node.items():
            epochs = {key: lane.leader.epoch for key, lane in lanes.items() if lane.leader is not None}
            self._beside.start(
                partial(self._source.newest_times, node, epochs, WATCH_EVERY_S), partial(_received_times, lanes)
            )

    def _ask_ends(self, now: float) -> None:
        """Asks for the ends of partitions that a limit or the target keeps from fetching. Their lag grows meanwhile."""
        unseen = [lane for lane in self._lanes if lane.leader is not None and now - lane.heard_at >= WATCH_EVERY_S]
        if unseen and not self._asking_ends:
            self._asking_ends = True
            lanes = {lane.source_key: lane for lane in unseen}
            self._beside.start(
                partial(self._source.ends, lanes.keys(), WATCH_EVERY_S), partial(self._received_ends, lanes, now)
            )

    def _received_ends(
        self, lanes: Mapping[Partition, CopyLane], asked_at: float, found: Outcome[dict[Partition, LogEnds]]
    ) -> None:
        self._asking_ends = False
        if not isinstance(found, dict):
            return  # the next round asks again soon
        for key, ends in found.items():
            lane = lanes[key]
            if lane in self._lanes and lane.heard_at < asked_at:
                lane.source_start = ends.start
                found_ends = self.ends(ends.last_stable, ends.high_watermark)
                known = -1 if lane.ends is None else lane.ends.copyable
                lane.hear(found_ends._replace(copyable=max(found_ends.copyable, known)), asked_at)
                self._lanes.file(lane)


def _received_times(lanes: Mapping[Partition, CopyLane], found: Outcome[dict[Partition, int]]) -> None:
    if isinstance(found, dict):  # else the next round asks again soon
        for key, time_ms in found.items():
            lanes[key].newest_ms = max(time_ms, lanes[key].newest_ms)
