"""Copies partitions from one cluster to another until stopped: one loop in one thread that never blocks.

Each partition is in one state (`states`). A waiting one is taken over (`takeovers`) and becomes a lane: it is fetched
from its leader in the source (`fetching`), its intents go to the leader of its partition of the copy log, and batches
with an acknowledged intent are appended at its leader in the target (`appending`).

After any failure at the target the partition is taken over again. Nothing is ever re-sent from memory, so the memory
of this process need not be right. A failure at the source affects only its own partitions: their leader is searched
again, and the fetch repeated.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from queue import Empty, SimpleQueue

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying.appending import Appending
from ha_core.kafka.copying.background import BackgroundWork, Outcome
from ha_core.kafka.copying.connections import Connections, ConnectionUse, Line
from ha_core.kafka.copying.fetching import BUFFER_BYTES, Fetching
from ha_core.kafka.copying.filed_states import FiledStates
from ha_core.kafka.copying.standstill import Standstill
from ha_core.kafka.copying.states import (
    ELSEWHERE,
    TAKEN_OVER,
    AwaitingTakeover,
    CopyLane,
    Reached,
    RefusedByCluster,
    StoppedCopy,
    TakingOver,
    retry_s,
)
from ha_core.kafka.copying.statuses import CopyCoverage, CopyStatus, CopyTotals
from ha_core.kafka.copying.takeovers import NotOursError, StillOurs, TakenOverPartition, Takeovers, all_ours
from ha_core.kafka.errors import TakenOverError, TopicMissingError
from ha_core.kafka.stream import BufferPool
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.lag import LagTracker
from ha_core.mirror.measures import CopyMeasures
from ha_core.mirror.notes import CopyId
from ha_core.mirror.pace import LinkedTopic, RateMeter, Throttle
from ha_core.mirror.partition import PartitionCopy
from ha_core.mirror.progress import CopyDamagedError, ForeignRecordsError, Progress
from ha_core.model.isolation import Isolation
from ha_core.plan.facts.clusters import Partition

_PAUSE_S = 0.05
_THREADS = 24
_MISSING_TRIES = 8
"""About 13 s: a broker that has just started does not know every topic yet."""
KNOWN_EVERY_S = 0.5
"""Half a second more per thousand partitions, because each costs some microseconds."""
MAX_RUNS = 200
"""Runs reported per partition; a source with small transactions has one run for each."""
MAX_RUNS_IN_ALL = 20_000
_RENEW_LOOK_S = 10.0
RENEW_S = 6 * 3600.0
"""Age after which a lane takes its own copy over: brokers forget an unused fence, per partition after a day."""


class Copying:
    """The partitions of one task. `statuses`, `add`, `drop`, `limit`, `hold` and `stop` may be called from any
    thread."""

    def __init__(
        self,
        source: Admin,
        target: Admin,
        copies: Iterable[CopyPartition] = (),
        starts: Mapping[Partition, int] | None = None,
        still_ours: StillOurs = all_ours,
        monotonic: Callable[[], float] | None = None,
        renew_s: float = RENEW_S,
        worked: Callable[[], float] = time.process_time,
        work: CopyTotals | None = None,
        buffer_bytes: int = BUFFER_BYTES,
        isolation: Isolation = Isolation.COMMITTED,
        passes_overtaken: bool = False,
    ) -> None:
        """
        :param starts: source offsets at which partitions begin that were never copied; others begin at the source's log
            start. From one below the log start on, records count as overtaken by retention.
        :param still_ours: those of some partitions that are still to be copied here, read afresh; called before and
            after the fences of takeovers.
        :param renew_s: must be less than `producer.id.expiration.ms` and `transactional.id.expiration.ms` of the
            target.
        :param worked: seconds of processor time of this process.
        :param work: totals to continue, if there was a loop before.
        :param buffer_bytes: limit for fetched and requested bytes of all partitions together.
        :param isolation: the records to copy. If it changes, the new one counts for records that are not copied yet.
        :param passes_overtaken: whether a partition goes on at the source's log start where retention has deleted
            records before they were copied, and counts them (`CopyStatus.overtaken`); otherwise it stops.
        :raises ValueError: one of these two is not for the copies of mirrors, which stand in for their source.
        """
        self._for_mirrors = isolation is Isolation.COMMITTED and not passes_overtaken
        copies = list(copies)
        self._require_possible(copies)
        monotonic = monotonic or _counting_sleep
        now = monotonic()
        self._clock, self._renew_s = monotonic, renew_s
        standstill = Standstill(monotonic, worked)
        self._copies: dict[CopyId, CopyPartition] = {}
        self._starts: dict[CopyId, int] = {}
        self._states = FiledStates()
        self._entering_now = set[CopyId]()
        """Includes partitions dropped since: one that is added again must not fence itself."""
        self._since: dict[CopyId, int] = {}
        self._meters: dict[CopyId, RateMeter] = {}
        self._lag_trackers: dict[CopyId, LagTracker] = {}
        self.work = work or CopyTotals()
        self._changes: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._throttle = Throttle(now)
        self._beside = BackgroundWork(_THREADS)
        self._rooms = BufferPool(buffer_bytes // 2)
        self._connections = Connections(source, target, self._beside, self._lost, self._rooms)
        self._entering = Takeovers(source, target, self._beside, still_ours, self._entered)
        ways = self._leave, self._stop, self._refuse
        self._appending = Appending(self._connections, *ways, monotonic, standstill, self.work)
        self._fetching = Fetching(
            source,
            self._connections,
            self._beside,
            self._throttle,
            self._stop,
            self._refuse,
            self._appending.note,
            monotonic,
            standstill,
            buffer_bytes,
            isolation,
            passes_overtaken,
            target,
        )
        self._renew_at = now
        self._known_at = now
        self.known: Mapping[CopyId, CopyCoverage] = {}
        """Recent coverage of the copies; empty for partitions that are not being copied."""
        self._stopped = False
        self._add(copies, starts or {})

    @property
    def held_bytes(self) -> int:
        """Bytes fetched and held. For the loop's thread."""
        return self._fetching.held

    def statuses(self) -> dict[CopyId, CopyStatus]:
        return self._states.statuses(self._lag_trackers, self._clock(), _now_ms())

    def standing(self) -> dict[CopyId, CopyStatus]:
        """Status of those partitions that are not being copied, or only with trouble. Few, as a rule."""
        return self._states.standing(self._lag_trackers, self._clock(), _now_ms())

    def stopped(self) -> dict[CopyId, StoppedCopy]:
        """Partitions that need an operator, or are copied elsewhere."""
        return dict(self._states.stopped)

    def measures(self) -> dict[CopyId, CopyMeasures]:
        """Age and latency of records, by copy that is being copied; they begin anew with each takeover."""
        return {id_: lane.measures for id_, lane in self._states.lanes().items()}

    def reached(self, id_: CopyId) -> Reached | None:
        """None: it is not copied. Call it after the loop has ended; before, values may be of different moments."""
        state = self._states.get(id_)
        if not isinstance(state, CopyLane):
            return None
        partition = state.partition
        return Reached(partition.source, partition.progress, partition.pages)

    def add(self, copies: Iterable[CopyPartition], starts: Mapping[Partition, int] | None = None) -> None:
        """Copies these as well; partitions that are already copied are unchanged, and stopped ones are tried again.

        :raises ValueError: these are copies of mirrors, and this loop is not for them.
        """
        copies = list(copies)
        self._require_possible(copies)
        self._change(lambda: self._add(copies, starts or {}))

    def drop(self, copies: Iterable[CopyId]) -> None:
        """Stops copying these here."""
        self._change(lambda: self._drop(copies))

    def limit(self, in_all: float | None, mirrors: Mapping[LinkedTopic, float]) -> None:
        """Limits bytes per second, in total and per named mirror."""
        self._change(lambda: self._throttle.limit(in_all, mirrors, self._clock()))

    def hold(self, buffer_bytes: int) -> None:
        """Changes the limit of `buffer_bytes`."""
        self._change(lambda: self._hold(buffer_bytes))

    def stop(self) -> None:
        """`run` returns soon."""
        self._stopped = True
        self._beside.wake()

    def run(self) -> None:
        try:
            while not self._stopped:
                self.step(_PAUSE_S)
        finally:
            self.close()

    def close(self) -> None:
        self._connections.close()
        self._beside.close()

    def step(self, wait_s: float) -> None:
        """One round: starts due work, handles what has arrived."""
        try:
            while True:
                self._changes.get_nowait()()
        except Empty:
            pass
        now = self._clock()
        self._appending.stood_still()
        if now >= self._states.look_at:
            self._take_over_due(now)
        if now >= self._renew_at:
            self._renew(now)
        if now >= self._known_at:
            lanes = self._states.lanes()
            self._known_at = now + KNOWN_EVERY_S * (1 + len(lanes) / 1000)
            max_runs = max(1, min(MAX_RUNS, MAX_RUNS_IN_ALL // max(len(lanes), 1)))
            now_ms = _now_ms()
            self.known = {id_: lane.known(max_runs, now, now_ms) for id_, lane in lanes.items()}
        self._entering.step()
        self._appending.step(now)
        self._fetching.step(now)
        self._connections.step(now, wait_s)

    def _take_over_due(self, now: float) -> None:
        self._states.look_at = float("inf")
        for id_, state in list(self._states.waiting.items()):
            if id_ in self._entering_now:
                continue  # `_entered` looks again
            if state.until <= now:
                self._states.become(id_, TakingOver(state))
                self._entering_now.add(id_)
                self._entering.add(self._copies[id_], self._since.get(id_, 0))
            else:
                self._states.look_at = min(self._states.look_at, state.until)

    # Partitions come and go

    def _require_possible(self, copies: Iterable[CopyPartition]) -> None:
        mirrored = next((copy for copy in copies if not copy.source_topic), None)
        if mirrored is not None and not self._for_mirrors:
            raise ValueError(
                f"{mirrored.id} is the copy of a mirror: it has committed records only, and lacks none. Name the "
                "source's topic if it is a copy of a flow"
            )

    def _change(self, change: Callable[[], None]) -> None:
        self._changes.put(change)
        self._beside.wake()

    def _hold(self, buffer_bytes: int) -> None:
        self._fetching.limit(buffer_bytes)
        self._rooms.keep(buffer_bytes // 2)

    def _add(self, copies: Iterable[CopyPartition], starts: Mapping[Partition, int]) -> None:
        now = self._clock()
        for copy in copies:
            self._copies[copy.id] = copy
            if copy.source_key in starts:
                self._starts[copy.id] = starts[copy.source_key]
            self._meters.setdefault(copy.id, RateMeter(now))
            self._lag_trackers.setdefault(copy.id, LagTracker())
            if isinstance(self._states.get(copy.id), StoppedCopy | RefusedByCluster | None):
                self._states.become(copy.id, AwaitingTakeover("it has not begun", now))

    def _drop(self, copies: Iterable[CopyId]) -> None:
        for id_ in copies:
            state = self._states.drop(id_)
            if isinstance(state, CopyLane):
                self._out(state)
            for known in (self._copies, self._starts, self._meters, self._lag_trackers, self._since):
                known.pop(id_, None)

    def _entered(self, id_: CopyId, found: Outcome[TakenOverPartition]) -> None:
        self._entering_now.discard(id_)
        self._states.look_at = 0.0
        state = self._states.get(id_)
        if not isinstance(state, TakingOver):
            return  # it was dropped meanwhile, and may have come again
        waited, now = state.waited, self._clock()
        if isinstance(found, TakenOverPartition):
            self._begin(id_, found, waited, now)
        elif isinstance(found, TopicMissingError) and waited.tries < _MISSING_TRIES:
            self._states.become(id_, waited.again(str(found), now))
        elif isinstance(found, TakenOverError | NotOursError):
            self._states.become(id_, StoppedCopy(TAKEN_OVER if isinstance(found, TakenOverError) else ELSEWHERE))
        elif isinstance(found, CopyDamagedError | TopicMissingError):
            foreign = isinstance(found, ForeignRecordsError)
            damaged = isinstance(found, CopyDamagedError) and not foreign
            self._states.become(id_, StoppedCopy(str(found), foreign, damaged))
        else:
            self._states.become(id_, waited.again(str(found), now))

    def _begin(
        self, id_: CopyId, entered: TakenOverPartition, waited: AwaitingTakeover | RefusedByCluster, now: float
    ) -> None:
        takeover = entered.taken_over
        start = self._starts.get(id_, entered.source_start)
        progress = takeover.progress or Progress(takeover.writer, start, takeover.end)
        lane = CopyLane(
            self._copies[id_],
            PartitionCopy(replace(progress, topics=entered.topics)),
            now,
            self._meters[id_],
            self._lag_trackers[id_],
            entered.target_node,
            entered.log_node,
            waited.tries,
            entered.topics.source,
            since=self._since.get(id_, 0),
        )
        if isinstance(waited, RefusedByCluster):
            lane.refused, lane.refusals = waited.reason, waited.refusals
        self._states.become(id_, lane)
        self.work.takeovers += 1
        self._appending.add(lane)
        self._fetching.add(lane)

    def _renew(self, now: float) -> None:
        """Renews a part of the lanes at a time, all within an hour."""
        self._renew_at = now + min(_RENEW_LOOK_S, self._renew_s)
        lanes = list(self._states.lanes().values())
        old = [lane for lane in lanes if now - lane.begun >= self._renew_s]
        for lane in old[: 1 + len(lanes) // 100]:
            lane.tries = 0
            self._leave(lane, "it takes itself over, so that brokers keep its fence")

    def _leave(self, lane: CopyLane, reason: str) -> None:
        if self._states.get(lane.copy.id) is lane:
            self._out(lane)
            now = self._clock()
            # An earlier refusal is not fixed by another failure.
            before = (
                RefusedByCluster(lane.refused, now, lane.refusals)
                if lane.refused
                else AwaitingTakeover(reason, 0.0, lane.tries)
            )
            self._states.become(lane.copy.id, before.again(reason, now))

    def _stop(self, lane: CopyLane, reason: str) -> None:
        if self._states.get(lane.copy.id) is lane:
            self._out(lane)
            self._states.become(lane.copy.id, StoppedCopy(reason))

    def _refuse(self, lane: CopyLane, reason: str) -> None:
        if self._states.get(lane.copy.id) is lane:
            self._out(lane)
            until = self._clock() + retry_s(lane.refusals)
            self._states.become(lane.copy.id, RefusedByCluster(reason, until, lane.refusals + 1))

    def _out(self, lane: CopyLane) -> None:
        self._fetching.drop(lane)
        self._appending.drop(lane)
        self._since[lane.copy.id] = lane.since

    def _lost(self, line: Line, reason: str) -> None:
        if line.channel is ConnectionUse.TARGET:
            self._appending.lost(line, reason)
        else:
            self._fetching.lost(line, reason)


def _counting_sleep() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _now_ms() -> int:
    """Wall-clock time, like the timestamps of records."""
    return int(time.time() * 1000)
