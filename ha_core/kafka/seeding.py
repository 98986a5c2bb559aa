"""Writes the first notes of a copy that has none yet: how a mirror begins when another one is reversed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ha_core.kafka.brokers import Answers, Asking, by_topic
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.fencing import TakenOverError
from ha_core.kafka.offsets import Leaders
from ha_core.kafka.reading import CopyReader
from ha_core.kafka.takeover import CopyPartition, Fenced
from ha_core.mirror.notes import CopyId, Note, encode
from ha_core.mirror.split import Record, pack
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.copied_batch import claim

T = TypeVar("T")
_PRODUCE = 9
"""The last version without broker addresses in answers."""
_TIMEOUT_MS = 30_000
_FENCED = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED}


class Seeding(CopyReader):
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
        message = {"acks": -1, "timeout_ms": _TIMEOUT_MS, "topic_data": by_topic([(log[0], entry)], "partition_data")}

        def ask(node: int, _: list[Partition], message: Mapping[str, Any] = message) -> Answers[Partition, bool]:
            answer = asking.call(node, ApiKey.PRODUCE, {"transactional_id": None, **message}, _PRODUCE)
            for topic in answer["responses"]:
                for part in topic["partition_responses"]:
                    if part["error_code"] in _FENCED:
                        raise TakenOverError(asking.cluster, f"{copy.id} was taken over by a later copier.")
                    yield log, asking.again(f"write to {log[0]}-{log[1]}", part["error_code"]) or True

        asking.rounds(f"write the first notes of {copy.id}", [log], leaders.locate, ask)
