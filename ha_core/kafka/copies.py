"""Reads copies and their sources, and begins the copies of a reversed mirror.

Reading changes nothing: no new epoch, no marker, no disturbance of copiers. While a copier is at work, the copy's end
is read first and its notes after that. So everything below the end is covered by an intent or progress that is read,
see `ha_core.mirror.progress`.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from ha_core.kafka.brokers import Answers, Asking, topic_entries
from ha_core.kafka.errors import KafkaAdminError, TakenOverError, TopicMissingError
from ha_core.kafka.facts import LogEnds
from ha_core.kafka.offsets import Leaders, ends
from ha_core.kafka.partition_log import PartitionLog
from ha_core.kafka.takeover import CopyPartition, Fenced, Takeover
from ha_core.mirror.comparing import CopyMap, current_progress
from ha_core.mirror.notes import CopyId, Note, Notes, encode
from ha_core.mirror.partition_diff import RecordDifference
from ha_core.mirror.split import Record, pack
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.copied_batch import CONTROL, claim

T = TypeVar("T")
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
        self,
        copies: Iterable[CopyPartition],
        first: Callable[[Fenced], Iterable[Note]],
        timeout_s: float | None = None,
        begun: Callable[[Fenced, Notes], bool] = lambda _, notes: notes.progress is not None,
    ) -> list[CopyId]:
        """Begins copies with the notes from `first`, except those that have begun, so a killed run can be repeated.

        :param begun: whether a copy goes on with its own notes.
        :return: copies that are begun now.
        :raises TakenOverError: another process copies one of them.
        """
        by_log: dict[Partition, list[CopyPartition]] = {}
        for copy in copies:
            by_log.setdefault(copy.log, []).append(copy)
        asking, seeded = self.asking(timeout_s), list[CopyId]()
        for log, several in by_log.items():
            # Fence before reading notes: a copier that has begun since is refused, or has written its notes.
            fenced = _all(self.fence_copies(several, timeout_s).values())
            notes = self.read_notes(log, {copy.id: 0 for copy in several})
            new = [fenced_copy for fenced_copy in fenced if not begun(fenced_copy, notes[fenced_copy.copy.id])]
            _all(
                asking.on_each(new, lambda fenced_copy: _write(self.asking(timeout_s), fenced_copy, first(fenced_copy)))
            )
            seeded += [fenced_copy.copy.id for fenced_copy in new]
        return seeded

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
