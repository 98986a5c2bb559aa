"""Committed records, or all of them: what a copier claims of plain batches and transactions, and where it goes on."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.mirror.comparing import Comparison, CopyMap, ranges
from ha_core.mirror.partition import Aborted, PartitionCopy
from ha_core.mirror.progress import Copied, Progress, Writer
from ha_core.mirror.recovery import DataEnd, data_end, recover
from ha_core.model import Run
from ha_core.model.isolation import Isolation
from ha_core.wire.copied_batch import CONTROL, TRANSACTIONAL
from ha_core.wire.records import batches
from tests.mirror.batches import Target, marker, records
from tests.mirror.fetched_transactions import FROM_3_9_2, FROM_4_3_1, HIGH_WATERMARK, LAST_STABLE, VALUES, Fetched
from tests.mirror.lives import Copier, SourceAnswer, World
from tests.mirror.logs import Held

ABORT, COMMIT = 0, 1
PLAIN, IDEMPOTENT, FIRST, SECOND, THIRD = -1, 70, 71, 72, 73
"""Producers; the last three are transactional."""
ISOLATIONS = pytest.mark.parametrize("isolation", Isolation, ids=["all records", "committed records"])
START = Progress(Writer(900, 3), source=0, target=0)


class Written(NamedTuple):
    first: int
    last: int
    raw: bytes
    copied: Copied | None = None
    """None: a marker."""


class AbortedTransaction(NamedTuple):
    """:ivar marker: offset of its marker."""

    producer: int
    first: int
    marker: int


@dataclass
class Log:
    """A partition of the source, as its broker answers fetches of it."""

    isolation: Isolation
    written: list[Written] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)
    """Producer → first offset of its open transaction."""
    aborted: list[AbortedTransaction] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    log_start: int = 0

    @property
    def end(self) -> int:
        return self.written[-1].last + 1 if self.written else 0

    @property
    def readable_end(self) -> int:
        return self.isolation.end(min(self.open.values(), default=self.end), self.end)

    def write(self, producer: int, count: int, codec: int = 0) -> None:
        at, transactional = self.end, producer >= FIRST
        sequence = -1 if producer == PLAIN else self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + count
        if transactional:
            self.open.setdefault(producer, at)
        last = -1 if producer == PLAIN else sequence + count - 1
        copied = Copied(at, count, producer, -1 if producer == PLAIN else 1, last)
        self.written.append(
            Written(at, at + count - 1, records(at, range(count), codec, producer, sequence, transactional), copied)
        )

    def ends(self, producer: int, kind: int) -> None:
        """Writes the marker of the producer's transaction, if it has one."""
        first, at = self.open.pop(producer, None), self.end
        if first is None:
            return
        self.written.append(Written(at, at, marker(at, producer, kind)))
        if kind == ABORT:
            self.aborted.append(AbortedTransaction(producer, first, at))

    def answer(self, offset: int, most: int = 1 << 30) -> SourceAnswer:
        """A broker adds to a fetch of committed records the aborted transactions that reach into it."""
        found = [one for one in self.written if one.last >= offset and one.first < self.readable_end][:most]
        raw = b"".join(one.raw for one in found)
        if self.isolation is Isolation.UNCOMMITTED or not found:
            return SourceAnswer(raw)
        reach = [one for one in self.aborted if one.marker >= offset and one.first <= found[-1].last]
        return SourceAnswer(raw, tuple(Aborted(one.producer, one.first) for one in reach))

    @property
    def seen(self) -> list[Copied]:
        """Batches that a consumer of this isolation gets."""
        return [
            one.copied
            for one in self.written
            if one.copied is not None
            and one.first < self.readable_end
            and not (self.isolation is Isolation.COMMITTED and self._was_aborted(one))
        ]

    def _was_aborted(self, one: Written) -> bool:
        return any(
            one.copied is not None
            and one.copied.producer_id == aborted.producer
            and aborted.first <= one.first < aborted.marker
            for aborted in self.aborted
        )


def three_transactions(isolation: Isolation) -> Log:
    """An aborted, a committed and an open one, written in turns, and a plain record after each part."""
    log = Log(isolation)
    for _ in range(2):
        for producer in (FIRST, SECOND):
            log.write(producer, 2, codec=3)
    log.write(PLAIN, 1)
    log.ends(FIRST, ABORT)
    log.ends(SECOND, COMMIT)
    log.write(IDEMPOTENT, 1)
    log.write(THIRD, 2)
    log.write(PLAIN, 1)
    return log


@pytest.mark.parametrize(
    ("isolation", "runs", "following"),
    [
        # Between the runs are: the aborted batches, the two markers, and all from the open transaction on
        (Isolation.COMMITTED, (Run(2, 0, 2), Run(6, 2, 3), Run(11, 5, 1)), 12),
        # Between the runs are the two markers alone
        (Isolation.UNCOMMITTED, (Run(0, 0, 9), Run(11, 9, 4)), 15),
    ],
    ids=["committed records", "all records"],
)
def test_a_copy_has_the_records_of_its_isolation_at_the_offsets_of_its_map(
    isolation: Isolation, runs: tuple[Run, ...], following: int
) -> None:
    # Given a log with an aborted, a committed and an open transaction
    log, copy, target = three_transactions(isolation), PartitionCopy(START), Target(START.writer)
    # When a copier takes what its broker answers
    target.copy_all(copy, *log.answer(0))
    # Then the copy has these records, and goes on at the end for readers of the isolation
    assert copy.progress.runs == runs
    assert copy.next_offset == log.readable_end == following
    # And a successor recovers the same state from the copy
    recovered = recover(START, target.intents, DataEnd(copy.target))
    assert recovered == copy.progress


@pytest.mark.parametrize("fetched", [FROM_3_9_2, FROM_4_3_1], ids=["3.9.2", "4.3.1"])
@pytest.mark.parametrize(
    ("isolation", "runs", "hidden"),
    [
        (Isolation.COMMITTED, (Run(0, 0, 1), Run(3, 1, 3), Run(8, 4, 1)), {1, 2, 10, 11, 12}),
        (Isolation.UNCOMMITTED, (Run(0, 0, 6), Run(8, 6, 1), Run(10, 7, 3)), set[int]()),
    ],
    ids=["committed records", "all records"],
)
def test_answers_of_real_brokers_are_copied_as_their_isolation_says(
    fetched: Fetched, isolation: Isolation, runs: tuple[Run, ...], hidden: set[int]
) -> None:
    copy, target = PartitionCopy(START), Target(START.writer)
    if isolation is Isolation.COMMITTED:
        target.copy_all(copy, fetched.records[: fetched.committed_bytes], fetched.aborted)
    else:
        target.copy_all(copy, fetched.records)
    assert copy.progress.runs == runs
    assert copy.next_offset == isolation.end(LAST_STABLE, HIGH_WATERMARK)
    values = [record.value for _, record in target.log]
    assert values == [value for offset, value in enumerate(VALUES) if value is not None and offset not in hidden]


@ISOLATIONS
def test_no_batch_of_a_copy_is_transactional(isolation: Isolation) -> None:
    log, copy = three_transactions(isolation), PartitionCopy(START)
    answer = log.answer(0)
    assert any(batch.attributes & TRANSACTIONAL for batch in batches(answer.records, 0, len(answer.records)))
    claimed = [one for _ in copy.fetched(bytearray(answer.records), answer.aborted) for one in copy.noted()]
    headers = [next(batches(one.data, 0, len(one.data))) for one in claimed]
    assert len(headers) == len(log.seen)
    assert not any(header.attributes & (TRANSACTIONAL | CONTROL) for header in headers)
    assert {(header.producer_id, header.producer_epoch) for header in headers} == {START.writer}


@ISOLATIONS
def test_the_last_sequences_are_those_of_the_copied_batches(isolation: Isolation) -> None:
    log, copy, target = three_transactions(isolation), PartitionCopy(START), Target(START.writer)
    target.copy_all(copy, *log.answer(0))
    last = {one.producer_id: (one.epoch, one.last_sequence) for one in log.seen if one.producer_id >= 0}
    assert copy.progress.producers == last
    assert (FIRST in last) == (isolation is Isolation.UNCOMMITTED)


def test_a_copy_that_changes_to_committed_records_inside_a_transaction_has_each_record_once() -> None:
    # Given a copier of all records that has copied a part of an open transaction
    log, copy, target = Log(Isolation.UNCOMMITTED), PartitionCopy(START), Target(START.writer)
    log.write(FIRST, 3)
    log.write(PLAIN, 1)
    target.copy_all(copy, *log.answer(0))
    # When it is to copy committed records only, and the transaction goes on and is aborted
    log.isolation = Isolation.COMMITTED
    assert log.answer(copy.next_offset).records == b""
    log.write(FIRST, 2)
    log.write(SECOND, 1)
    log.ends(FIRST, ABORT)
    log.ends(SECOND, COMMIT)
    target.copy_all(copy, *log.answer(copy.next_offset))
    # Then the change counts from the next record on
    assert copy.progress.runs == (Run(0, 0, 4), Run(6, 4, 1))
    assert copy.next_offset == log.end


def test_a_copy_of_all_records_equals_its_source_and_one_of_committed_records_does_not() -> None:
    # Given the copy of an uncommitted reader
    log, copy, target = three_transactions(Isolation.UNCOMMITTED), PartitionCopy(START), Target(START.writer)
    held = Held()
    answer = log.answer(0)
    for _ in copy.fetched(bytearray(answer.records), answer.aborted):
        for ready in copy.noted():
            at = target.append(bytes(ready.data))
            held.data.append(at.to_bytes(8, "big") + bytes(ready.data)[8:])
            copy.appended(at)
    # When it is compared with the log as each kind of reader sees it
    (span,) = ranges(CopyMap.of(copy.progress), 0, copy.progress.source, 1 << 40)
    everything = Comparison(span, Held([answer.records]), held).run()
    committed = three_transactions(Isolation.COMMITTED).answer(0)
    less = Comparison(span, Held([committed.records], committed.aborted), held).run()
    # Then only the first is equal
    assert (everything.first, everything.compared) == (None, 13)
    assert less.first is not None
    assert (less.first.offset, less.first.target) == (0, 0)


def log_of(rnd: random.Random, isolation: Isolation) -> Log:
    """Up to 40 batches of plain, idempotent and transactional producers in any order, and ends of transactions."""
    log = Log(isolation)
    for _ in range(rnd.randint(1, 40)):
        producer = rnd.choice((PLAIN, IDEMPOTENT, FIRST, SECOND, THIRD))
        if rnd.random() < 0.4:
            log.ends(producer, rnd.choice((ABORT, COMMIT)))
        else:
            log.write(producer, rnd.randint(1, 4))
    return log


SEEDS = st.integers(0, 1 << 32)


def lived(log: Log, rnd: random.Random, retention: float = 0.0) -> World:
    """The target after several copiers, each of which died or stalled somewhere, and one that ran to the end.

    :param retention: share of the steps in which the source deletes records, copied or not.
    """
    world, lives = World(), list[Copier]()
    for _ in range(rnd.randint(5, 150)):
        if not lives or rnd.random() < 0.08:
            lives.append(Copier(world, log, rnd))
        one = rnd.choice(lives)
        if next(one.steps, None) is None:
            lives.remove(one)
        if rnd.random() < retention:
            log.log_start = max(log.log_start, rnd.choice([*(one.first for one in log.written), log.end]))
    for _ in Copier(world, log, rnd).steps:
        pass
    return world


def placed(world: World) -> tuple[Progress, list[tuple[int, int]]]:
    """The progress of the copy, and (source offset, offset in the copy) of each record by its map."""
    notes = world.notes
    assert notes.progress is not None
    tail = data_end(world.tail, notes.progress, world.end)
    notes.progress = recover(notes.progress, notes.intents.values(), tail)
    return notes.progress, [(run.source + i, run.target + i) for run in notes.runs for i in range(run.records)]


@settings(max_examples=300, deadline=None)
@given(SEEDS, st.sampled_from(Isolation))
def test_copiers_that_die_or_stall_anywhere_copy_each_record_of_their_isolation_once(
    seed: int, isolation: Isolation
) -> None:
    # Given any interleaving of transactions, and several copiers that may stall for any time or for ever
    rnd = random.Random(seed)
    log = log_of(rnd, isolation)
    # When they copy it
    world = lived(log, rnd)
    # Then the copy has exactly the batches that a consumer gets, once and in order, and the map places each record
    assert [copied for _, copied in world.copy if copied is not None] == log.seen
    progress, places = placed(world)
    assert places == [
        (copied.source + i, found.base_offset + i)
        for found, copied in world.copy
        if copied is not None
        for i in range(copied.records)
    ]
    assert progress.overtaken == 0


@settings(max_examples=300, deadline=None)
@given(SEEDS, st.sampled_from(Isolation))
def test_offsets_that_retention_takes_before_they_are_copied_are_counted_once(seed: int, isolation: Isolation) -> None:
    # Given a source whose retention may overtake its copiers at any moment
    rnd = random.Random(seed)
    log = log_of(rnd, isolation)
    # When they copy it, and pass what it has deleted
    world = lived(log, rnd, retention=0.1)
    # Then each record is in the copy once and in order, or among the passed ones, which no copier counts twice
    passed = [offset for some in world.overtaken for offset in some]
    assert len(passed) == len(set(passed))
    progress, places = placed(world)
    copied = [source for source, _ in places]
    assert copied == sorted(set(copied))
    assert not set(copied) & set(passed)
    every = {one.source + i for one in log.seen for i in range(one.records)}
    assert every - set(copied) <= set(passed)
    # And the notes have their number
    assert progress.overtaken == len(passed)
