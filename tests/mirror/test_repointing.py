"""A repointed mirror continues from the new writer, at the record that its copy lacks."""

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.mirror.notes import CopyId, Note, Notes, encode
from ha_core.mirror.progress import PAGE_RUNS, Copied, CopyDamagedError, Progress, ProgressBuilder, TopicIds, Writer
from ha_core.mirror.repointing import (
    CopyState,
    CopySurplus,
    composed,
    next_offset,
    only_in,
    repointed_notes,
    require_one_source,
    surplus,
)
from ha_core.model import Run

OLD, NEW = Writer(7, 3), Writer(9, 0)


class Log(NamedTuple):
    """A copy as a list: the source's record at each of its offsets; None: a marker."""

    records: list[int | None]
    reached: int
    """The first source offset that it lacks."""

    def state(self) -> CopyState:
        account = ProgressBuilder(Progress(OLD, source=0, target=0))
        for offset, record in enumerate(self.records):
            if record is None:
                account.pass_over(offset)
            else:
                account.add(Copied(record, 1))
        account.source = max(account.source, self.reached)
        progress = account.progress()
        return CopyState(progress, progress.runs)

    def records_by_runs(self, runs: tuple[Run, ...], writer: "Log") -> list[tuple[int | None, int | None]]:
        """(record in the writer, record here) of each offset of the runs."""
        return [
            (writer.records[run.source + n], self.records[run.target + n]) for run in runs for n in range(run.records)
        ]


SOURCE = st.lists(st.booleans(), max_size=60)
"""True: a committed record."""
MARKERS = st.sets(st.integers(0, 59), max_size=12)


def copy_of(source: list[bool], markers: set[int], reached: int) -> Log:
    """A copy of everything below `reached`, with a marker before each record of `markers`."""
    held = list[int | None]()
    for offset, record in enumerate(source[:reached]):
        held += ([None] if offset in markers else []) + ([offset] if record else [])
    return Log(held, min(reached, len(source)))


@given(SOURCE, MARKERS, MARKERS, st.integers(0, 60), st.integers(0, 60))
def test_a_repointed_copy_gets_each_record_of_the_writer_once(
    source: list[bool], there: set[int], here: set[int], writer_reached: int, reached: int
) -> None:
    # Given two copies of a source, with markers at different offsets
    writer, other = copy_of(source, there, writer_reached), copy_of(source, here, reached)
    base, end = len(writer.records) + 1, len(other.records) + 1
    # When the one becomes the writer, then records of the other that it lacks are found
    found = surplus(writer.state(), other.state())
    beyond = [record for record in other.records if record is not None and record >= writer.reached]
    if beyond:
        assert found == CopySurplus(len(beyond), other.records.index(beyond[0]))
        return
    assert found is None
    # And if there are none, the other continues with what it lacks
    _, begun = repointed_notes(writer.state(), other.state(), base, NEW, end)
    assert all(one == another for one, another in other.records_by_runs(begun.runs, writer))
    held = {record for record in other.records if record is not None}
    covered = [writer.records[run.source + n] for run in begun.runs for n in range(run.records)]
    assert set(covered) == held
    assert len(covered) == len(held)
    missing = {record for record in writer.records if record is not None} - held
    assert {record for record in writer.records[begun.source :] if record is not None} == missing
    # And its notes are as those of any copier
    assert (begun.target, begun.base, begun.source_base) == (end, end, begun.source)
    assert all(
        one.after <= after.source and one.target + one.records <= after.target and one != after
        for one, after in pairwise(begun.runs)
    )
    assert not any(
        (one.after, one.target + one.records) == (after.source, after.target) for one, after in pairwise(begun.runs)
    )


def test_a_copy_that_lags_goes_on_in_the_middle_of_a_run() -> None:
    runs = (Run(0, 0, 40), Run(40, 41, 20))
    assert next_offset(runs, 45, 61) == 46
    assert next_offset(runs, 40, 61) == 41
    assert next_offset(runs, 60, 61) == 61
    assert next_offset((), 3, 8) == 8
    # Also where the first records of the source are in no copy
    assert next_offset((Run(10, 0, 5),), 3, 6) == 0


def test_runs_that_touch_in_both_copies_are_one() -> None:
    # Given an aborted record at 10, which neither copy has
    there = (Run(0, 0, 10), Run(11, 10, 5))
    assert list(composed(there, there)) == [Run(0, 0, 15)]
    # And runs that overlap in parts
    assert list(composed((Run(0, 5, 10),), (Run(2, 0, 3), Run(7, 4, 9)))) == [Run(7, 0, 3), Run(12, 4, 3)]
    assert list(composed((), there)) == []


def test_records_that_only_one_copy_got_before_their_source_compacted_them_are_counted() -> None:
    all_of_them, some = (Run(0, 0, 10),), (Run(0, 0, 4), Run(6, 4, 4))
    first, second = (CopyState(Progress(OLD, 10, 10, runs=runs), runs) for runs in (all_of_them, some))
    assert (only_in(first, second), only_in(second, first)) == (0, 2)


def test_copies_of_two_topics_of_one_name_are_not_composed() -> None:
    first, second = (Progress(OLD, 0, 0, topics=TopicIds(source, "b")) for source in ("a1", "a2"))
    with pytest.raises(CopyDamagedError, match="deleted and re-created between the two"):
        require_one_source(first, second)
    # And brokers without ids tell nothing
    for known in (first, Progress(OLD, 0, 0)):
        require_one_source(known, first)
        require_one_source(first, known)


def test_a_map_of_many_runs_is_written_in_pages_and_has_the_ids_of_both_copies() -> None:
    runs = tuple(Run(2 * number, number, 1) for number in range(3 * PAGE_RUNS + 5))
    first, second = (Progress(OLD, 10**6, 10**5, topics=TopicIds("s", name)) for name in ("t", "o"))
    shifted = tuple(Run(2 * number, 2 * number, 1) for number in range(3 * PAGE_RUNS + 5))
    pages, progress = repointed_notes(CopyState(first, runs), CopyState(second, shifted), 10**6, NEW, 10**6)
    copy, kept = CopyId("link-2", "orders", 0), Notes(CopyId("link-2", "orders", 0), whole_map=True)
    written: list[Note] = [*pages, progress]
    for note in written:
        kept.add(*encode(copy, note))
    assert len(pages) == progress.pages == 3
    assert kept.runs == tuple(Run(number, 2 * number, 1) for number in range(3 * PAGE_RUNS + 5))
    assert progress.topics == TopicIds("t", "o")
