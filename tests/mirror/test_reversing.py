"""A reversed mirror knows its map, and copies nothing twice."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.mirror.notes import CopyId, Notes, encode
from ha_core.mirror.partition import Aborted
from ha_core.mirror.progress import (
    PAGE_RUNS,
    Copied,
    CopyDamagedError,
    Intent,
    Progress,
    ProgressBuilder,
    TopicIds,
    Writer,
)
from ha_core.mirror.reversing import copied_below, reversed_notes
from ha_core.mirror.split import Record
from ha_core.model import Run
from ha_core.wire.records import Batch
from tests.mirror import batches
from tests.mirror.batches import MS, marker
from tests.mirror.logs import Held, packed

COPY = CopyId("link-1", "orders", 0)
OLD, NEW = Writer(7, 3), Writer(9, 0)


def header(at: int, records: int, writer: Writer, attributes: int = 0, sequence: int = 0) -> Batch:
    return Batch(0, at, 2, attributes, records - 1, *writer, sequence, records, 0)


def noted(*notes: object) -> Notes:
    found = Notes(COPY, whole_map=True)
    for note in notes:
        found.add(*encode(COPY, note))  # type: ignore[arg-type]
    return found


def test_batches_above_the_last_progress_are_known_below_the_base() -> None:
    # Given a copy whose last two batches no progress covers, and records of its clients above them
    progress = Progress(OLD, source=10, target=12, runs=(Run(0, 2, 10),))
    intent = Intent(OLD, 0, (Copied(10, 4), Copied(20, 1)))
    tail = [header(12, 4, OLD), header(16, 1, OLD, sequence=4), header(17, 6, Writer(500, 0))]
    # When its state is recovered as it was when it became the writer, at 17
    found, runs = copied_below(noted(progress, intent), tail, base=17)
    # Then all of the mirror is known, and none of the clients' records
    assert runs == (Run(0, 2, 14), Run(20, 16, 1))
    assert (found.source, found.target) == (21, 17)


def test_markers_below_the_base_belong_to_no_record() -> None:
    progress = Progress(OLD, source=10, target=12, runs=(Run(0, 2, 10),))
    intent = Intent(OLD, 0, (Copied(10, 4),))
    tail = [header(12, 4, OLD), header(16, 1, Writer(7, 4), 0x30), header(17, 6, Writer(500, 0))]
    found, runs = copied_below(noted(progress, intent), tail, base=17)
    assert (found.source, runs) == (14, (Run(0, 2, 14),))


def test_notes_that_contradict_the_copy_are_damage() -> None:
    with pytest.raises(CopyDamagedError, match="there are no notes"):
        copied_below(Notes(COPY), [], base=3)
    with pytest.raises(CopyDamagedError, match="known up to 12"):
        copied_below(noted(Progress(OLD, source=10, target=12)), [header(12, 4, OLD)], base=16)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 9)), max_size=30),
    st.integers(1, 5),
    st.integers(1, 50),
)
def test_mirror_reversed_twice_is_unchanged(gaps: list[tuple[int, int, int]], markers: int, tail: int) -> None:
    # Given runs with gaps on either side
    runs, source, target = list[Run](), 0, 0
    for left_out, others, records in gaps:
        source, target = source + left_out, target + others
        if runs and (runs[-1].after, runs[-1].target + runs[-1].records) == (source, target):
            source += 1
        runs.append(Run(source, target, records))
        source, target = source + records, target + records
    base, end = target + markers, source + tail
    old = Progress(OLD, source, target, topics=TopicIds("aa", "bb"))
    # When the mirror is reversed, and once more
    _, there = reversed_notes(old, runs, base, NEW, end)
    _, back = reversed_notes(there, there.runs, end, OLD, base)
    # Then its map is unchanged, copying continues above both logs, and no unmirrored record counts as copied
    assert back.runs == tuple(runs)
    assert (there.source, there.target, there.base, there.topics) == (base, end, end, TopicIds("bb", "aa"))
    assert (there.source_base, back.source_base) == (base, end)
    assert all(run.after <= base and run.target + run.records <= end for run in there.runs)
    assert all(one.after <= other.source for one, other in pairwise(there.runs))


def test_a_map_of_many_runs_is_written_in_pages() -> None:
    runs = [Run(2 * number, number, 1) for number in range(3 * PAGE_RUNS + 5)]
    pages, progress = reversed_notes(Progress(OLD, 10**6, 10**5), runs, 10**5, NEW, 10**6)
    kept = noted(*pages, progress)
    assert len(pages) == progress.pages == 3
    assert kept.runs == tuple(run.reversed for run in runs)
    # And a copier that continues from it adds to it
    account = ProgressBuilder(progress)
    account.add(Copied(10**5 + 4, 3))
    assert account.progress().runs[-1] == Run(10**5 + 4, 10**6, 3)
    assert account.progress().base == 10**6


def test_old_source_that_lost_mirrored_records_is_not_reversed() -> None:
    # Given a source that had 100 records, all mirrored, and is back with 90 and the new copier's marker
    runs = (Run(0, 0, 100),)
    old = Progress(OLD, source=100, target=100, runs=runs)
    # When its mirror is reversed, that is damage
    with pytest.raises(CopyDamagedError, match="offset 99 was mirrored, and the log ended at 90"):
        reversed_notes(old, runs, 100, NEW, end=91)
    # Also if markers have filled the lost offsets since
    markers = [header(99, 1, Writer(300, 5), 0x30)]
    with pytest.raises(CopyDamagedError, match="a marker lies there"):
        reversed_notes(old, runs, 100, NEW, end=104, last=markers)
    # And records that the source still has, or that retention has removed, are no damage
    for kept in ([header(95, 5, Writer(300, 4))], []):
        _, begun = reversed_notes(old, runs, 100, NEW, end=101, last=kept)
        assert begun.target == begun.base == 101


def test_records_below_the_base_are_not_read_at_takeovers() -> None:
    # Given a reversed mirror, above an unmirrored tail of ten million records
    runs = (Run(0, 0, 500),)
    _, begun = reversed_notes(Progress(OLD, 500, 500, runs=runs), runs, 500, NEW, end=10_000_501)
    # Then none of the tail is read
    assert begun.last_record == -1
    # Until the copier has a record there
    assert begun.with_batches([Copied(500, 5)]).last_record == 10_000_505


def test_compacted_log_with_an_unmirrored_tail_becomes_no_copy() -> None:
    # Given a source with three mirrored records, and above them an aborted one and an unmirrored tail
    runs, old = (Run(0, 0, 3),), Progress(OLD, source=3, target=3, runs=(Run(0, 0, 3),))
    mirrored = packed(0, [Record.of(at, MS, b"k", b"mirrored") for at in range(3)])
    aborted = batches.records(3, range(1), producer=500, sequence=0, transactional=True)
    ended, tail = marker(4, 500, 0), packed(5, [Record.of(5, MS, b"k", b"acknowledged")])
    # When its mirror is reversed, then its cleaner could remove the mirrored record in favour of the tail's
    with pytest.raises(CopyDamagedError, match="offset 5 was not mirrored, and the topic is compacted") as error:
        reversed_notes(old, runs, 4, NEW, end=7, cleaned=Held([mirrored, aborted, ended, tail], (Aborted(500, 3),)))
    assert "delete the topic there, and link it anew" in str(error.value)
    # And aborted records do no harm, nor does any tail in a topic that is not compacted
    for cleaned in (Held([mirrored, aborted, ended], (Aborted(500, 3),)), None):
        _, begun = reversed_notes(old, runs, 4, NEW, end=7, cleaned=cleaned)
        assert begun.runs == (Run(0, 0, 3),)
