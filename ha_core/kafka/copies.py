"""Reads copies and their sources, and begins the copies of a reversed mirror.

Reading changes nothing: no new epoch, no marker, no disturbance of copiers. While a copier is at work, the copy's end
is read first and its notes after that. So everything below the end is covered by an intent or progress that is read,
see `ha_core.mirror.progress`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

from ha_core.kafka.brokers import Again, Answers, Asking, Brokers, topic_entries
from ha_core.kafka.errors import KafkaAdminError, TopicMissingError
from ha_core.kafka.facts import LogEnds
from ha_core.kafka.offsets import Leaders, ends, fetched
from ha_core.kafka.takeover import CopyPartition, Fenced, TakenOverError, Takeover
from ha_core.mirror.comparing import CopyMap, current_progress
from ha_core.mirror.notes import CopyId, Note, Notes, encode
from ha_core.mirror.partition import Aborted, judged
from ha_core.mirror.partition_diff import Piece, RecordDifference
from ha_core.mirror.split import Record, pack, read_records
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ApiKey, ErrorCode, name_of
from ha_core.wire.copied_batch import CONTROL, claim
from ha_core.wire.records import batches

T = TypeVar("T")
_BYTES = 4 << 20
_PRODUCE = 9
"""The last version without broker addresses in answers."""
_TIMEOUT_MS = 30_000
_FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}


class ReadCopy(NamedTuple):
    """A copy as it was at one moment."""

    ends: LogEnds
    copied: CopyMap | None
    """None: nothing is copied yet."""
    damage: RecordDifference | None = None


class _Fetched(NamedTuple):
    pieces: tuple[Piece, ...]
    after: int
    """Offset of the next fetch."""


class PartitionLog:
    """The batches of a partition that overlap `[start, end)`; the next ones are fetched while the caller works."""

    def __init__(self, brokers: Brokers, key: Partition, start: int, end: int, committed: bool = False) -> None:
        """:param committed: judge transactions; `end` is then at most the last stable offset."""
        self.log_start = 0
        self._brokers, self._key = brokers, key
        self._at, self._end, self._committed = start, end, committed
        self._leader: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[Piece]:
        at = self._at
        coming: Future[_Fetched] | None = None
        while at < self._end:
            fetched_batches = coming.result() if coming is not None else self._fetch(at)
            at = fetched_batches.after
            coming = self._brokers.pool.submit(self._fetch, at) if at < self._end else None
            yield from fetched_batches.pieces

    def _fetch(self, at: int) -> _Fetched:
        asking = self._brokers.asking()
        leaders = Leaders(asking)
        what = f"read {self._key[0]}-{self._key[1]} from offset {at}"

        def locate(wanted: set[Partition]) -> Answers[Partition, int]:
            if self._leader is None:
                for key, node in leaders.locate(wanted):
                    if isinstance(node, Again):
                        yield key, node
                        return
                    self._leader = node, leaders.epochs[key]
            assert self._leader is not None
            yield self._key, self._leader[0]

        def ask(node: int, _: list[Partition]) -> Answers[Partition, _Fetched]:
            assert self._leader is not None
            leader, self._leader = self._leader, None
            code, part = fetched(asking, node, self._key, at, leader[1], _BYTES, self._committed)
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                start = ends(asking, [self._key])[self._key].start  # not part of the broker's error
                self.log_start = max(self.log_start, start)
                # Otherwise a new leader lags the previous one.
                yield self._key, _Fetched((), start) if start > at else Again(name_of(code))
                return
            if again := asking.again(what, code):
                yield self._key, again
                return
            self._leader = leader
            yield self._key, Again("it was held back by a quota") if part is None else self._taken(at, part)

        return asking.rounds(what, [self._key], locate, ask)[self._key]

    def _taken(self, at: int, part: dict[str, Any]) -> _Fetched | Again:
        self.log_start = max(self.log_start, part["log_start_offset"])
        buf = bytes(part["records"] or b"")
        if not buf:
            readable_end = part["last_stable_offset"] if self._committed else part["high_watermark"]
            if readable_end >= self._end:
                return _Fetched((), self._end)  # the rest was compacted away
            return Again(f"it ends at {readable_end}, before {self._end}")
        if self._committed:
            aborted = [Aborted(one["producer_id"], one["first_offset"]) for one in part["aborted_transactions"] or ()]
            pieces = [Piece(batch, buf, committed) for batch, committed in judged(memoryview(buf), aborted)]
        else:
            found = batches(buf, 0, len(buf))
            pieces = [Piece(batch, buf, not batch.attributes & CONTROL) for batch in found]
        if not pieces:
            raise KafkaAdminError(
                self._brokers.cluster.name, f"{self._key[0]}-{self._key[1]}: the batch at offset {at} does not end."
            )
        wanted = tuple(piece for piece in pieces if piece.batch.base_offset < self._end or piece.batch.magic < 2)
        return _Fetched(wanted, pieces[-1].batch.last_offset + 1)


class CopiesOfMirrors(Takeover):
    def log(self, key: Partition, start: int, end: int, committed: bool = False) -> PartitionLog:
        return PartitionLog(self, key, start, end, committed)

    def read_copies(self, copies: Collection[CopyPartition], timeout_s: float | None = None) -> dict[CopyId, ReadCopy]:
        """How far each copy is, and its damage.

        :raises TopicMissingError: a copy does not exist.
        :raises CopyDamagedError: a note cannot be read.
        """
        found = ends(self.asking(timeout_s), [copy.key for copy in copies])
        notes = self.notes_of(copies)
        return {copy.id: self._read(copy, found[copy.key], notes.get(copy.id)) for copy in copies}

    def notes_of(self, copies: Collection[CopyPartition]) -> dict[CopyId, Notes]:
        """Notes of their copiers; each partition of the copy log is read once, and a missing one has no notes."""
        by_log: dict[Partition, list[CopyId]] = {}
        for copy in copies:
            by_log.setdefault(copy.log, []).append(copy.id)
        notes: dict[CopyId, Notes] = {}
        for log, several in by_log.items():
            with suppress(TopicMissingError):  # copying has not begun
                notes |= self.read_notes(log, dict.fromkeys(several, 0), whole_map=True)
        return notes

    def seed(
        self, copies: Iterable[CopyPartition], first: Callable[[Fenced], Iterable[Note]], timeout_s: float | None = None
    ) -> list[CopyId]:
        """Begins copies with the notes from `first`, except those that have begun, so a killed run can be repeated.

        :return: copies that are begun now.
        :raises TakenOverError: another process copies one of them.
        """
        by_log: dict[Partition, list[CopyPartition]] = {}
        for copy in copies:
            by_log.setdefault(copy.log, []).append(copy)
        asking, begun = self.asking(timeout_s), list[CopyId]()
        for log, several in by_log.items():
            # Fence before reading notes: a copier that has begun since is refused, or has written its notes.
            fenced = _all(asking.on_each(several, lambda copy: self.fence(copy, timeout_s)))
            notes = self.read_notes(log, {copy.id: 0 for copy in several})
            new = [fenced_copy for fenced_copy in fenced if notes[fenced_copy.copy.id].progress is None]
            _all(
                asking.on_each(new, lambda fenced_copy: _write(self.asking(timeout_s), fenced_copy, first(fenced_copy)))
            )
            begun += [fenced_copy.copy.id for fenced_copy in new]
        return begun

    def _read(self, copy: CopyPartition, log: LogEnds, notes: Notes | None) -> ReadCopy:
        end, progress = log.high_watermark, None if notes is None else notes.progress
        tail = (piece.batch for piece in self.log(copy.key, 0 if progress is None else progress.target, end))
        if notes is not None and progress is not None:
            older = notes.runs[: -len(progress.runs) or None]
            if end < progress.target:  # the rest was appended since, unless it is lost
                log = ends(self.asking(), [copy.key])[copy.key]
            found, damage = current_progress(progress, notes.intents.values(), tail, end)
            return ReadCopy(log, CopyMap.of(found, older), damage)
        foreign = next((batch for batch in tail if not batch.attributes & CONTROL), None)
        if foreign is None:
            return ReadCopy(log, None)
        return ReadCopy(
            log, None, RecordDifference(0, foreign.base_offset, "the copy has records that were not copied")
        )


def _all(found: Iterable[T | KafkaAdminError]) -> list[T]:
    """:raises KafkaAdminError: one of the results is an error."""
    done = list[T]()
    for result in found:
        if isinstance(result, KafkaAdminError):
            raise result
        done.append(result)
    return done


def _write(asking: Asking, fenced: Fenced, notes: Iterable[Note]) -> None:
    """Retries are the same batch of an idempotent producer, which brokers recognise."""
    copy, log = fenced.copy, fenced.copy.log
    leaders = Leaders(asking)
    for sequence, note in enumerate(notes):
        key, value = encode(copy.id, note)
        batch = pack([Record.of(0, int(time.time() * 1000), key, value)], 0)
        claim(batch, 0, *fenced.writer, sequence)
        entry = {"index": log[1], "records": bytes(batch)}
        message = {
            "acks": -1,
            "timeout_ms": _TIMEOUT_MS,
            "topic_data": topic_entries([(log[0], entry)], "partition_data"),
        }

        def ask(node: int, _: list[Partition], message: Mapping[str, Any] = message) -> Answers[Partition, bool]:
            answer = asking.call(node, ApiKey.PRODUCE, {"transactional_id": None, **message}, _PRODUCE)
            for topic in answer["responses"]:
                for part in topic["partition_responses"]:
                    if part["error_code"] in _FENCED:
                        raise TakenOverError(asking.cluster, f"{copy.id} was taken over by a later copier.")
                    yield log, asking.again(f"write to {log[0]}-{log[1]}", part["error_code"]) or True

        asking.rounds(f"write the first notes of {copy.id}", [log], leaders.locate, ask)


class Counted(NamedTuple):
    """Records of producers, not markers. Those of unfinished transactions count as records."""

    records: int = 0
    bytes: int = 0
    """Stored size of their batches."""
    aborted: int = 0
    """Records of aborted transactions, which were never acknowledged as committed."""

    def plus(self, other: Counted) -> Counted:
        return Counted(self.records + other.records, self.bytes + other.bytes, self.aborted + other.aborted)


class Logs(Protocol):
    def log(self, key: Partition, start: int, end: int, committed: bool = False) -> Iterable[Piece]: ...


def count(cluster: Logs, key: Partition, start: int, end: int, last_stable: int) -> Counted:
    """Counts a partition's records in `[start, end)`: acknowledged ones, and aborted ones separately.

    Only headers of batches are read, except for batches that span the start.

    :param last_stable: start of the first unfinished transaction; the log's end if there is none.
    :raises KafkaAdminError: it cannot be read.
    """
    decided = min(max(last_stable, start), end)
    counted = _count(cluster.log(key, start, decided, committed=True), start) if start < decided else Counted()
    return counted.plus(_count(cluster.log(key, decided, end), decided)) if decided < end else counted


def _count(log: Iterable[Piece], start: int) -> Counted:
    counted = Counted()
    for batch, buf, committed in log:
        if batch.attributes & CONTROL or batch.last_offset < start:
            continue
        if batch.magic == 2 and batch.base_offset >= start:
            records = batch.records_count
        else:
            records = sum(record.offset >= start for record in read_records(buf, batch))
        more = Counted(records, batch.end - batch.at) if committed else Counted(aborted=records)
        counted = counted.plus(more)
    return counted
