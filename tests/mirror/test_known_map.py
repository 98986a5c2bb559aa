"""The map of a copy, followed by notes and reports: never guessed, never behind what both have told."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.flows.translation import CopiedEnd, Translated, by_runs
from ha_core.mirror import progress as progress_module
from ha_core.mirror.known_map import KnownMap, RunTable
from ha_core.mirror.progress import Copied, CopyDamagedError, Progress, ProgressBuilder, Writer
from ha_core.model import Run

STEPS = st.lists(
    st.tuples(st.sampled_from(["copy", "copy", "take over", "note", "report", "look"]), st.integers(1, 6)), max_size=60
)


@dataclass
class Copier:
    """Copiers of one partition, one after the other.

    :ivar records: (source offset, target offset) of every copied record.
    """

    progress: Progress = field(default_factory=lambda: Progress(Writer(1, 0), 5, 0))
    records: list[tuple[int, int]] = field(default_factory=list)
    pages: dict[int, RunTable] = field(default_factory=dict)
    noted: Progress | None = None

    def __post_init__(self) -> None:
        self.account = ProgressBuilder(self.progress)

    def copy(self, count: int, gap: int) -> None:
        source = self.account.source + gap
        self.records += [(source + at, self.account.target + at) for at in range(count)]
        self.account.add(Copied(source, count))

    def note(self) -> None:
        pages, self.noted = self.account.notes()
        self.pages |= {page.number: RunTable(page.runs) for page in pages}

    def take_over(self, markers: int) -> None:
        self.note()
        assert self.noted is not None
        self.noted = self.noted.taken_over(Writer(1, self.noted.writer.epoch + 1), self.account.target + markers)
        self.account = ProgressBuilder(self.noted)


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "PAGE_RUNS", 3)


def followed(steps: list[tuple[str, int]]) -> None:
    copier, known, source = Copier(), KnownMap(), -1
    for step, number in steps:
        if step == "copy":
            copier.copy(number, gap=number % 3)
        elif step == "take over":
            copier.take_over(1 + number % 2)
        elif step == "note":
            copier.note()
        elif step == "look" and copier.noted is not None:
            known.note(copier.noted, copier.pages)
        elif step == "report":
            known.report(copier.account.newest_runs(number), copier.account.source)
        assert known.source >= source, "known records are not forgotten"
        source = known.source
        require_true(known, copier)


def require_true(known: KnownMap, copier: Copier) -> None:
    runs = [Run(*known.runs[at]) for at in range(len(known.runs))]
    assert [(run.source + at, run.target + at) for run in runs for at in range(run.records)] == [
        record for record in copier.records if record[0] < known.source
    ]
    for offset in range(known.source + 3 if known.begun else 0):
        found = by_runs(known.runs, offset, CopiedEnd(known.source, known.target))
        assert isinstance(found, Translated)
        missed = [one for one in copier.records if one[0] >= offset and one[1] < found.offset]
        twice = [one for one in copier.records if one[0] < offset and one[1] >= found.offset]
        assert not missed
        assert not twice or found.precision == "copied-end"


@given(STEPS)
def test_a_followed_map_has_each_record_that_it_claims_and_no_other(steps: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(progress_module, "PAGE_RUNS", 3)
        followed(steps)


def test_a_report_extends_the_map_over_a_takeover_without_any_note() -> None:
    copier, known = Copier(), KnownMap()
    copier.take_over(1)
    assert copier.noted is not None
    known.note(copier.noted, {})
    copier.copy(4, gap=0)
    assert known.report(copier.account.newest_runs(200), copier.account.source)
    copier.take_over(2)
    copier.copy(3, gap=2)
    assert known.report(copier.account.newest_runs(200), copier.account.source)
    assert list(known.runs) == [Run(5, 1, 4), Run(11, 7, 3)]
    assert (known.source, known.target) == (14, 10)


def test_a_report_that_begins_above_the_known_map_waits_for_a_note() -> None:
    copier, known = Copier(), KnownMap()
    copier.note()
    assert copier.noted is not None
    known.note(copier.noted, {})
    for _ in range(3):
        copier.copy(2, gap=1)
    assert not known.report(copier.account.newest_runs(2), copier.account.source)
    assert (known.source, len(known.runs)) == (5, 0)
    copier.note()
    known.note(copier.noted, copier.pages)
    assert known.source == copier.account.source


def test_records_that_retention_took_before_a_progress_had_them_are_known_where_they_were_copied_again() -> None:
    # Given records 5 to 14, of which a progress has 5 to 9 and a report all
    copier, known = Copier(), KnownMap()
    copier.copy(5, gap=0)
    copier.note()
    assert copier.noted is not None
    known.note(copier.noted, {})
    noted = copier.noted
    copier.copy(5, gap=0)
    assert known.report(copier.account.newest_runs(200), copier.account.source)
    # When retention empties the copy, and a later copier copies the last five again, above its marker at 10
    again = Copier(noted.taken_over(Writer(1, 1), 11), copier.records[:5])
    again.copy(5, gap=0)
    # Then its report contradicts what is known, and its progress replaces that
    assert known.report(again.account.newest_runs(200), again.account.source)
    again.copy(1, gap=0)
    assert not known.report(again.account.newest_runs(200), again.account.source)
    again.note()
    assert again.noted is not None
    known.note(again.noted, again.pages)
    assert list(known.runs) == [Run(5, 0, 5), Run(10, 11, 6)]


def test_an_older_report_than_the_newest_takeover_is_not_taken() -> None:
    copier, known = Copier(), KnownMap()
    copier.copy(5, gap=0)
    older = Copier(copier.account.progress(), list(copier.records))
    older.copy(5, gap=0)
    copier.take_over(9)
    assert copier.noted is not None
    known.note(copier.noted, copier.pages)
    assert not known.report(older.account.newest_runs(200), older.account.source)
    assert known.target == 14


def test_a_missing_page_is_an_error_and_changes_nothing() -> None:
    copier, known = Copier(), KnownMap()
    for _ in range(5):
        copier.copy(1, gap=1)
    copier.note()
    assert copier.noted is not None
    with pytest.raises(CopyDamagedError, match="page 0"):
        known.note(copier.noted, {})
    assert not known.begun


def test_a_table_of_runs_is_a_sequence() -> None:
    runs = [Run(1, 0, 2), Run(5, 3, 1), Run(9, 9, 4)]
    table = RunTable(runs)
    assert (list(table), table[-1], list(table[1:])) == (runs, runs[-1], runs[1:])
    table.cut(5)
    assert list(table) == runs[:1]
    assert (table.find(1), table.find(5)) == (0, None)
