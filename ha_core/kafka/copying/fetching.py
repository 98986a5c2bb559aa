"""The source side: fetches records, and diagnoses faults of the source.

A partition that has more to copy is fetched over its leader's busy connection, which answers at once; the others share
a session (`sessions`), whose requests wait for records. The most recently served partition comes last in the next
request, because a broker returns a batch larger than the requested size only for the first partition.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from itertools import islice
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying.background import BackgroundWork, Outcome
from ha_core.kafka.copying.buffered import Places
from ha_core.kafka.copying.connections import Connections, ConnectionUse, Line
from ha_core.kafka.copying.diagnosis import LooksAgain, PassesOvertaken, RefusedOffset, Stops, diagnose
from ha_core.kafka.copying.leaders import SourceLeaders
from ha_core.kafka.copying.sessions import SESSIONLESS, SessionRequest, SourceSession, asked_part
from ha_core.kafka.copying.source_lanes import SourceLanes
from ha_core.kafka.copying.standstill import Standstill
from ha_core.kafka.copying.states import CopyLane
from ha_core.kafka.copying.watching import WATCH_EVERY_S, SourceWatch
from ha_core.kafka.errors import TopicMissingError
from ha_core.kafka.facts import LogEnds
from ha_core.kafka.stream import fitting
from ha_core.mirror.notes import Note
from ha_core.mirror.pace import Throttle
from ha_core.mirror.partition import Aborted
from ha_core.model.isolation import Isolation
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.client import Answer
from ha_core.wire.codes import RETRIABLE, ApiKey, ErrorCode, name_of
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.limits import WireLimits

LIMITS = WireLimits(max_response_bytes=128 << 20)
_FETCH = 13
"""The version with topic ids, which tell a re-created topic apart. Brokers before 3.1 take names (12)."""
_IDLE_WAIT_MS = 250
_BUSY_WAIT_MS = 5
"""Not 0, to spare the broker when a partition has less than expected."""
_PARTITION_BYTES = 1 << 20
"""Minimum per partition; the only partition of a request gets more, because the source may be far away."""
_FETCH_BYTES = 8 << 20
"""Maximum of an answer, which stays in one buffer until its last batch is appended."""
_ANSWER_S = 15.0
_LOOK_EVERY_S = 0.005
"""Pause between checks for free buffer space while the source sends nothing."""
_RESTS = 4
"""A look at thousands of partitions that hold a record each takes milliseconds, and each small answer asks for one.
After a look the loop does its other work for this multiple of the look's time."""
_MOST_BUSY = 500
"""Partitions of one request for those that have more: an answer has room for a few, and each of the others costs."""
BUFFER_BYTES = 128 << 20
"""Limit for all partitions of a task together: buffers fetched and not yet appended, plus the maximum of all answers in
flight. A single batch larger than the requested size comes on top."""
_MOST_BYTES = 8 << 20
"""Maximum per partition."""
_HEAD_BYTES = 128
"""Bytes of an answer per partition besides the records."""
_MOVED = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
"""Errors that require finding the leader again."""


class Fetching:
    """
    :param stop: stops a partition for good, for a reason.
    :param refuse: suspends a partition until the account may read it.
    :param note: receives what is to be written to the copy log for a partition, in this order.
    :param isolation: the records to copy.
    :param passes_overtaken: whether a partition goes on, and counts, where retention has deleted records before they
        were copied; otherwise it stops.
    :param target: where the last copied records are; None: they are not compared.
    """

    def __init__(
        self,
        source: Admin,
        connections: Connections,
        beside: BackgroundWork,
        throttle: Throttle,
        stop: Callable[[CopyLane, str], None],
        refuse: Callable[[CopyLane, str], None],
        note: Callable[[CopyLane, Iterable[Note]], None],
        clock: Callable[[], float],
        standstill: Standstill,
        buffer_bytes: int,
        isolation: Isolation = Isolation.COMMITTED,
        passes_overtaken: bool = False,
        target: Admin | None = None,
    ) -> None:
        self._buffer_bytes = max(buffer_bytes, 2 * _PARTITION_BYTES)
        self._source, self._connections, self._beside = source, connections, beside
        self._throttle, self._stop, self._refuse, self._note, self._clock = throttle, stop, refuse, note, clock
        self._isolation, self._passes_overtaken = isolation, passes_overtaken
        self._standstill = standstill
        self._lanes = SourceLanes()
        self._outstanding: dict[Line, int] = {}
        """Maximum bytes of each outstanding answer: its buffer."""
        self._places = Places()
        self._watch = SourceWatch(source, beside, self._lanes, isolation)
        self._leaders = SourceLeaders(source, target, beside, self._lanes, stop, clock, self._look_again)
        self._times_at = self._look_again_at = self._rested_at = 0.0

    def __contains__(self, lane: CopyLane) -> bool:
        return lane in self._lanes

    def add(self, lane: CopyLane) -> None:
        self._lanes.add(lane)
        self._look_again()

    def _look_again(self) -> None:
        self._look_again_at = self._rested_at

    def drop(self, lane: CopyLane) -> None:
        self._lanes.drop(lane)

    def file(self, lane: CopyLane) -> None:
        """Call it after the leader, the lag or the next offset of a partition changed elsewhere."""
        self._lanes.file(lane)

    def lost(self, line: Line, reason: str) -> None:
        """A connection to the source was lost: leaders may have moved."""
        self._outstanding.pop(line, None)
        if line.channel is ConnectionUse.IDLE and (session := self._lanes.sessions.get(line.node)) is not None:
            session.restart()
        for lane in [lane for lane in self._lanes if lane.leader is not None and lane.leader.node == line.node]:
            self._leaders.lost(lane, reason)

    def step(self, now: float) -> None:
        if now < self._look_again_at:
            return
        begun = self._clock()
        self._look_again_at = now + _LOOK_EVERY_S
        self._look(now)
        ended = self._clock()
        self._rested_at = ended + _RESTS * (ended - begun)
        self._look_again_at = max(self._look_again_at, self._rested_at)

    def _look(self, now: float) -> None:
        self._leaders.locate(now)
        held = self._lanes.held()
        room = min(max(self._buffer_bytes // max(len(self._lanes), 1), _PARTITION_BYTES), _MOST_BYTES)
        # A broker of the target that takes nothing fills its own share only.
        share = self._buffer_bytes // max(len(held.by_target), 1)
        full = {node for node, size in held.by_target.items() if size >= share}
        self._lanes.pause_holding(room)
        busy, idle = self._busy(room, full, now), self._idle(room, full, now)
        free = self._buffer_bytes - held.in_all - sum(self._outstanding.values())
        # Many small answers would cost more, so one request names all partitions that have more.
        worth = max(min(_FETCH_BYTES, self._buffer_bytes // 4), _PARTITION_BYTES)
        # Waiting requests leave most of the buffer free, however many brokers the source has.
        several = len(busy) + len(idle) + len(self._outstanding)
        waits = min(_PARTITION_BYTES, self._buffer_bytes // (4 * max(several, 1)))
        for line, found in busy.items():
            lanes = _led_by(found, line)
            if lanes and free >= worth and self._connections.ready(line, now):
                max_bytes = min(_FETCH_BYTES, free)
                free -= max_bytes
                self._fetch(line, lanes, max(min(max_bytes // len(lanes), room // 2), _PARTITION_BYTES), max_bytes, now)
        for line, waiting in idle.items():
            there = waiting.wanted if isinstance(waiting, SourceSession) else _led_by(waiting, line)
            if there and free >= waits and self._connections.ready(line, now):
                free -= waits
                if isinstance(waiting, SourceSession):
                    self._fetch_by_session(line, waiting, waits, now)
                else:
                    self._fetch(line, list(there), _PARTITION_BYTES, waits, now)
        may_come = worth + sum(self._outstanding.values())
        self._places.judge(len(held.by_target), share, may_come, self._buffer_bytes)
        if now >= self._times_at:
            self._times_at = now + WATCH_EVERY_S
            self._watch.ask(now)

    def _busy(self, room: int, full: Set[int], now: float) -> dict[Line, list[CopyLane]]:
        """Partitions to fetch that have more, by connection."""
        found: dict[Line, list[CopyLane]] = {}
        for node, lanes in self._lanes.busy.items():
            line = Line(ConnectionUse.BUSY, node)
            if line not in self._outstanding:
                fetchable = (lane for lane in lanes if self._may_fetch(lane, room, full, now))
                if some := list(islice(fetchable, _MOST_BUSY)):
                    found[line] = some
        return found

    def _idle(self, room: int, full: Set[int], now: float) -> dict[Line, SourceSession | list[CopyLane]]:
        """Partitions to fetch that have nothing new, by connection. A session cannot leave some out for a moment, as a
        limit or a broker of the target that takes nothing demands."""
        found: dict[Line, SourceSession | list[CopyLane]] = {}
        for node, session in self._lanes.sessions.items():
            line = Line(ConnectionUse.IDLE, node)
            if line in self._outstanding or not session.wanted:
                continue
            if self._throttle.unlimited and not full:
                found[line] = session
                continue
            session.restart()
            if some := [lane for lane in session.wanted if self._may_fetch(lane, room, full, now)]:
                found[line] = some
        return found

    def _may_fetch(self, lane: CopyLane, room: int, full: Set[int], now: float) -> bool:
        partition = lane.partition
        if lane.target_node in full or partition.held >= room or not partition.has_slots:
            return False
        return not self._throttle.wait_s(lane.copy.id.mirror, now)

    @property
    def held(self) -> int:
        """Bytes of all buffers with fetched records that are not appended yet."""
        return self._lanes.held().in_all

    def limit(self, buffer_bytes: int) -> None:
        self._buffer_bytes = max(buffer_bytes, 2 * _PARTITION_BYTES)

    # Records

    def _fetch(self, line: Line, lanes: list[CopyLane], partition_bytes: int, max_bytes: int, now: float) -> None:
        """Fetches these without a session."""
        parts = [
            asked_part(lane, min(partition_bytes, self._throttle.at_once(lane.copy.id.mirror, len(lanes))))
            for lane in lanes
        ]
        asked = SessionRequest(SESSIONLESS, parts, [], not all(part.topic_id for part in parts))
        requested = {part.key: (lane, part.offset) for part, lane in zip(parts, lanes, strict=True)}
        topics = {part.topic_id: part.topic for part in parts}
        self._send(line, asked, max_bytes, now, partial(self._fetched, line, requested, topics, now))

    def _fetch_by_session(self, line: Line, session: SourceSession, max_bytes: int, now: float) -> None:
        asked = session.request(_PARTITION_BYTES, now)
        self._send(line, asked, max_bytes, now, partial(self._fetched_by_session, line, session, now))

    def _send(
        self, line: Line, asked: SessionRequest, max_bytes: int, now: float, then: Callable[[Answer], None]
    ) -> None:
        waits = line.channel is ConnectionUse.IDLE and not asked.more
        message = {
            "max_wait_ms": _IDLE_WAIT_MS if waits else _BUSY_WAIT_MS,
            "min_bytes": 1,
            "max_bytes": max(fitting(max_bytes) - _HEAD_BYTES * len(asked.parts), max_bytes // 2),
            "isolation_level": self._isolation,
            "session_id": asked.session[0],
            "session_epoch": asked.session[1],
            "topics": asked.topics,
            "forgotten_topics_data": asked.forgotten_topics,
        }
        self._outstanding[line] = max_bytes
        version = _FETCH - 1 if asked.by_name else _FETCH
        self._connections.send(line, ApiKey.FETCH, message, version, then, now + _ANSWER_S)

    def _fetched(
        self,
        line: Line,
        requested: Mapping[Partition, tuple[CopyLane, int]],
        topics: Mapping[str, str],
        asked_at: float,
        answer: Answer,
    ) -> None:
        message = self._answered(line, answer)
        if message["error_code"]:
            self._look_all([lane for lane, _ in requested.values()], message["error_code"])
            return
        served = [lane for lane, had in self._take_parts(message, requested.get, topics, asked_at) if had]
        if not served:  # others have their turn, where a request does not name all
            for lane, _ in requested.values():
                self._lanes.served(lane)

    def _fetched_by_session(self, line: Line, session: SourceSession, asked_at: float, answer: Answer) -> None:
        message = self._answered(line, answer)
        if code := message["error_code"]:
            if not session.refused(code):
                self._look_all(list(session.wanted), code)
            return
        for lane, _ in self._take_parts(message, session.find, session.topics, asked_at):
            if lane in session.wanted:
                lane.heard = session.heard
        # Not before: until then the ends of these partitions were those of the last answer.
        session.answered(message["session_id"], asked_at, message["throttle_time_ms"] > 0)

    def _answered(self, line: Line, answer: Answer) -> dict[str, Any]:
        self._outstanding.pop(line, None)
        self._look_again()
        return answer.message(LIMITS)

    def _look_all(self, lanes: Iterable[CopyLane], code: int) -> None:
        for lane in lanes:
            if lane in self:
                self._leaders.lost(lane, f"the source answers {name_of(code)}")

    def _take_parts(
        self,
        message: Mapping[str, Any],
        requested: Callable[[Partition], tuple[CopyLane, int] | None],
        topics: Mapping[str, str],
        asked_at: float,
    ) -> Iterator[tuple[CopyLane, bool]]:
        """The partitions of the answer that were taken, and whether each had records."""
        for topic in message["responses"]:
            name = topic["topic"] or topics.get(topic["topic_id"].hex(), "")
            for part in topic["partitions"]:
                key = name, part["partition_index"]
                found = requested(key)
                if found is None:
                    raise RemoteProtocolError(f"answered a fetch with partition {key[1]} of {name!r}, not asked for")
                lane, offset = found
                # The lane may have left meanwhile, or come again.
                if lane in self and lane.partition.next_offset == offset:
                    self._take_part(lane, part, asked_at)
                    self._standstill.look()  # a megabyte with gaps may take a second
                    if lane in self:
                        self._lanes.file(lane)
                        yield lane, lane.partition.next_offset > offset

    def _take_part(self, lane: CopyLane, part: Mapping[str, Any], asked_at: float) -> None:
        code = part["error_code"]
        if code == ErrorCode.OFFSET_OUT_OF_RANGE or (not code and part["diverging_epoch"]["epoch"] >= 0):
            self._diagnose(lane, part["diverging_epoch"])
            return
        if code in _MOVED or code in RETRIABLE:
            self._leaders.lost(lane, f"the source answers {name_of(code)}")
            return
        if code:
            self._refuse(lane, f"the source answers {name_of(code)}; give the account the rights to read the topic")
            return
        lane.missed, lane.trouble = 0, ""
        lane.source_start = part["log_start_offset"]
        records = part["records"]
        before = lane.partition.next_offset
        if records:
            self._throttle.spend(lane.copy.id.mirror, len(records), self._clock())
            # Without them, records of aborted and open transactions count as any others.
            hidden = part["aborted_transactions"] or () if self._isolation is Isolation.COMMITTED else ()
            aborted = [Aborted(one["producer_id"], one["first_offset"]) for one in hidden]
            try:
                intents = lane.partition.fetched(self._places.own(records), aborted)
            except RemoteProtocolError as error:
                self._stop(lane, f"{lane.source_key[0]}-{lane.source_key[1]} of the source: {error}")
                return
            self._lanes.served(lane)
            self._note(lane, intents)
        lane.lag_tracker.fetched(lane.partition.next_offset - before, len(records or b""))
        lane.hear(self._watch.ends(part["last_stable_offset"], part["high_watermark"]), asked_at)
        if not lane.lags:
            lane.newest_ms = lane.partition.seen_ms

    # Faults

    def _diagnose(self, lane: CopyLane, diverging: Mapping[str, int]) -> None:
        """Stops fetching the partition until the fault is diagnosed."""
        lane.leader, lane.look_at = None, float("inf")
        self._lanes.file(lane)
        at = lane.partition.next_offset
        self._beside.start(
            partial(self._source.ends, [lane.source_key]), partial(self._diagnosed, lane, at, diverging["end_offset"])
        )

    def _diagnosed(self, lane: CopyLane, at: int, diverging_end: int, found: Outcome[dict[Partition, LogEnds]]) -> None:
        if lane not in self:
            return
        lane.look_at = 0.0
        if lane.partition.next_offset != at:  # a late answer of another connection had records
            return
        if not isinstance(found, dict):
            lane.trouble = str(found)
            if isinstance(found, TopicMissingError):
                lane.missed += 1
            return
        where = f"{lane.source_key[0]}-{lane.source_key[1]} of {self._source.cluster.name}"
        refused = RefusedOffset(where, at, lane.partition.next_epoch, diverging_end, lane.missed, lane.copy.anew)
        match diagnose(refused, found[lane.source_key], self._passes_overtaken):
            case Stops(reason):
                self._stop(lane, reason)
            case LooksAgain(reason):
                self._leaders.lost(lane, reason)
            case PassesOvertaken(start, reason):
                if lane.partition.idle and lane.writing is None:
                    lane.partition.pass_overtaken(start)
                    self._note(lane, lane.partition.notes())
                else:  # the notes of what is in flight come first
                    self._leaders.lost(lane, reason)


def _led_by(lanes: Iterable[CopyLane], line: Line) -> list[CopyLane]:
    """Those of the lanes that have not lost their leader since, with the other connection to it."""
    return [lane for lane in lanes if lane.leader is not None and lane.leader.node == line.node]
