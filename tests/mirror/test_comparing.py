"""Copies compared with their sources: every difference is found with its offset, and nothing else is reported."""

from dataclasses import replace
from itertools import pairwise
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.mirror.comparing import (
    LEAST_RECORDS,
    SPREAD,
    Comparison,
    CopyMap,
    current_progress,
    cutting,
    ranges,
)
from ha_core.mirror.partition import Aborted, PartitionCopy
from ha_core.mirror.partition_diff import Compared, Range, RecordDifference
from ha_core.mirror.progress import Copied, Intent, Progress, Writer
from ha_core.mirror.split import Record, read_records
from ha_core.model import Run
from ha_core.wire.copied_batch import CONTROL
from ha_core.wire.records import Batch
from tests.mirror.batches import MS, marker, records
from tests.mirror.logs import Held, packed, single

WRITER = Writer(900, 3)
CODECS = pytest.mark.parametrize("codec", [0, 1, 2, 3, 4], ids=["none", "gzip", "snappy", "lz4", "zstd"])
START = Progress(WRITER, source=0, target=0)


def copy_of(source: Held, progress: Progress = START) -> tuple[Held, Progress]:
    """The copy that a copier makes of it."""
    copier, copy = PartitionCopy(progress), Held()
    for _ in copier.fetched(bytearray(b"".join(source.data)), source.aborted):
        for ready in copier.noted():
            copy.data.append(pack(">q", copier.progress.target) + bytes(ready.data)[8:])
            copier.appended(copier.progress.target)
    return copy, copier.progress


def compare(source: Held, copy: Held, progress: Progress) -> Compared:
    (span,) = ranges(CopyMap.of(progress), source.log_start, progress.source, 1 << 40)
    return Comparison(span, source, copy).run()


def unpacked(log: Held) -> list[Record]:
    return [record for piece in log if piece.committed for record in read_records(piece.buf, piece.batch)]


def altered(copy: Held, at: int, **fields: Any) -> Held:
    """The copy with one changed record, each record in its own batch."""
    some = [record._replace(**fields) if record.offset == at else record for record in unpacked(copy)]
    return Held([packed(record.offset, [record]) for record in some])


SOURCE = Held([records(0, range(4)), records(4, (0, 1, 4, 5, 9)), records(20, range(6), 3)])


@CODECS
def test_copy_of_a_copier_is_equal_and_only_split_batches_are_decoded(codec: int) -> None:
    source = Held([records(0, range(4), codec), records(4, (0, 1, 4, 5, 9), codec), records(20, range(6), codec)])
    copy, progress = copy_of(source)
    assert compare(source, copy, progress) == Compared(compared=15, read=5)


def test_repacked_copy_is_equal() -> None:
    copy, progress = copy_of(SOURCE)
    together = [packed(0, unpacked(copy)[:7]), packed(7, unpacked(copy)[7:])]
    assert compare(SOURCE, Held(together), progress) == Compared(compared=15, read=15)


def test_time_limit_reports_the_part_that_was_equal() -> None:
    copy, progress = copy_of(SOURCE)
    (span,) = ranges(CopyMap.of(progress), SOURCE.log_start, progress.source, 1 << 40)
    asked = iter([False, False, True])
    comparison = Comparison(span, SOURCE, copy).run(over=lambda: next(asked))
    assert comparison.cut_short
    assert comparison.first is None
    assert 0 < comparison.compared < 15


KEY = Record.of(0, 0, b"another", b"value").rest


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"rest": Record.of(0, 0, b"k1", b"another").rest}, "value, headers"),
        ({"rest": Record.of(0, 0, b"another", b"value 5 value 5 value 5 ").rest}, "key, headers"),
        ({"time_ms": MS}, "timestamp"),
        ({"rest": Record.of(0, 0, b"k1", None).rest, "time_ms": 7}, "value, headers, timestamp"),
    ],
)
def test_differing_fields_are_named(fields: dict[str, Any], what: str) -> None:
    copy, progress = copy_of(SOURCE)
    comparison = compare(SOURCE, altered(copy, 5, **fields), progress)
    assert comparison.first == RecordDifference(5, 5, f"another {what}")
    assert comparison.compared == 5


@pytest.mark.parametrize(
    ("headers", "what"),
    [
        (b"\x02\x02h\x02x", "another headers"),
        (b"\x02\x02i\x02v", "another headers"),
        (b"\x02\x02h\x01", "another headers"),
        (b"\x00", "another headers"),
        (b"\x02\x02h\x02v", ""),
    ],
)
def test_differing_header_is_found(headers: bytes, what: str) -> None:
    rest = b"\x02k\x02v"
    source = Held([packed(0, [Record(0, MS, rest + b"\x02\x02h\x02v")])])
    copy = Held([packed(0, [Record(0, MS, rest + headers)])])
    progress = START.with_batches([Copied(0, 1)])
    difference = compare(source, copy, progress).first
    assert difference == (RecordDifference(0, 0, what) if what else None)


def numbered(count: int, start: int = 0) -> list[Record]:
    return [Record.of(n, MS + n, b"k%d" % n, b"v%d" % n) for n in range(start, start + count)]


@pytest.mark.parametrize(
    ("plant", "difference"),
    [
        (lambda some: [*some[:4], *some[5:]], RecordDifference(4, 4, "another key, value, timestamp")),
        (lambda some: some[:-1], RecordDifference(9, 9, "the copy does not have it")),
        (lambda some: [*some[:4], some[3], *some[4:]], RecordDifference(4, 4, "another key, value, timestamp")),
        (
            lambda some: [*some[:2], some[3], some[2], *some[4:]],
            RecordDifference(2, 2, "another key, value, timestamp"),
        ),
        (lambda some: [some[-1], *some[:-1]], RecordDifference(0, 0, "another key, value, timestamp")),
        (lambda some: [], RecordDifference(0, 0, "the copy does not have it")),
    ],
    ids=["missing", "missing at the end", "doubled", "swapped", "shifted by one", "empty"],
)
def test_misplaced_record_is_found(plant: Any, difference: RecordDifference) -> None:
    progress = START.with_batches([Copied(0, 10)])
    copy = single(plant(numbered(10)))
    assert compare(single(numbered(10)), copy, progress).first == difference


def test_a_hole_in_the_copy_is_a_missing_record() -> None:
    copy = Held(single(numbered(10)).data[:6] + single(numbered(10)).data[7:])
    comparison = compare(single(numbered(10)), copy, START.with_batches([Copied(0, 10)]))
    assert comparison == Compared(compared=6, read=0, first=RecordDifference(6, 6, "the copy does not have it"))


def test_record_without_an_intent_is_missing() -> None:
    progress = START.with_batches([Copied(0, 4), Copied(5, 5)])
    copy = single([*numbered(4), *numbered(5, 5)])
    assert compare(single(numbered(10)), copy, progress).first == RecordDifference(4, -1, "the copy does not have it")


def test_unmirrored_records_from_before_a_reversal_are_ignored_in_the_copy() -> None:
    # Given a copy with a record that was never mirrored, from before the mirror was reversed
    progress = START.with_batches([Copied(0, 4)]).taken_over(WRITER, 5).with_batches([Copied(4, 6)])
    copy = single(numbered(5))
    copy.data += single(numbered(6, 4), 5).data
    source = single(numbered(10))
    # When the base is above the record, then it is ignored; above the base it is foreign
    assert compare(source, copy, replace(progress, base=5)).first is None
    for base in (0, 4):
        difference = compare(source, copy, replace(progress, base=base)).first
        assert difference == RecordDifference(4, 4, "the copy has a record there that was not copied")


def test_unmirrored_tail_of_a_failed_source_is_ignored() -> None:
    # Given a source with a record that was never mirrored, from before it became the writer again at offset 5
    progress = START.with_batches([Copied(0, 4), Copied(5, 5)])
    source, copy = single(numbered(10)), single([*numbered(4), *numbered(5, 5)])
    # When the base is above the record, then it is ignored; from the base on it is missing
    assert compare(source, copy, replace(progress, source_base=5)).first is None
    missing = replace(START.with_batches([Copied(0, 4), Copied(6, 4)]), source_base=5)
    difference = compare(source, single([*numbered(4), *numbered(6, 4)]), missing).first
    assert difference == RecordDifference(5, -1, "the copy does not have it")


def test_foreign_records_in_the_copy_are_located() -> None:
    # Given a copier that was taken over after four records, and one foreign record beside the marker
    progress = START.with_batches([Copied(0, 4)]).taken_over(Writer(900, 4), 6).with_batches([Copied(4, 6)])
    copy = single(numbered(5))
    copy.data += [marker(5, 900, 0), *single(numbered(6, 4), 6).data]
    assert compare(single(numbered(10)), copy, progress).first == RecordDifference(
        4, 4, "the copy has a record there that was not copied"
    )
    # When it is not there, then all records are equal
    del copy.data[4]
    assert compare(single(numbered(10)), copy, progress).first is None


def test_foreign_marker_above_the_newest_progress_is_no_damage() -> None:
    # Given two batches that no progress covers yet, and between them the end of a foreign transaction
    intent = Intent(WRITER, 0, (Copied(0, 3), Copied(3, 2)))
    first, end, second = (
        Batch(0, at, 2, attributes, count - 1, *writer, sequence, count, 0)
        for at, count, writer, attributes, sequence in (
            (0, 3, WRITER, 0, 0),
            (3, 1, Writer(300, 5), 0x30, -1),
            (4, 2, WRITER, 0, 3),
        )
    )
    # When it is compared while the copier continues
    progress, wrong = current_progress(START, [intent], [first, end, second], 6)
    # Then there is no damage, and the map is complete
    assert wrong is None
    assert progress.runs == (Run(0, 0, 3), Run(3, 4, 2))


def test_records_gone_from_the_source_are_counted_without_a_difference() -> None:
    progress = START.with_batches([Copied(0, 10)])
    source = Held(single(numbered(10)).data[3:6] + single(numbered(10)).data[8:], log_start=2)
    comparison = compare(source, single(numbered(10)), progress)
    assert comparison == Compared(compared=5, gone_in_source=3, read=2)


def test_records_below_the_log_start_of_the_copy_are_counted_without_a_difference() -> None:
    copy = single(numbered(10))
    copy.log_start = 4
    comparison = compare(single(numbered(10)), copy, START.with_batches([Copied(0, 10)]))
    assert comparison == Compared(compared=6, gone_in_copy=4, lacking=4, read=5)


def transaction() -> Held:
    return Held(
        [
            records(0, range(3), producer=5, sequence=0, transactional=True),
            records(3, range(2), producer=6, sequence=0, transactional=True),
            marker(5, 5, 0),
            marker(6, 6, 1),
            records(7, range(2), producer=5, sequence=3, transactional=True),
            marker(9, 5, 1),
        ],
        (Aborted(5, 0),),
    )


def test_aborted_records_and_markers_are_left_out() -> None:
    copy, progress = copy_of(transaction())
    assert compare(transaction(), copy, progress) == Compared(compared=4)


def test_an_aborted_record_in_the_copy_is_a_difference() -> None:
    copy, progress = copy_of(Held(transaction().data))  # by a copier that does not know of the abort
    comparison = compare(transaction(), copy, progress)
    assert comparison.first == RecordDifference(0, 0, "the source has no committed record there, and the copy has one")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=9), st.integers(1, 30), st.integers(0, 40))
def test_ranges_cover_all_of_source_and_copy_once(parts: list[tuple[int, int]], size: int, start: int) -> None:
    # Given runs with gaps in the source and markers in the copy between them
    progress, at = START, 0
    for gap, count in parts:
        progress = progress.with_batches([Copied(at + gap, count)]).taken_over(WRITER, progress.target + count + gap)
        at = progress.source
    # When they are cut
    found = list(ranges(CopyMap.of(progress), start, progress.source, size))
    # Then they are adjacent
    assert [one.end for one in found[:-1]] == [one.start for one in found[1:]]
    assert [one.target_end for one in found[:-1]] == [one.target_start for one in found[1:]]
    if found:
        assert (found[0].start, found[-1].end) == (start, progress.source)
        assert found[-1].target_end == progress.target
        assert found[0].target_start == max(
            (r.target + min(r.records, start - r.source) for r in progress.runs if r.source < start), default=0
        )
    # and each has the runs that overlap it
    for one in found:
        assert one.runs == tuple(r for r in progress.runs if r.source < one.end and r.after > one.start)


@given(st.integers(1, 12), st.integers(0, 1 << 20), st.sampled_from(["", "value", "doubled", "missing"]))
def test_a_difference_is_found_in_its_range_and_the_others_are_equal(size: int, seed: int, plant: str) -> None:
    # Given batches of any size, one of them with a gap
    lengths = [1 + (seed >> shift) % 4 for shift in range(0, 12, 2)]
    data, at = [], 0
    for number, count in enumerate(lengths):
        data.append(packed(at, numbered(count, at)))
        at += count + (number == 2)
    source = Held(data)
    copy, progress = copy_of(source)
    there = unpacked(copy)
    where = seed % len(there)
    planted = {
        "value": [*there[:where], there[where]._replace(rest=KEY), *there[where + 1 :]],
        "doubled": [*there[: where + 1], *there[where:]],
        "missing": [*there[:where], *there[where + 1 :]],
    }
    if plant:
        copy = single(planted[plant])
    # When each range is compared alone
    comparisons = [
        Comparison(one, source, copy).run() for one in ranges(CopyMap.of(progress), 0, progress.source, size)
    ]
    # Then the first difference is the planted one
    first = min((comparison.first for comparison in comparisons if comparison.first), default=None)
    if not plant:
        assert (first, sum(comparison.compared for comparison in comparisons)) == (None, len(there))
    else:
        expected = (
            unpacked(source)[where + (plant == "doubled")].offset if where + (plant == "doubled") < len(there) else None
        )
        assert first is not None or expected is None
        if expected is not None and first is not None:
            assert first.offset == expected


@given(st.integers(1, 3_000_000), st.floats(0.001, 0.999), st.integers(0, 5), st.integers(1, 20))
def test_sample_spreads_over_the_partition_and_has_its_share(length: int, share: float, seed: int, most: int) -> None:
    cut = cutting(length, 200_000, share, str(seed), most)
    # Then a seed always gives one sample, and all its numbers are of existing ranges
    assert cut == cutting(length, 200_000, share, str(seed), most)
    assert sorted({*cut.chosen}) == [*cut.chosen]
    assert {*cut.chosen} <= {*range(cut.of)}
    assert (cut.of - 1) * cut.records < length <= cut.of * cut.records
    # And it spreads over the length, in ten sections or as many ranges as allowed
    step = -(-cut.of // max(len(cut.chosen), 1))
    assert len(cut.chosen) >= min(SPREAD, most, cut.of)
    assert all(after - before < 2 * step for before, after in pairwise([-1, *cut.chosen, cut.of]))
    # And in total it has the share, or the minimum, and at most a range and a half more
    assert len(cut.chosen) * cut.records <= max(share * length, SPREAD * LEAST_RECORDS) + 1.5 * cut.records + SPREAD


def test_seed_changes_the_sample_and_small_partitions_are_compared_as_a_whole() -> None:
    assert cutting(1_000_000, 200_000, 0.1, "1").chosen != cutting(1_000_000, 200_000, 0.1, "2").chosen
    for length in (1, 700, SPREAD * LEAST_RECORDS):
        cut = cutting(length, 200_000, 0.001, "1")
        assert len(cut.chosen) == cut.of
    assert cutting(0, 200_000, 0.1, "1").chosen == []
    assert [*cutting(1_000, 300).chosen] == [0, 1, 2, 3]


def header(at: int, count: int, writer: Writer = WRITER, attributes: int = 0) -> Batch:
    return Batch(0, at, 2, attributes, count - 1, *writer, 0, count, 0)


def test_progress_above_the_last_note_follows_from_intents_and_the_copy() -> None:
    intent = Intent(WRITER, 0, (Copied(5, 10), Copied(20, 4)))
    # Given a copy to which the first batch was appended, and one that was taken over since
    for tail, end in (([header(0, 10)], 10), ([header(0, 10), header(10, 1, Writer(900, 4), CONTROL)], 11)):
        progress, damage = current_progress(START, [intent], tail, end)
        assert (progress.source, progress.target, progress.runs, damage) == (15, 10, (Run(5, 0, 10),), None)


def test_records_lost_to_retention_above_the_progress_do_not_count_as_copied() -> None:
    # Given a foreign marker above three records, with as many offsets as intended records, and nothing left
    intent = Intent(WRITER, 0, (Copied(0, 3), Copied(3, 1)))
    assert current_progress(START, [intent], [], 4) == (START, None)


def test_progress_newer_than_the_log_end_is_kept() -> None:
    progress = START.with_batches([Copied(0, 30)])
    assert current_progress(progress, [], [header(0, 20)], 20) == (progress, None)


def test_foreign_record_damages_the_copy() -> None:
    intent = Intent(WRITER, 0, (Copied(5, 10), Copied(20, 4)))
    marked = header(10, 1, Writer(900, 4), CONTROL)
    for tail, at in (([header(10, 2, Writer(7, 0))], 10), ([marked, marked, header(12, 1, Writer(7, 0))], 12)):
        progress, damage = current_progress(START, [intent], [header(0, 10), *tail], at + 1)
        assert progress.source == 15
        assert damage == RecordDifference(15, at, "producer 7, which is not the copier, has written to the copy")


def test_copy_with_more_records_than_intended_is_damaged() -> None:
    progress, damage = current_progress(START, [], [header(0, 4)], 4)
    assert (progress, damage and damage.offset) == (START, 0)


def test_a_range_without_anything_is_equal() -> None:
    assert Comparison(Range(0, 5, 0, 0, ()), Held(), Held()).run() == Compared()
