"""Copiers of one partition in a world of brokers in memory, each of which may die or stall between any two writes."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ha_core.mirror.notes import CopyId, Note, Notes, encode
from ha_core.mirror.partition import Aborted, Claimed, PartitionCopy
from ha_core.mirror.progress import Copied, DisplacedError, Intent, Progress, Writer
from ha_core.mirror.recovery import data_end, recover
from ha_core.wire.records import Batch

START = Progress(Writer(7, 0), source=0, target=0)


def header(at: int, records: int, writer: Writer, attributes: int = 0, sequence: int = 0) -> Batch:
    return Batch(0, at, 2, attributes, records - 1, *writer, sequence, records, 0)


def marker(at: int, epoch: int) -> Batch:
    return header(at, 1, Writer(7, epoch), 0x30)


class SourceAnswer(NamedTuple):
    """An answer to a fetch."""

    records: bytes
    aborted: tuple[Aborted, ...] = ()


class SourceLog(Protocol):
    @property
    def log_start(self) -> int: ...

    def answer(self, offset: int, most: int) -> SourceAnswer:
        """At most `most` batches from `offset` on, which is not below the log start."""


@dataclass
class World:
    """The target's brokers: a copy, its partition of the copy log, and their fences."""

    copy: list[tuple[Batch, Copied | None]] = field(default_factory=list)
    log: dict[bytes, bytes] = field(default_factory=dict)
    issued: int = 0
    seen_by_copy: int = 0
    seen_by_log: int = 0
    log_start: int = 0
    """Log start of the copy."""
    overtaken: list[range] = field(default_factory=list)
    """Source offsets that copiers have written down as passed, because the source had deleted them."""

    @property
    def tail(self) -> list[Batch]:
        return [one for one, _ in self.copy if one.last_offset >= self.log_start]

    @property
    def end(self) -> int:
        return self.copy[-1][0].last_offset + 1 if self.copy else 0

    @property
    def notes(self) -> Notes:
        found = Notes(ID, whole_map=True)
        for key, value in self.log.items():
            found.add(key, value)
        return found

    def append(self, writer: Writer, batch: Copied) -> int | None:
        """Its offset; None: refused."""
        if writer.epoch < self.seen_by_copy:
            return None
        mine = [one for one, copied in self.copy if copied and (one.producer_id, one.producer_epoch) == writer]
        sequence = sum(one.records_count for one in mine)
        self.copy.append((header(self.end, batch.records, writer, sequence=sequence), batch))
        return self.copy[-1][0].base_offset

    def note(self, writer: Writer, note: Note) -> bool:
        if writer.epoch < self.seen_by_log:
            return False
        key, value = encode(ID, note)
        self.log[key] = value
        return True

    def mark_copy(self, epoch: int) -> None:
        if epoch >= self.seen_by_copy:
            self.seen_by_copy = epoch
            self.copy.append((marker(self.end, epoch), None))

    def mark_log(self, epoch: int) -> None:
        self.seen_by_log = max(self.seen_by_log, epoch)


ID = CopyId("east-west", "orders", 0)
Life = Iterator["Copier"]


class Copier:
    """One life of a copier; each `next` is one write that a broker has accepted or refused."""

    def __init__(self, world: World, source: SourceLog, rnd: random.Random) -> None:
        self.world, self.source, self.rnd = world, source, rnd
        world.issued += 1
        self.writer = Writer(7, world.issued)
        self.steps = self._run()

    def _run(self) -> Life:
        yield self
        progress = yield from self._take_over()
        if progress is None or not (yield from self._write([progress])):
            return
        copy = PartitionCopy(progress)
        noting = deque[Intent]()
        claimed = deque[Claimed]()
        while True:
            if copy.next_offset < self.source.log_start and copy.idle:
                passed = range(copy.next_offset, self.source.log_start)
                copy.pass_overtaken(self.source.log_start)
                if not (yield from self._write(copy.notes(), passed)):
                    return
            answer, aborted = b"", tuple[Aborted, ...]()
            if copy.next_offset >= self.source.log_start:
                answer, aborted = self.source.answer(copy.next_offset, self.rnd.randint(1, 5))
            if answer and copy.has_slots and self.rnd.random() < 0.5:
                noting += copy.fetched(bytearray(answer), aborted)
            if noting and self.rnd.random() < 0.7:
                if not (yield from self._write([noting.popleft()])):
                    return
                claimed += copy.noted()
            if claimed and self.rnd.random() < 0.8:
                one = claimed.popleft()
                offset = self.world.append(self.writer, one.copied[-1])
                if offset is None:
                    return
                yield self
                try:
                    copy.appended(offset)
                except DisplacedError:
                    return  # the next life finds out what precedes it
            # Now and then, in the middle of an intent as well
            if self.rnd.random() < 0.2 or copy.due:
                notes = copy.notes()
                if not (yield from self._write(notes)):
                    return
                written = notes[-1]
                assert isinstance(written, Progress)
                copy.recorded(written)
            if not answer and copy.idle and copy.next_offset >= self.source.log_start:
                return

    def _take_over(self) -> Generator[Copier, None, Progress | None]:
        world, rnd, epoch = self.world, self.rnd, self.writer.epoch
        if epoch < world.issued:
            return None  # the coordinator knows a newer one
        marks = [world.mark_copy, world.mark_log]
        rnd.shuffle(marks)
        # Each is written at least once, and again if the coordinator did not learn of it
        for mark in marks:
            for _ in range(rnd.choice((1, 1, 1, 2, 3))):
                mark(epoch)
                yield self
        # The end of the copy is read before the log: copiers with records below it have a progress in the log
        copy_end, tail = world.end, world.tail
        yield self
        notes = world.notes
        progress = notes.progress or START
        if self.writer.is_before(progress.writer):
            return None
        yield self
        end = data_end(tail, progress, copy_end)
        return recover(progress, notes.intents.values(), end).taken_over(self.writer, copy_end)

    def _write(self, notes: Iterable[Note], passed: range = range(0)) -> Generator[Copier, None, bool]:
        """:param passed: offsets that the last one of these writes down as passed."""
        for note in notes:
            if not self.world.note(self.writer, note):
                return False
            if passed and isinstance(note, Progress):
                self.world.overtaken.append(passed)
            yield self
        return True
