"""Translation of groups' offsets by runs and by offset syncs: a group misses no copied record."""

from hypothesis import given
from hypothesis import strategies as st

from ha_core.flows.offset_syncs import MAX_STARTS, SyncEmission
from ha_core.flows.records import OffsetSync
from ha_core.flows.translation import CopiedEnd, SyncStore, Translated, Untranslated, by_runs
from ha_core.model import Run

RUNS = (Run(10, 0, 5), Run(20, 6, 5), Run(25, 12, 1))
"""Source offsets 10 to 14, 20 to 24, and 25; the target has markers at 5 and 11."""


def test_every_offset_is_translated_by_runs() -> None:
    found = {offset: by_runs(RUNS, offset) for offset in (3, 10, 14, 15, 19, 20, 24, 25, 26, 40)}
    assert found == {
        3: Translated(0, "first-copied"),
        10: Translated(0, "exact"),
        14: Translated(4, "exact"),
        15: Translated(6, "exact"),
        19: Translated(6, "exact"),
        20: Translated(6, "exact"),
        24: Translated(10, "exact"),
        25: Translated(12, "exact"),
        26: Translated(13, "exact"),
        40: Translated(13, "copied-end"),
    }
    assert isinstance(by_runs((), 5), Untranslated)


def test_a_group_above_the_last_run_resumes_where_the_next_record_will_lie() -> None:
    # Given a takeover's markers at 13 and 14, and source markers at 26 and 27
    end = CopiedEnd(28, 15)
    found = {offset: by_runs(RUNS, offset, end) for offset in (25, 26, 28, 29)}
    assert found == {
        25: Translated(12, "exact"),
        26: Translated(15, "exact"),
        28: Translated(15, "exact"),
        29: Translated(15, "copied-end"),
    }
    assert by_runs((), 7, CopiedEnd(7, 1)) == Translated(1, "exact")


def test_a_group_resumes_at_the_log_start_if_the_copy_has_deleted_its_records() -> None:
    assert by_runs(RUNS, 12, None, log_start=6) == Translated(6, "first-kept")
    assert by_runs(RUNS, 20, None, log_start=6) == Translated(6, "exact")


@st.composite
def copied(draw: st.DrawFn) -> list[tuple[int, int]]:
    """(source offset, target offset) of copied records, both ascending, with gaps on either side."""
    source, target = draw(st.integers(0, 1000)), draw(st.integers(0, 1000))
    records = []
    for skipped, marked in draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2)), min_size=1, max_size=300)):
        source, target = source + 1 + max(0, skipped - 25), target + 1 + marked // 2
        records.append((source, target))
    return records


def runs_of(records: list[tuple[int, int]]) -> list[Run]:
    runs: list[Run] = []
    for source, target in records:
        if runs and runs[-1].after == source and runs[-1].target + runs[-1].records == target:
            runs[-1] = runs[-1]._replace(records=runs[-1].records + 1)
        else:
            runs.append(Run(source, target, 1))
    return runs


@given(copied(), st.integers(0, 2000))
def test_with_runs_a_group_gets_exactly_the_records_from_its_offset_on(
    records: list[tuple[int, int]], offset: int
) -> None:
    found = by_runs(runs_of(records), offset)
    assert isinstance(found, Translated)
    assert [record for record in records if record[1] >= found.offset] == [
        record for record in records if record[0] >= offset
    ]


@given(copied(), st.integers(0, 2000), st.integers(1, 100), st.lists(st.integers(0, 100), max_size=5).map(sorted))
def test_with_syncs_a_group_misses_no_record(
    records: list[tuple[int, int]], offset: int, max_lag: int, looks: list[int]
) -> None:
    store, emission = SyncStore(), SyncEmission("t", 0, max_lag)
    for looked in looks:
        for sync in emission.due(runs_of(records[: looked % len(records) + 1]), interval_over=looked % 2 == 0):
            store.add(sync)
    for sync in emission.due(runs_of(records), interval_over=True):
        store.add(sync)
    found = store.translate("t", 0, offset)
    if isinstance(found, Translated):
        assert all(target >= found.offset for source, target in records if source >= offset)
    else:
        assert offset < records[0][0]


@given(copied(), st.integers(0, 2000))
def test_with_syncs_a_higher_offset_is_never_translated_to_a_lower_one(
    records: list[tuple[int, int]], offset: int
) -> None:
    store = SyncStore()
    for source, target in records:
        store.add(OffsetSync("t", 0, source, target))
    found = [store.translate("t", 0, one) for one in (offset, offset + 7)]
    translated = [one.offset for one in found if isinstance(one, Translated)]
    assert translated == sorted(translated)
    assert not (isinstance(found[0], Translated) and isinstance(found[1], Untranslated))


def test_at_most_60_of_100_000_syncs_of_a_partition_are_kept() -> None:
    store = SyncStore()
    for number in range(100_000):
        store.add(OffsetSync("t", 0, number * 100, number * 100))
    assert store.count("t", 0) <= 60
    newest = 99_999 * 100
    for distance in (1_000, 50_000, 1_000_000, 9_000_000):
        found = store.translate("t", 0, newest - distance)
        assert isinstance(found, Translated)
        assert newest - distance - found.offset <= distance


def test_a_source_that_began_anew_discards_earlier_syncs() -> None:
    store = SyncStore()
    for upstream, downstream in ((100, 50), (200, 150), (10, 300)):
        store.add(OffsetSync("t", 0, upstream, downstream))
    assert store.translate("t", 0, 150) == Translated(301, "sampled")
    assert isinstance(store.translate("t", 0, 5), Untranslated)
    assert isinstance(store.translate("t", 1, 150), Untranslated)


def test_each_run_begins_with_a_sync_and_the_newest_record_gets_one_every_max_lag_records() -> None:
    emission = SyncEmission("t", 0, max_lag=10)

    def due(*runs: Run, interval_over: bool = False) -> list[tuple[int, int]]:
        syncs = emission.due(runs, interval_over)
        return [(sync.upstream_offset, sync.downstream_offset) for sync in syncs]

    assert due() == []
    assert due(Run(0, 0, 3)) == [(0, 0)]
    assert due(Run(0, 0, 3)) == []
    assert due(Run(0, 0, 3), interval_over=True) == [(2, 2)]
    assert due(Run(0, 0, 13)) == []
    assert due(Run(0, 0, 14)) == [(3, 3), (13, 13)]
    assert due(Run(0, 0, 14), Run(20, 14, 5)) == [(20, 14)]
    assert due(Run(0, 0, 14), Run(20, 14, 50)) == [(29, 23), (49, 43), (59, 53), (69, 63)]


def test_a_copy_of_a_topic_that_was_created_again_begins_with_a_sync() -> None:
    emission = SyncEmission("t", 0, max_lag=1000)
    emission.due([Run(0, 0, 500), Run(600, 500, 1)], interval_over=True)
    found = emission.due([Run(0, 502, 1)], interval_over=False)
    assert found == [OffsetSync("t", 0, 0, 502)]


def test_a_worker_that_starts_again_leaves_readers_what_they_know() -> None:
    """Its lower syncs stood for a source that began anew: groups below a handover had no translation any more."""
    store = SyncStore()
    for upstream in range(0, 1000, 100):  # of MirrorMaker 2
        store.add(OffsetSync("t", 0, upstream, upstream + 7))
    written: list[OffsetSync] = []
    for runs in ([Run(1000, 1010, 500)], [Run(1000, 1010, 500), Run(1500, 1511, 50)], [Run(1500, 1511, 50)]):
        emission = SyncEmission("t", 0, max_lag=100)
        if written:
            emission.resume(written[-1], runs)
        written += emission.due(runs, interval_over=True)
    for sync in written:
        store.add(sync)
    assert [sync.upstream_offset for sync in written] == sorted({sync.upstream_offset for sync in written})
    assert (written[0].upstream_offset, written[-1].upstream_offset) == (1000, 1549)
    assert store.translate("t", 0, 950) == Translated(908, "sampled")


def test_a_worker_that_copies_anew_begins_with_a_sync() -> None:
    emission = SyncEmission("t", 0, max_lag=100)
    emission.resume(OffsetSync("t", 0, 1400, 1410), [Run(0, 0, 1500)])
    assert emission.due([Run(0, 0, 1500)], interval_over=False)[0] == OffsetSync("t", 0, 0, 0)


def test_a_source_of_many_small_transactions_has_syncs_of_its_newest_runs_only() -> None:
    emission = SyncEmission("t", 0, max_lag=1_000_000)
    assert len(emission.due([Run(2 * at, at, 1) for at in range(1000)], interval_over=False)) == MAX_STARTS


@given(st.integers(1, 1_000_000), st.integers(0, 1_000_000), st.integers(1, 1000))
def test_the_error_within_a_run_copied_at_once_is_at_most_the_distance_from_its_end(
    records: int, back: int, max_lag: int
) -> None:
    offset = max(records - back, 0)
    store, emission = SyncStore(), SyncEmission("t", 0, max_lag)
    for sync in emission.due([Run(0, 1, records)], interval_over=True):
        store.add(sync)
    found = store.translate("t", 0, offset)
    assert isinstance(found, Translated)
    assert offset + 1 - 2 * max(records - offset, max_lag) <= found.offset <= offset + 1
