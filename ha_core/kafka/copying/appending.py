"""The target side: writes notes to the copy log, and appends batches with an acknowledged intent to the copy.

One producer writes both, in sequence. So an acknowledgement implies that everything sent before has arrived: before an
intent, the progress that its writer took over with; before a progress, the pages that it no longer holds.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Set
from functools import partial
from typing import Any

from ha_core.kafka.brokers import topic_entries
from ha_core.kafka.copying.connections import Connections, ConnectionUse, Line
from ha_core.kafka.copying.fetching import LIMITS
from ha_core.kafka.copying.standstill import Standstill
from ha_core.kafka.copying.states import TAKEN_OVER, CopyLane
from ha_core.kafka.copying.statuses import CopyTotals
from ha_core.mirror.notes import Note, encode
from ha_core.mirror.progress import CopyDamagedError, DisplacedError, Intent, Progress
from ha_core.mirror.split import Record, pack
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.client import Answer
from ha_core.wire.codes import ApiKey, ErrorCode, name_of
from ha_core.wire.copied_batch import claim
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.sequences import MODULUS

_PRODUCE = 9
"""The last version without broker addresses in answers."""
_REQUEST_BYTES = 4 << 20
_TIMEOUT_MS = 30_000
_ANSWER_S = 45.0
_IDLE_PROGRESS_S = 5.0
"""An idle copy writes its progress after this time, so that readers of the copy log have no intents left to add up."""
_FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}
KEYLESS = name_of(ErrorCode.INVALID_RECORD)
"""Part of the reason when a compacted copy takes no record without a key: it must not be compacted yet."""
_BY_THE_SYNC = "the sync mends that within a minute, unless the mirror leaves {} alone or the target refuses it"
_REFUSALS = {
    ErrorCode.MESSAGE_TOO_LARGE: _BY_THE_SYNC.format("max.message.bytes") + ": then raise it in the target",
    ErrorCode.RECORD_LIST_TOO_LARGE: "raise segment.bytes of the topic in the source: the copy gets it within a minute",
    ErrorCode.INVALID_TIMESTAMP: _BY_THE_SYNC.format("message.timestamp.*") + ": then open these bounds in the target",
    ErrorCode.INVALID_RECORD: "a topic that is compacted takes no record without a key: "
    + _BY_THE_SYNC.format("cleanup.policy")
    + ": then set cleanup.policy=delete and retention.ms=-1 in the target until it is copied",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the target's brokers do not know the compression: update them",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "give the account the right to write to the topic",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "give the account the right IdempotentWrite",
}
"""Errors that an operator or the sync can fix, with the fix; then the copier retries."""
_KEPT = "of the topic in the target, and name it in config.properties.exclude, or the flow sets it back"
_REFUSALS_OF_FLOWS = {
    **_REFUSALS,
    ErrorCode.MESSAGE_TOO_LARGE: f"raise max.message.bytes {_KEPT}",
    ErrorCode.RECORD_LIST_TOO_LARGE: "raise segment.bytes of the topic in the source: the flow carries it over",
    ErrorCode.INVALID_TIMESTAMP: f"raise message.timestamp.before.max.ms and message.timestamp.after.max.ms {_KEPT}",
    ErrorCode.INVALID_RECORD: "a topic that is compacted takes no record without a key: set cleanup.policy=delete "
    f"{_KEPT}",
}
"""The flow of a remote topic carries the settings of its source, as MirrorMaker 2 does, and loosens none of them."""
_WHY: dict[int, str] = {
    ErrorCode.NOT_ENOUGH_REPLICAS: ": too few replicas are in sync",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ": too few replicas are in sync",
}
Entry = tuple[str, dict[str, Any]]


class Appending:
    """
    :param leave: takes a partition over again, for a reason.
    :param stop: stops a partition for good, for a reason.
    :param refuse: suspends a partition until the target's refusal is fixed.
    """

    def __init__(
        self,
        connections: Connections,
        leave: Callable[[CopyLane, str], None],
        stop: Callable[[CopyLane, str], None],
        refuse: Callable[[CopyLane, str], None],
        clock: Callable[[], float],
        standstill: Standstill,
        work: CopyTotals,
    ) -> None:
        self._work = work
        self._connections, self._leave, self._stop, self._refuse = connections, leave, stop, refuse
        self._clock = clock
        self._standstill = standstill
        self._lanes = set[CopyLane]()
        self._active: dict[CopyLane, None] = {}
        self._unrecorded: dict[CopyLane, None] = {}
        """Partitions of which more is appended than the last written progress covers."""
        self._look_at = 0.0

    def add(self, lane: CopyLane) -> None:
        """Writes the progress first, so that the next copier learns of this writer."""
        self._lanes.add(lane)
        self.note(lane, lane.partition.notes())

    def drop(self, lane: CopyLane) -> None:
        self._lanes.discard(lane)
        self._active.pop(lane, None)
        self._unrecorded.pop(lane, None)

    def lost(self, line: Line, reason: str) -> None:
        """A connection to the target was lost: the result of its requests is unknown."""
        for lane in [lane for lane in self._lanes if line.node in (lane.target_node, lane.log_node)]:
            self._leave(lane, reason)

    def stood_still(self) -> bool:
        """True if this process stood still. It has then left all partitions: others may have taken them over."""
        if stood_still_s := self._standstill.found_s():
            for lane in list(self._lanes):
                self._leave(lane, f"this process stood still for {stood_still_s:.0f} s")
        return bool(stood_still_s)

    def note(self, lane: CopyLane, notes: Iterable[Note]) -> None:
        """Queues notes, in this order."""
        for note in notes:
            lane.to_note.append(note)
            if isinstance(note, Progress):
                lane.writing = note
        self._active[lane] = None

    def step(self, now: float) -> None:
        if now >= self._look_at:
            self._look_at = now + _IDLE_PROGRESS_S / 5
            for lane in list(self._unrecorded):
                if not lane.partition.unrecorded:
                    del self._unrecorded[lane]
                elif lane.partition.idle and now - lane.recorded >= _IDLE_PROGRESS_S:
                    self._write_progress(lane, True)
        for lane in list(self._active):
            line = Line(ConnectionUse.TARGET, lane.log_node)
            while lane in self._lanes and lane.to_note and self._connections.ready(line, now):
                self._write(line, lane, lane.to_note.popleft(), now)
        while self._append(now):
            pass
        for lane in [lane for lane in self._active if not lane.to_note and not lane.to_append]:
            del self._active[lane]

    # Notes

    def _write(self, line: Line, lane: CopyLane, note: Note, now: float) -> None:
        key, value = encode(lane.copy.id, note)
        batch = pack([Record.of(0, int(time.time() * 1000), key, value)], 0)
        claim(batch, 0, *lane.partition.writer, lane.log_sequence)
        lane.log_sequence = (lane.log_sequence + 1) % MODULUS
        topic, partition = lane.copy.log
        entry = {"index": partition, "records": batch}
        self._produce(line, [(topic, entry)], partial(self._noted, lane, note), now)

    def _noted(self, lane: CopyLane, note: Note, answer: Answer) -> None:
        ((_, part),) = _produced(answer, {lane.copy.log})
        if lane not in self._lanes:
            return
        if part["error_code"]:
            self._refused(lane, lane.copy.log[0], part["error_code"])
        elif isinstance(note, Intent):
            lane.noted_at.append((note.number, part["base_offset"]))
            lane.to_append += lane.partition.noted()
            self._active[lane] = None
        elif isinstance(note, Progress):
            lane.recorded_as(note, part["base_offset"], self._clock())

    def _write_progress(self, lane: CopyLane, due: bool) -> None:
        if due and lane.writing is None:
            self.note(lane, lane.partition.notes())

    # Batches

    def _append(self, now: float) -> bool:
        """Sends one request to each broker that has batches waiting; True if any was sent."""
        by_line: dict[Line, list[CopyLane]] = {}
        size: dict[Line, int] = {}
        now_ms = int(time.time() * 1000)
        for lane in self._active:
            line = Line(ConnectionUse.TARGET, lane.target_node)
            if lane.may_append(now_ms) and size.get(line, 0) < _REQUEST_BYTES:
                by_line.setdefault(line, []).append(lane)
                size[line] = size.get(line, 0) + len(lane.to_append[0].data)
        sent = False
        for line, lanes in by_line.items():
            if not self._connections.ready(line, now):
                continue
            if self.stood_still():
                return False
            entries: list[Entry] = []
            # Some lanes may have left with the connection that was just lost.
            there = [lane for lane in lanes if lane in self._lanes]
            for lane in there:
                claimed = lane.to_append.popleft()
                lane.appending.append(claimed.newest_ms)
                lane.measures.sent(claimed, now_ms, now)
                entries.append((lane.key[0], {"index": lane.key[1], "records": claimed.data}))
            if entries:
                sent |= self._produce(line, entries, partial(self._appended, {lane.key: lane for lane in there}), now)
        return sent

    def _appended(self, lanes: Mapping[Partition, CopyLane], answer: Answer) -> None:
        now, now_ms = self._clock(), int(time.time() * 1000)
        for key, part in _produced(answer, lanes.keys()):
            lane = lanes[key]
            if lane not in self._lanes:
                continue
            if part["error_code"]:
                self._refused(lane, lane.key[0], part["error_code"])
                continue
            lane.appended_ms = lane.appending.popleft()
            lane.measures.acknowledged(now_ms, now)
            lane.tries, lane.refusals, lane.refused = 0, 0, ""
            before, records = lane.partition.bytes, lane.partition.target
            try:
                lane.partition.appended(part["base_offset"])
            except CopyDamagedError as error:
                self._stop(lane, str(error))
                continue
            except DisplacedError as error:
                self._leave(lane, str(error))
                continue
            lane.bytes.add(before - lane.partition.bytes, now)
            self._work.copied_bytes += before - lane.partition.bytes
            self._work.copied_records += lane.partition.target - records
            self._active[lane] = self._unrecorded[lane] = None
            self._write_progress(lane, lane.partition.due)

    def _produce(self, line: Line, entries: list[Entry], then: Callable[[Answer], None], now: float) -> bool:
        message = {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": _TIMEOUT_MS,
            "topic_data": topic_entries(entries, "partition_data"),
        }
        return self._connections.send(line, ApiKey.PRODUCE, message, _PRODUCE, then, now + _ANSWER_S)

    def _refused(self, lane: CopyLane, topic: str, code: int) -> None:
        """A fenced copier must not fence back: two copiers of one partition would fence each other endlessly."""
        if code in _FENCED:
            self._stop(lane, TAKEN_OVER)
        elif code in _REFUSALS:
            fixes = _REFUSALS_OF_FLOWS if lane.copy.source_topic else _REFUSALS
            # The copy has all records before this offset; any of those in the request may be the refused one.
            where = f" at offset {lane.partition.source} of the source or soon after" if topic == lane.key[0] else ""
            self._refuse(lane, f"topic {topic} of the target: {name_of(code)}{where}; {fixes[ErrorCode(code)]}")
        else:
            self._leave(lane, f"topic {topic} of the target answers {name_of(code)}{_WHY.get(code, '')}")


def _produced(answer: Answer, requested: Set[Partition]) -> list[tuple[Partition, dict[str, Any]]]:
    """:raises RemoteProtocolError: a partition is missing or repeated: the fate of its records is unknown."""
    message = answer.message(LIMITS)
    found = [
        ((topic["name"], part["index"]), part)
        for topic in message["responses"]
        for part in topic["partition_responses"]
    ]
    if len(found) != len(requested) or {key for key, _ in found} != requested:
        raise RemoteProtocolError(
            f"answered a produce of {len(requested)} partitions with {len(found)}, or with others"
        )
    return found
