"""Finding where MirrorMaker 2 stopped: no history of MirrorMaker 2 makes a copier skip a record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.flows.alignment import (
    Alignment,
    ContradictionError,
    OffsetRange,
    RemoteRecord,
    RemoteWindow,
    SourceRecord,
    SourceWindow,
    align,
)


@dataclass
class Case:
    """A source, and a remote topic that MirrorMaker 2 has written with any number of restarts.

    :ivar copied: source offsets in the order in which MirrorMaker 2 appended them, duplicates included.
    :ivar left: offset in the remote topic → original, for each record that is still there.
    :ivar gone: source offsets whose records were removed.
    """

    source: list[SourceRecord]
    committed: int
    copied: list[int]
    left: dict[int, int]
    gone: set[int] = field(default_factory=set)
    compacted: bool = False

    def source_window(self, start: int = 0, end: int | None = None) -> SourceWindow:
        after = self.source[-1].offset + 1
        until = after if end is None else min(end, after)
        records = [one for one in self.source if start <= one.offset < until and one.offset not in self.gone]
        removed = [OffsetRange(at, at + 1) for at in sorted(self.gone) if start <= at < until]
        return SourceWindow(records, start, until, removed, until == after)

    def remote_window(self, last: int | None = None) -> RemoteWindow:
        contents = {one.offset: one.content for one in self.source}
        first = 0 if last is None else max(len(self.copied) - last, 0)
        records = [RemoteRecord(at, contents[original]) for at, original in sorted(self.left.items()) if at >= first]
        return RemoteWindow(records, len(self.copied), first == 0, self.compacted)

    @property
    def to_copy(self) -> list[int]:
        """Source offsets that a copier of committed records would copy now."""
        return [one.offset for one in self.source if not one.aborted and one.offset not in self.gone]


@st.composite
def sources(draw: st.DrawFn, equal: bool, keys: bool) -> list[SourceRecord]:
    """:param equal: whether records may be equal."""
    records, offset = list[SourceRecord](), 0
    for number in range(draw(st.integers(1, 24))):
        offset += draw(st.sampled_from([0, 0, 0, 1]))  # a marker of a transaction
        key = draw(st.sampled_from([b"k", b"l", b"m"])) if keys else None
        content = draw(st.sampled_from([b"x", b"y", b"z"])) if equal else b"%d" % number
        aborted = draw(st.sampled_from([False, False, False, True]))
        records.append(SourceRecord(offset, content + (key or b""), key, aborted))
        offset += 1
    return records


@st.composite
def histories(draw: st.DrawFn, equal: bool = True, removing: bool = True) -> Case:
    """Histories of MirrorMaker 2: starts, kills, commits, batches sent twice, compaction."""
    compacted = removing and draw(st.booleans())
    source = draw(sources(equal, compacted))
    copied, committed = list[int](), -1
    for _ in range(draw(st.integers(1, 4))):
        committed_only = draw(st.booleans())
        seen = [one.offset for one in source if not (one.aborted and committed_only)]
        ahead = [offset for offset in seen if offset > committed]
        while draw(st.integers(0, 4)) and ahead:
            size = draw(st.integers(1, 4))
            batch, ahead = ahead[:size], ahead[size:]
            again = draw(st.integers(0, 3)) == 3
            copied += batch + batch if again else batch
            if draw(st.booleans()):
                committed = max(committed, draw(st.sampled_from(batch)))
    if committed < 0:  # without any commit, MirrorMaker 2 has copied only the record that it commits first
        copied = copied[:1] or [source[0].offset]
        (committed,) = copied
    case = Case(source, committed, copied, dict(enumerate(copied)), compacted=compacted)
    if removing:
        _remove(draw, case)
    return case


def _remove(draw: st.DrawFn, case: Case) -> None:
    keys = {one.offset: one.key for one in case.source}
    if case.compacted:
        for at, original in enumerate(case.copied):
            superseded = any(keys[later] == keys[original] for later in case.copied[at + 1 :])
            if superseded and draw(st.booleans()):
                del case.left[at]
        for number, one in enumerate(case.source):
            newer = (later for later in case.source[number + 1 :] if not later.aborted)
            if (one.aborted or any(later.key == one.key for later in newer)) and draw(st.booleans()):
                case.gone.add(one.offset)
    if draw(st.booleans()):
        kept_from = draw(st.integers(0, len(case.copied)))
        case.left = {at: original for at, original in case.left.items() if at >= kept_from}


def skipped(case: Case, found: Alignment) -> list[int]:
    """Source records that a copier would skip although they were never in the remote topic."""
    return [at for at in case.to_copy if case.committed < at < found.source_start and at not in set(case.copied)]


def doubled(case: Case, found: Alignment) -> list[int]:
    return [at for at in case.to_copy if at >= found.source_start and at in set(case.copied)]


@settings(max_examples=600)
@given(case=histories(), data=st.data())
def test_no_record_is_skipped_after_any_restarts_duplicates_or_compaction(case: Case, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, case.committed), "first offset of the window")
    end = data.draw(st.one_of(st.none(), st.integers(case.committed + 1, case.source[-1].offset + 1)), "its end")
    last = data.draw(st.one_of(st.none(), st.integers(0, len(case.copied))), "records of the remote topic")
    # When windows of the remote topic and the source are compared
    found = align(case.committed, case.source_window(start, end), case.remote_window(last))
    # Then copying goes on above the committed offset, and every record below that place was copied
    assert found.source_start > case.committed
    assert skipped(case, found) == []


@settings(max_examples=300)
@given(case=histories())
def test_an_exact_place_duplicates_no_record(case: Case) -> None:
    found = align(case.committed, case.source_window(), case.remote_window())
    if found.exact and len(case.left) == len(case.copied):
        assert doubled(case, found) == []
    assert found.exact == (not found.reason)


@settings(max_examples=300)
@given(case=histories(equal=False, removing=False))
def test_the_place_is_exact_if_all_records_differ_and_none_is_removed(case: Case) -> None:
    found = align(case.committed, case.source_window(), case.remote_window())
    assert found.exact
    assert skipped(case, found) == doubled(case, found) == []


def source_of(contents: Iterable[str], aborted: Sequence[int] = ()) -> SourceWindow:
    records = [SourceRecord(at, content.encode(), None, at in aborted) for at, content in enumerate(contents)]
    return SourceWindow(records, 0, len(records))


def remote_of(contents: Iterable[str], begins_log: bool = True) -> RemoteWindow:
    records = [RemoteRecord(at, content.encode()) for at, content in enumerate(contents)]
    return RemoteWindow(records, len(records), begins_log)


def test_records_above_the_commit_are_not_copied_again() -> None:
    assert align(2, source_of("abcdefgh"), remote_of("abcdef")) == (6, True, "")


def test_no_record_is_duplicated_if_the_last_start_copied_less_than_the_one_before() -> None:
    """History: killed after f, started after c, killed after d."""
    assert align(2, source_of("abcdefgh"), remote_of("abcdefd")) == (6, True, "")


def test_an_aborted_record_is_no_gap_whether_or_not_mirror_maker_copied_it() -> None:
    source = source_of("abcdefgh", aborted=[4])
    assert align(2, source, remote_of("abcdef")) == (6, True, "")
    assert align(2, source, remote_of("abcdf")) == (6, True, "")


def test_equal_records_at_the_end_count_as_not_copied() -> None:
    """The second x may be a copy of the second x, or of the first one, sent again."""
    start, exact, reason = align(1, source_of("abxxc"), remote_of("abxx"))
    assert (start, exact) == (3, False)
    assert "equal earlier ones" in reason


def test_copying_goes_on_at_a_batch_that_was_lost_between_others() -> None:
    """History: no idempotence and five requests in flight; killed before the batch of d was sent again."""
    start, exact, reason = align(1, source_of("abcdefgh"), remote_of("abcef"))
    assert (start, exact) == (3, False)
    assert "offset 3" in reason


def test_a_window_that_does_not_reach_down_to_the_commit_is_enough() -> None:
    assert align(1, source_of("abcdefgh"), remote_of("ef", begins_log=False)) == (6, True, "")


def test_with_an_empty_remote_topic_copying_goes_on_above_the_commit() -> None:
    start, exact, reason = align(3, source_of("abcdefgh"), remote_of(""))
    assert (start, exact) == (4, False)
    assert "no record to compare" in reason


def test_a_source_without_records_above_the_commit_needs_no_comparison() -> None:
    assert align(2, source_of("abc"), remote_of("zz")) == (3, True, "")


def test_a_remote_topic_that_ends_with_a_foreign_record_is_refused() -> None:
    with pytest.raises(ContradictionError, match="another producer writes to the remote topic"):
        align(2, source_of("abcdefgh"), remote_of("abcdefz"))


def test_a_remote_topic_that_lost_committed_records_is_refused() -> None:
    with pytest.raises(ContradictionError, match="its brokers have lost records"):
        align(4, source_of("abcdefgh"), remote_of("abc"))
