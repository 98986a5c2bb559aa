"""The map after a switch to a copy, against a dictionary of every record."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.model import Extent, Run
from ha_core.model.extent import Extents, Hole, Location, check, identity, locate
from ha_core.plan.mirror.held_copies import left_to_origin
from ha_core.plan.mirror.standby import copied_extents, switched


@st.composite
def _logs(draw: st.DrawFn) -> tuple[Extents, list[Run], int, int]:
    """Extents of a source with strays between them, the runs of its copy, the ends of both logs."""
    extents, client, physical = list[Extent](), 0, 0
    for writer_epoch in range(draw(st.integers(1, 4))):
        client += draw(st.integers(0, 3))
        physical += draw(st.integers(0, 3))
        length = draw(st.integers(1, 8))
        extents.append(Extent(cluster="a", start=client, end=client + length, base=physical, writer_epoch=writer_epoch))
        client, physical = client + length, physical + length
    extents[-1] = extents[-1].changed(end=None)
    runs, source, target = list[Run](), 0, 0
    while source < physical:
        source += draw(st.integers(0, 3))
        target += draw(st.integers(0, 2))
        records = min(draw(st.integers(1, 6)), physical - source)
        if records > 0:
            runs.append(Run(source, target, records))
            source, target = source + records, target + records
    return tuple(extents), runs, physical, target + draw(st.integers(0, 2))


@given(logs=_logs(), deleted=st.integers(0, 40), whole=st.booleans())
def test_records_that_the_source_has_deleted_are_not_read_from_its_copy(
    logs: tuple[Extents, list[Run], int, int], deleted: int, whole: bool
) -> None:
    # Given a source whose log starts above some of the records that its copy has
    extents, runs, end, base = logs
    start = min(deleted, end)
    # When its writer changes to the copy
    cut = extents[-1].to_client(end)
    after = switched(extents, "a", "b", runs, cut, base, 100, whole=whole, source_start=start)
    # Then the map is sound, and has all of the copy but deleted records
    assert check(after) == []
    copies = {run.source + n: run.target + n for run in runs for n in range(run.records)}
    for offset in range(cut):
        was, now = locate(extents, offset), locate(after, offset)
        if isinstance(was, Location) and was.physical in copies and was.physical >= start:
            assert isinstance(now, Location)
            assert now.physical == copies[was.physical]
        elif isinstance(now, Location):
            assert now.extent.cluster == "a"


@settings(max_examples=500)
@given(logs=_logs(), deleted=st.integers(0, 40), gone=st.integers(0, 60), most=st.sampled_from([1, 2, 100]))
def test_records_that_the_copy_has_deleted_are_read_from_the_source_and_counted(
    logs: tuple[Extents, list[Run], int, int], deleted: int, gone: int, most: int
) -> None:
    # Given a copy whose log starts above some or all of the records that its source has
    extents, runs, end, base = logs
    start, copy_start = min(deleted, end), min(gone, base)
    cut = extents[-1].to_client(end)
    # When the topic is switched to the copy
    after = switched(extents, "a", "b", runs, cut, base, most, whole=True, source_start=start, copy_start=copy_start)
    # Then the map is sound, and leads to no record that the copy has deleted
    assert check(after) == []
    assert all(extent.base >= copy_start for extent in after if extent.cluster == "b")
    copies = {run.source + n: run.target + n for run in runs for n in range(run.records)}
    in_source = set[int]()
    for offset in range(cut):
        was, now = locate(extents, offset), locate(after, offset)
        if isinstance(was, Location) and was.physical in copies and was.physical >= start:
            # And each record that the source has is read, in the copy or in the source
            assert isinstance(now, Location)
            at_home = now.extent.cluster == "a"
            assert now.physical == (was.physical if at_home else copies[was.physical])
            if at_home:
                in_source.add(was.physical)
    # And records are read in the source only if the copy has deleted them, or the map had no room for them
    lacking = {offset for offset in in_source if copies[offset] < copy_start}
    there = {offset for offset, target in copies.items() if offset >= start and target < copy_start}
    mapped = {offset for offset in there if any(extent.holds(offset) for extent in extents)}
    assert lacking == mapped
    assert left_to_origin(after, "a", runs, start, copy_start) == (len(in_source - lacking), len(lacking))
    assert most < 100 or in_source == lacking


@settings(max_examples=500)
@given(logs=_logs(), most=st.integers(1, 4))
def test_after_the_cut_every_client_offset_keeps_its_record(
    logs: tuple[Extents, list[Run], int, int], most: int
) -> None:
    # Given a partition and its copy
    extents, runs, end, base = logs
    copies = {run.source + n: run.target + n for run in runs for n in range(run.records)}
    cut = extents[-1].to_client(end)
    # When its writer changes to the copy
    after = switched(extents, "a", "b", runs, cut, base, most, whole=True)
    # Then the map is sound, and bounded
    assert check(after) == []
    assert sum(extent.copied or False for extent in after) <= most
    older = [extent for extent in after if extent.cluster == "a"]
    bounded = len(copied_extents(extents, "a", "b", runs)) <= most
    assert not (bounded and older)
    for offset in range(cut):
        was, now = locate(extents, offset), locate(after, offset)
        if isinstance(now, Location):
            # Then a readable offset has its record, in the copy or in its old cluster
            assert isinstance(was, Location)
            assert now.physical == (copies[was.physical] if now.extent.cluster == "b" else was.physical)
        elif isinstance(was, Location):
            # Then a new hole was not copied
            assert was.physical not in copies
            assert isinstance(now, Hole)
    # Then the next record is the target's
    assert locate(after, cut) == Location(after[-1], base)


@given(logs=_logs(), most=st.sampled_from([1, 2, 100]))
def test_a_switch_there_and_back_leads_everybody_to_the_records_of_the_beginning(
    logs: tuple[Extents, list[Run], int, int], most: int
) -> None:
    extents, runs, end, base = logs
    cut = extents[-1].to_client(end)
    there = switched(extents, "a", "b", runs, cut, base, most, whole=True)

    # When the mirror is turned round, copies three records, and the writer goes back
    copied_back = [*(run.reversed for run in runs), Run(base, end + 1, 3)]
    back = switched(there, "b", "a", copied_back, cut + 3, end + 6, whole=True)

    assert check(back) == []
    copied = {run.source + n for run in runs for n in range(run.records)}
    for offset in range(cut):
        was, now = locate(extents, offset), locate(back, offset)
        if isinstance(was, Location) and was.physical in copied:
            assert isinstance(now, Location)
            assert now.physical == was.physical
    assert [locate(back, cut + n) for n in (0, 2, 3)] == [
        Location(back[-2], end + 1),
        Location(back[-2], end + 3),
        Location(back[-1], end + 6),
    ]


@settings(max_examples=300)
@given(logs=_logs(), most=st.integers(1, 4))
def test_the_newest_extents_of_a_copy_are_the_last_ones_of_all_and_the_rest_is_counted_as_left(
    logs: tuple[Extents, list[Run], int, int], most: int
) -> None:
    extents, runs, end, base = logs
    everything = copied_extents(extents, "a", "b", runs)

    assert copied_extents(extents, "a", "b", runs, most) == everything[-most:]

    after = switched(extents, "a", "b", runs, extents[-1].to_client(end), base, most, whole=True)
    kept = sum((extent.end or 0) - extent.start for extent in after if extent.copied)
    assert left_to_origin(after, "a", runs) == (
        sum((extent.end or 0) - extent.start for extent in everything) - kept,
        0,
    )


class Watched(Sequence[Run]):
    """A million runs with a gap before each, which count how many were read."""

    def __init__(self) -> None:
        self.looked_at = set[int]()

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: Any) -> Any:
        self.looked_at.add(index)
        return Run(2 * index, index, 1)


def test_the_map_of_a_source_with_a_million_gaps_is_made_of_the_newest_runs_alone() -> None:
    # Given a copy with very many gaps, while clients wait under a fence
    runs = Watched()
    # When its map is made
    after = switched(identity("a"), "a", "b", runs, 2_000_000, 1_000_000, max_extents=50, whole=True)
    # Then the work is bounded by the number of extents
    assert [(extent.cluster, extent.start, extent.end) for extent in after[:2]] == [
        ("a", 0, 1_999_900),
        ("b", 1_999_900, 1_999_901),
    ]
    assert len(after) == 52
    assert len(runs.looked_at) <= 53


def test_a_forced_cut_of_an_emptied_copy_leaves_only_mirrored_records_to_the_origin() -> None:
    after = switched(identity("a"), "a", "b", [Run(0, 1, 100)], 3_000_000, 102, whole=True, copy_start=102)

    assert [(extent.cluster, extent.start, extent.end) for extent in after] == [("a", 0, 100), ("b", 3_000_000, None)]


def test_with_unknown_older_runs_the_origin_keeps_records_below_the_first_known_one() -> None:
    # Given runs that are few enough for the map, while earlier runs are unknown
    runs = [Run(40, 30, 5), Run(50, 35, 5)]

    after = switched(identity("a"), "a", "b", runs, 60, 41, whole=False)

    assert [(extent.cluster, extent.start, extent.end, extent.base) for extent in after] == [
        ("a", 0, 40, 0),
        ("b", 40, 45, 30),
        ("b", 50, 55, 35),
        ("b", 60, None, 41),
    ]


def test_runs_without_a_gap_between_them_are_one_extent() -> None:
    after = switched(identity("a"), "a", "b", [Run(0, 0, 5), Run(5, 5, 5)], 100, 12, whole=True)

    assert after == (
        Extent(cluster="b", start=0, end=10, base=0, writer_epoch=0, copied=True),
        Extent(cluster="b", start=100, end=None, base=12, writer_epoch=1),
    )


@pytest.mark.parametrize(
    ("extents", "runs", "at", "base", "words"),
    [
        (identity("b"), [], 5, 5, "b is the writer"),
        (identity("a"), [Run(0, 0, 5)], 4, 5, "below 5, up to which"),
        (identity("a"), [Run(0, 0, 5)], 5, 4, "the copy ends at 4"),
        (identity("a"), [Run(5, 5, 5), Run(8, 10, 1)], 20, 20, "the end of the run before"),
        (identity("a"), [Run(5, 5, 5), Run(10, 8, 1)], 20, 20, "the end of the run before"),
        ((Extent(cluster="a", start=9, base=0, writer_epoch=1),), [], 8, 0, "where the stay in a began"),
    ],
)
def test_a_copy_that_does_not_fit_the_map_is_refused(
    extents: Extents, runs: list[Run], at: int, base: int, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        switched(extents, "a", "b", runs, at, base, whole=True)


def test_the_extent_that_is_written_is_no_copied_one() -> None:
    assert check((Extent(cluster="a", start=0, base=0, writer_epoch=0, copied=True),)) != []
