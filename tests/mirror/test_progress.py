"""Recovery by a successor, after copiers have died or stalled between any two writes."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.mirror.progress import (
    MAX_PRODUCERS,
    PAGE_RUNS,
    Copied,
    CopyDamagedError,
    Intent,
    ProgressBuilder,
    RunPage,
    Writer,
)
from ha_core.mirror.recovery import DataEnd, data_end, good_part, recover
from ha_core.model import Run
from ha_core.wire.records import Batch
from tests.mirror.lives import START, Copier, SourceAnswer, World, header, marker
from tests.wire.samples import batch


def test_copy_with_more_records_than_intended_is_damaged() -> None:
    with pytest.raises(CopyDamagedError, match="known up to 0"):
        recover(START, [], DataEnd(4))


def test_a_copy_that_ends_inside_a_batch_is_damaged() -> None:
    with pytest.raises(CopyDamagedError, match="inside the batch"):
        recover(START, [Intent(Writer(7, 0), 0, (Copied(0, 5),))], DataEnd(4))


def test_foreign_records_are_found() -> None:
    tail = [header(0, 5, Writer(7, 0)), header(5, 1, Writer(8, 0)), marker(6, 1)]
    with pytest.raises(CopyDamagedError, match="producer 8"):
        data_end(tail, START, 7)


def test_good_part_of_a_copy_ends_at_a_foreign_record() -> None:
    # Given an intent of three batches, two of them appended, and a foreign record above them
    writer = Writer(7, 0)
    intent = Intent(writer, 0, (Copied(0, 3), Copied(5, 2), Copied(9, 4)))
    tail = [header(0, 3, writer), header(3, 2, writer, sequence=3), header(5, 1, Writer(8, 0)), marker(6, 1)]
    with pytest.raises(CopyDamagedError):
        data_end(tail, START, 7)
    # Then everything below the foreign record is known with its source offsets, without guessing
    good = good_part(START, [intent], tail, 7)
    assert good is not None
    assert (good.source, good.target, good.runs) == (7, 5, (Run(0, 0, 3), Run(5, 3, 2)))


def test_copy_that_lost_acknowledged_records_has_no_good_part() -> None:
    progress = START.with_batches([Copied(0, 100)])
    assert good_part(progress, [], [header(0, 99, Writer(7, 0)), marker(99, 1)], 100) is None
    assert good_part(progress, [], [], 60) is None
    # But if only records above the newest progress are in doubt, everything noted is good
    assert good_part(START, [], [header(0, 4, Writer(7, 0))], 4) == START


def foreign(at: int) -> Batch:
    """The marker of a foreign transaction."""
    return header(at, 1, Writer(300, 5), 0x30)


def test_foreign_record_is_damage_after_any_markers() -> None:
    tail = [header(0, 3, Writer(7, 0)), foreign(3), header(4, 1, Writer(300, 5), 0x10)]
    with pytest.raises(CopyDamagedError, match="offset 4 was written by producer 300"):
        data_end(tail, START, 5)


def test_a_sequence_tells_which_records_are_missing_before_a_batch() -> None:
    # Given a copy of two batches, a foreign marker, and two more batches
    writer = Writer(7, 0)
    intents = [Intent(writer, 0, (Copied(0, 3), Copied(3, 2), Copied(9, 4), Copied(13, 2)))]
    whole = [header(0, 3, writer), header(3, 2, writer, 0, 3), foreign(5), header(6, 4, writer, 0, 5)]
    whole.append(header(10, 2, writer, 0, 9))
    # When retention removes the beginning, or compaction something in between
    for left in (whole, whole[2:], whole[3:], whole[4:], [whole[0], whole[3], whole[4]], [whole[0], whole[4]]):
        progress = recover(START, intents, data_end([*left, marker(12, 1)], START, 13))
        # Then the remaining records are mapped correctly
        assert (progress.source, progress.target, progress.sequence) == (15, 12, 11)
        offsets = {run.source + i: run.target + i for run in progress.runs for i in range(run.records)}
        placed = [offsets[source] for copied in intents[0].batches for source in range(copied.source, copied.after)]
        assert all(placed[one.base_sequence] == one.base_offset for one in left if one.attributes == 0)


def test_batch_at_an_offset_that_contradicts_its_sequence_is_damage() -> None:
    writer = Writer(7, 0)
    for at, sequence in ((4, 5), (5, 3)):  # records before it were lost, or a foreign batch came between
        tail = [header(0, 3, writer), foreign(3), header(4, 1, writer, sequence=3), header(at, 2, writer, 0, sequence)]
        with pytest.raises(CopyDamagedError, match=f"offset {at} has {sequence} records of its copier before it"):
            data_end(tail, START, at + 2)


def test_records_missing_above_the_last_one_do_not_count_as_copied() -> None:
    # Given a copy with three records and a foreign marker above them; the fourth record was noted and never appended
    writer = Writer(7, 0)
    intents = [Intent(writer, 0, (Copied(0, 3),)), Intent(writer, 1, (Copied(3, 1, 70, 0, 3),))]
    whole = [header(0, 3, writer), foreign(3), marker(4, 1)]
    # When retention removes everything below the next copier's marker, or compaction the records before it
    for left, source in ((whole, 3), (whole[:1] + whole[2:], 3), (whole[2:], 0), ([], 0)):
        progress = recover(START, intents, data_end(left, START, 5))
        # Then nothing missing counts as copied, neither in the map nor for its producer
        assert (progress.source, progress.producers) == (source, {})
        assert sum(run.records for run in progress.runs) == source


def test_a_marker_inside_a_batch_is_damage() -> None:
    with pytest.raises(CopyDamagedError, match="a marker lies at 2, inside the batch"):
        recover(START, [Intent(Writer(7, 0), 0, (Copied(0, 5),))], DataEnd(6, (2,)))


def test_copy_that_lost_acknowledged_records_is_damaged() -> None:
    with pytest.raises(CopyDamagedError, match="ends at 11, and records up to 14"):
        recover(START.with_batches([Copied(0, 14)]), [], DataEnd(11))


def test_data_above_the_marker_of_a_copier_without_progress_is_foreign() -> None:
    tail = [header(0, 5, Writer(7, 0)), marker(5, 1), header(6, 1, Writer(7, 1)), marker(7, 2)]
    with pytest.raises(CopyDamagedError, match=r"offset 6 .* above the marker"):
        data_end(tail, START, 8)


def test_a_marker_does_not_hide_that_acknowledged_records_were_lost() -> None:
    # Given a copy whose leader lost the last of a hundred records, and a takeover whose marker has that offset
    progress = START.with_batches([Copied(0, 100)])
    with pytest.raises(CopyDamagedError, match="acknowledged at offset 99"):
        data_end([header(0, 99, Writer(7, 0)), marker(99, 1)], progress, 100)
    # Then it is detected after any number of takeovers
    with pytest.raises(CopyDamagedError, match="acknowledged at offset 99"):
        data_end([marker(99, 3), marker(100, 4)], progress, 101)


def test_end_that_fits_only_a_later_batch_is_damage() -> None:
    intents = [Intent(Writer(7, 0), 0, (Copied(0, 3),)), Intent(Writer(7, 0), 1, (Copied(3, 1),))]
    with pytest.raises(CopyDamagedError, match="inside the batch"):
        recover(START, intents, DataEnd(1))


def test_a_million_gaps_cost_a_progress_no_more_than_a_page() -> None:
    account, pages = ProgressBuilder(START), list[RunPage]()
    for number in range(0, 12 * PAGE_RUNS, 2):
        account.add(Copied(number, 1))
        if number % 5000 == 0:
            written, progress = account.notes()
            pages += written
            assert len(progress.runs) <= PAGE_RUNS
    written, progress = account.notes()
    assert progress.pages == len(pages + list(written)) == 5
    runs = [run for page in [*pages, *written] for run in page.runs] + list(progress.runs)
    assert runs == [Run(2 * i, i, 1) for i in range(6 * PAGE_RUNS)]


def test_latest_producers_are_kept_above_the_limit() -> None:
    account = ProgressBuilder(START)
    for number in range(MAX_PRODUCERS + 5):
        account.add(Copied(2 * number, 1, number, 0, 0))
        account.add(Copied(2 * number + 1, 1, 1, 0, number))
    progress = account.progress()
    assert len(progress.producers) == MAX_PRODUCERS
    assert progress.forgotten == 5
    assert progress.producers[1] == (0, MAX_PRODUCERS + 4)
    assert list(progress.producers)[-2:] == [MAX_PRODUCERS + 4, 1]


class Source:
    """Batches with gaps between them, of several producers."""

    log_start = 0

    def __init__(self, rnd: random.Random) -> None:
        self.batches = list[Copied]()
        self._raw = list[bytes]()
        at = 0
        for _ in range(rnd.randint(1, 25)):
            at += rnd.choice((0, 0, 0, 1, 7))
            count, producer = rnd.randint(1, 5), rnd.choice((-1, 70, 71))
            last = at + count - 1 if producer >= 0 else -1
            self.batches.append(Copied(at, count, producer, 0 if producer >= 0 else -1, last))
            self._raw.append(batch(at, count, producer=producer, sequence=at if producer >= 0 else -1))
            at += count

    def answer(self, offset: int, most: int) -> SourceAnswer:
        left = [raw for one, raw in zip(self.batches, self._raw, strict=True) if one.source >= offset]
        return SourceAnswer(b"".join(left[:most]))


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from((0, 0.02, 0.2)), st.sampled_from((0, 0, 0.02, 0.2)))
def test_copiers_that_die_or_stall_anywhere_copy_each_record_once(seed: int, markers: float, retention: float) -> None:
    # Given a source with gaps, and several copiers, each of which may stall for any time or forever; foreign markers in
    # the copy; and retention, which may remove any part of it, even everything
    rnd = random.Random(seed)
    source, world, lives = Source(rnd), World(), list[Copier]()
    for _ in range(rnd.randint(5, 150)):
        if not lives or rnd.random() < 0.08:
            lives.append(Copier(world, source, rnd))
        one = rnd.choice(lives)
        if next(one.steps, None) is None:
            lives.remove(one)
        if rnd.random() < markers:
            world.copy.append((foreign(world.end), None))
        if rnd.random() < retention:
            world.log_start = rnd.choice((world.end, rnd.randint(world.log_start, world.end)))
    # When one of them runs to the end
    for _ in Copier(world, source, rnd).steps:
        pass
    # Then the copy has got every batch, the remaining ones once and in order, and the map and the producers are correct
    every = [copied for _, copied in world.copy if copied is not None]
    left = [(header, copied) for header, copied in world.copy if copied and header.last_offset >= world.log_start]
    assert every == source.batches or (world.log_start and sorted(set(every)) == source.batches)
    assert [copied for _, copied in left] == source.batches[len(source.batches) - len(left) :]
    notes = world.notes
    assert notes.progress is not None
    notes.progress = recover(notes.progress, notes.intents.values(), data_end(world.tail, notes.progress, world.end))
    placed = [(run.source + i, run.target + i) for run in notes.runs for i in range(run.records)]
    assert [source for source, _ in placed] == [b.source + i for b in source.batches for i in range(b.records)]
    expected = [(b.source + i, h.base_offset + i) for h, b in left for i in range(b.records)]
    assert [one for one in placed if one[1] >= world.log_start] == [
        one for one in expected if one[1] >= world.log_start
    ]
    producers = {b.producer_id: (0, b.last_sequence) for b in source.batches if b.producer_id >= 0}
    assert notes.progress.producers == producers


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 32))
def test_copy_whose_leader_loses_batches_is_correct_or_stops(seed: int) -> None:
    # Given copiers as before, and a leader of the copy that loses its last batches once
    rnd = random.Random(seed)
    source, world, lives = Source(rnd), World(), list[Copier]()
    at = rnd.randint(3, 100)

    def whole_life(copier: Copier) -> bool:
        """True if it has found the copy damaged."""
        try:
            for _ in copier.steps:
                pass
        except CopyDamagedError:
            return True
        return False

    for step in range(rnd.randint(5, 150)):
        if not lives or rnd.random() < 0.08:
            lives.append(Copier(world, source, rnd))
        one = rnd.choice(lives)
        try:
            if next(one.steps, None) is None:
                lives.remove(one)
        except CopyDamagedError:
            lives.remove(one)
        if step == at and world.copy:
            del world.copy[-rnd.randint(1, min(3, len(world.copy))) :]
            lives.clear()  # brokers refuse their batches in flight for their sequences
    # When others start again and again
    ended = [whole_life(Copier(world, source, rnd)) for _ in range(6)]
    # Then all of them stop, or the copy is correct
    assert all(ended) or [copied for _, copied in world.copy if copied is not None] == source.batches
