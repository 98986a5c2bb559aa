"""In compacted topics readers see the last state of each key: it is equal in both logs after any compaction."""

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ha_core.mirror.comparing import ByNow, Comparison, CopyMap, ranges
from ha_core.mirror.key_states import Compacted, KeyShare, Unmatched
from ha_core.mirror.partition_diff import Compared, RecordDifference
from ha_core.mirror.progress import Copied, Progress, Writer
from ha_core.mirror.split import Record
from ha_core.model import Run
from tests.mirror.batches import MS
from tests.mirror.logs import Held, packed

WRITER = Writer(900, 3)
BOTH = Compacted(source=True, copy=True)
DELETED = "the copy has lost this tombstone, and has the key's record at {}: a deleted key lives on there"
SURPLUS = "the copy has a record of this key, and the source neither it nor a later one: it was deleted"
MISSING = "the copy has neither it nor a later one of its key"


class One(NamedTuple):
    """A record of a model's log."""

    offset: int
    key: str
    live: bool


Log = tuple[One, ...]


def log(words: str) -> Log:
    """`a` is a record of key a, `a-` its tombstone, `.` an offset without a record."""
    several = enumerate(words.split())
    return tuple(One(offset, word[0], not word[1:]) for offset, word in several if word != ".")


def held(some: Log, log_start: int = 0, value: bytes | None = None) -> Held:
    """:param value: value of each record; None: a unique one."""
    values = (b"%d" % one.offset if value is None else value for one in some)
    rows = (
        Record.of(one.offset, MS, one.key.encode(), v if one.live else None)
        for one, v in zip(some, values, strict=True)
    )
    return Held([packed(row.offset, [row]) for row in rows], log_start=log_start)


def shown(some: Log) -> dict[str, int]:
    """The final state for a reader from the start: key → the record with its value."""
    last = {one.key: one for one in some}
    return {key: one.offset for key, one in last.items() if one.live}


def compare(
    source: Log,
    copy: Log,
    end: int,
    *,
    by_now: Callable[[], tuple[Log, Log]] | None = None,
    arrived: int | None = None,
    compacted: Compacted = BOTH,
    followed: int = 100,
    starts: tuple[int, int] = (0, 0),
) -> Compared:
    """Compares a copy of the offsets below `end`, each at its own offset.

    :param arrived: later records copied meanwhile; None: those in the copy.
    """
    progress = Progress(WRITER, 0, 0).with_batches([Copied(0, end)])
    (span,) = ranges(CopyMap.of(progress), starts[0], end, 1 << 40)
    now = by_now or (lambda: (source, copy))

    def below(some: Log) -> Log:
        return tuple(one for one in some if one.offset < end)

    there, here = held(below(source), starts[0]), held(below(copy), starts[1])
    comparison = Comparison(span, there, here, compacted, followed)

    def both() -> ByNow:
        of_source, of_copy = now()
        since = sum(one.offset >= end for one in of_copy) if arrived is None else arrived
        return ByNow(held(of_source, starts[0]), held(of_copy, starts[1]), since)

    return comparison.run(both)


@pytest.mark.parametrize("steps", range(12))
def test_keys_are_not_judged_when_the_time_is_over(steps: int) -> None:
    # Given a copy without any record of a key
    source, copy = held(log("a b a c b")), held(log(". b . c b"))
    (span,) = ranges(CopyMap.of(Progress(WRITER, 0, 0).with_batches([Copied(0, 5)])), 0, 5, 1 << 40)
    # When the time is over after this number of steps
    asked = iter([False] * steps + [True] * 100)
    comparison = Comparison(span, source, copy, BOTH).run(over=lambda: next(asked))
    # Then only a complete pass reports the key
    missing = RecordDifference(2, 2, MISSING)
    assert (comparison.first, comparison.cut_short) in {(None, True), (missing, False)}
    assert steps > 0 or comparison.cut_short


@pytest.mark.parametrize(
    ("source", "copy", "first"),
    [
        ("a b a c b", ". b a . b", RecordDifference(3, 3, MISSING)),
        ("a b a- c", "a b . c", RecordDifference(2, 2, DELETED.format(0))),
        (". b . c", "a b . c", RecordDifference(0, 0, SURPLUS)),
        (
            "a b . c",
            "a b a- c",
            RecordDifference(2, 2, "the source has lost this tombstone, and has the key's record at 0 still"),
        ),
        (". b a- c", "a b . .", RecordDifference(2, 2, DELETED.format(0))),
        (". . a- . b", "a b . c b", RecordDifference(2, 2, DELETED.format(0))),
    ],
    ids=[
        "none is there",
        "lost tombstone",
        "deleted in the source only",
        "lost tombstone in the source",
        "the first of two differences",
        "the first of two differences of another kind",
    ],
)
def test_compacted_records_are_distinguished_from_lost_ones(source: str, copy: str, first: RecordDifference) -> None:
    end = len(source.split())
    for followed in (1, 2, 100):
        assert compare(log(source), log(copy), end, followed=followed).first == first


@pytest.mark.parametrize(
    ("source", "copy", "first"),
    [
        ("a b c b | b", "a b c . |", RecordDifference(3, 3, MISSING)),
        ("a b c b | b-", ". b c . | b-", RecordDifference(0, 0, MISSING)),
        (". b c b | .", "a b c b | .", RecordDifference(0, 0, SURPLUS)),
        ("a b c a- | a", "a b c . |", RecordDifference(3, 3, DELETED.format(0))),
        ("a b c b | b- b", "a . c . | .", RecordDifference(3, 3, MISSING)),
    ],
    ids=[
        "a later one was not copied yet, and this one is lost",
        "a later one of another key",
        "the tombstone went before it was copied",
        "it lives again, and the copy does not know yet",
        "deleted by what is not copied yet",
    ],
)
def test_later_records_explain_compacted_ones(source: str, copy: str, first: RecordDifference | None) -> None:
    end = len(source.partition("|")[0].split())
    whole = [log(words.replace("|", "")) for words in (source, copy)]
    comparison = compare(whole[0], whole[1], end)
    assert comparison.first == first


def test_records_copied_meanwhile_explain_missing_ones() -> None:
    # Given a copy without the last value of a key, and a source with a later tombstone
    source, copy = log("a b c b d b- b"), log("a . c .")
    # When the copy has got two records since, then it may have had the tombstone; with one or none it cannot
    assert compare(source, copy, 4, arrived=2).first is None
    for arrived in (0, 1):
        assert compare(source, copy, 4, arrived=arrived).first == RecordDifference(3, 3, MISSING)


def test_only_a_compacted_copy_may_lack_records_of_its_source() -> None:
    source, copy = log("a b a c"), log(". b a c")
    assert compare(source, copy, 4, compacted=Compacted(source=False, copy=True)).first is None
    missing = RecordDifference(0, 0, "the copy does not have it")
    assert compare(source, copy, 4, compacted=Compacted(source=True, copy=False)).first == missing
    # A copy that is not compacted has everything that the source ever had
    assert compare(copy, source, 4, compacted=Compacted(source=True, copy=False)).first is None
    surplus = compare(log(". b . c"), source, 4, compacted=Compacted(source=True, copy=False)).first
    assert surplus == RecordDifference(2, 2, SURPLUS)


def test_retention_is_no_deletion() -> None:
    # Given logs that also delete records at their starts
    everything = log("a b c d a- c")
    # Then records below one log's start are no difference in either form
    assert compare(everything[3:], everything, 6, starts=(3, 0)).first is None
    assert compare(everything, everything[3:], 6, starts=(0, 3)).first is None
    # but for a tombstone that the copy has lost, of a record that it still has
    lost = log("a b c d . c")
    assert compare(everything[3:], lost, 6, starts=(3, 0)).first == RecordDifference(4, 4, DELETED.format(0))


def test_key_differs_only_if_a_second_reading_confirms_it() -> None:
    # Given a copy that was compacted while it was read: its value was read, but the tombstone was gone by then
    source, read = log("a b a- c"), log("a b . c")
    looks: list[Log] = [read, log(". b . c")]
    assert compare(source, read, 4, by_now=lambda: (source, looks.pop(0))).first is None
    # When the value stays, then it is a difference
    assert compare(source, read, 4, by_now=lambda: (source, read)).first == RecordDifference(2, 2, DELETED.format(0))


def test_followed_keys_are_bounded_and_all_keys_are_judged() -> None:
    # Given hundreds of keys that only the source still has, each with a later record above all of them
    keys, at_a_time = [f"k{number}" for number in range(400)], 50
    first = tuple(One(at, key, True) for at, key in enumerate(keys))
    second = tuple(One(len(keys) + at, key, True) for at, key in enumerate(keys))
    # When they are followed some at a time
    comparison = compare(first + second, second, 2 * len(keys), followed=at_a_time)
    # Then each is found again, in whichever share it is, and counted once
    assert (comparison.first, comparison.gone_in_copy, comparison.compared) == (None, 400, 400)
    # and one that is missing is found among them
    left = tuple(one for one in second if one.key != "k199")
    assert compare(first + second, left, 2 * len(keys), followed=at_a_time).first == RecordDifference(599, 599, MISSING)


def test_shares_of_a_pass_and_the_remaining_ones_cover_all_keys() -> None:
    keys = Unmatched(KeyShare(), 10)
    for number in range(200):
        keys.add(Record.of(0, 0, b"%d" % number, b"").rest)
        assert len(keys.digests) <= 10
    assert sum(Fraction(1, part.of) for part in keys.left) + Fraction(1, max(part.of for part in keys.left)) == 1
    assert not any(part.has(digest) for part in keys.left for digest in keys.digests)


entries = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=12)


def of(written: Iterable[tuple[str, bool]]) -> Log:
    return tuple(One(offset, key, live) for offset, (key, live) in enumerate(written))


@given(entries, st.integers(0, 1 << 12), st.integers(0, 1 << 12), st.integers(1, 3))
@settings(max_examples=400)
def test_logs_are_equal_exactly_if_their_readers_see_equal_states(
    written: list[tuple[str, bool]], in_source: int, in_copy: int, followed: int
) -> None:
    # Given any part of the records in one log, and any part in the other
    whole = of(written)
    source, copy = (tuple(one for one in whole if mask >> one.offset & 1) for mask in (in_source, in_copy))
    # When they are compared
    first = compare(source, copy, len(whole), followed=followed).first
    # Then
    assert (first is None) == (shown(source) == shown(copy))
    # and the offset is that of a record which only one of them has
    if first is not None:
        assert (first.offset in {one.offset for one in source}) != (first.offset in {one.offset for one in copy})


class Cleaning(NamedTuple):
    """A cleaner's pass: below `below` only the last record of each key is left, and below `old` no tombstone."""

    below: int
    old: int

    def of(self, some: Log) -> Log:
        last = {one.key: one.offset for one in some if one.offset < self.below}
        kept = (one for one in some if one.offset >= self.below or last[one.key] == one.offset)
        return tuple(one for one in kept if one.live or one.offset >= min(self.old, self.below))


def cleaned(some: Log, passes: Iterable[Cleaning]) -> Log:
    for cleaning in passes:
        some = cleaning.of(some)
    return some


passes: Any = st.lists(st.builds(Cleaning, st.integers(0, 14), st.integers(0, 14)), max_size=3)


@given(entries, st.integers(1, 12), st.integers(0, 12), passes, passes, passes, passes, st.integers(1, 3))
@settings(max_examples=400)
@example([("a", True), ("b", True), ("a", False), ("a", True)], 2, 3, [], [], [], [Cleaning(3, 3)], 1)
def test_copies_are_equal_after_any_cleaning_on_both_sides(
    written: list[tuple[str, bool]],
    until: int,
    more: int,
    in_source: list[Cleaning],
    in_copy: list[Cleaning],
    later_in_source: list[Cleaning],
    later_in_copy: list[Cleaning],
    followed: int,
) -> None:
    # Given a copy of the first records, and some that are copied during the comparison
    whole = of(written)
    end, copied = min(until, len(whole)), min(until + more, len(whole))
    source, copy = cleaned(whole, in_source), cleaned(whole[:end], in_copy)
    # which the source keeps until they are copied, and as long as the copier may still need their tombstones
    kept = {one.offset for one in whole[copied:] if not one.live}
    shown_by = [one for one in source if one.offset < end]
    now_source, now_copy = cleaned(source, later_in_source), cleaned(copy + whole[end:copied], later_in_copy)
    now_source = tuple(sorted({*now_source, *(one for one in whole if one.offset in kept)}))
    # When they are compared while both clusters clean
    comparison = compare(
        tuple(shown_by), copy, end, by_now=lambda: (now_source, now_copy), arrived=copied - end, followed=followed
    )
    # Then
    assert comparison.first is None


class Turned(NamedTuple):
    """A reversed mirror: the unmirrored records of either log are between those mirrored before and those mirrored
    since."""

    before: list[tuple[str, bool]]
    own_in_source: list[tuple[str, bool]]
    own_in_copy: list[tuple[str, bool]]
    since: list[tuple[str, bool]]

    @property
    def bases(self) -> tuple[int, int]:
        """Offsets at which it continues in the source and in the copy, after a marker in each."""
        return len(self.before) + len(self.own_in_source) + 1, len(self.before) + len(self.own_in_copy) + 1

    @property
    def logs(self) -> tuple[Log, Log]:
        of_source, of_copy = (
            tuple(One(at + (at >= base - 1), *row) for at, row in enumerate([*self.before, *own, *self.since]))
            for base, own in zip(self.bases, (self.own_in_source, self.own_in_copy), strict=True)
        )
        return of_source, of_copy

    def first(self, source: Log, copy: Log) -> RecordDifference | None:
        """The first difference that a comparison finds."""
        base, own_base = self.bases
        runs = (Run(0, 0, len(self.before)),)
        progress = Progress(WRITER, base, own_base, runs=runs, base=own_base, source_base=base)
        progress = progress.with_batches([Copied(base, len(self.since))] if self.since else [])
        (span,) = ranges(CopyMap.of(progress), 0, progress.source, 1 << 40)
        return Comparison(span, held(source, value=b"v"), held(copy, value=b"v"), BOTH).run().first

    def readers(self, some: Log, base: int) -> dict[str, int]:
        """Like `shown`, for readers that follow the map: key → mirrored record."""
        before = len(self.before)
        above = (one._replace(offset=one.offset - base + before) for one in some if one.offset >= base)
        return shown((*(one for one in some if one.offset < before), *above))


tails = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=3)
turned: Any = st.builds(Turned, entries, tails, tails, tails)


@given(turned, st.integers(0, 1 << 24), st.integers(0, 1 << 24))
@settings(max_examples=400)
def test_unmirrored_records_do_not_affect_the_comparison(mirror: Turned, in_source: int, in_copy: int) -> None:
    # Given any part of the records in one log, and any part in the other
    source, copy = (
        tuple(one for one in some if mask >> one.offset & 1)
        for some, mask in zip(mirror.logs, (in_source, in_copy), strict=True)
    )
    # When they are compared
    first = mirror.first(source, copy)
    # Then they are equal exactly if readers of both logs see equal states
    base, own_base = mirror.bases
    assert (first is None) == (mirror.readers(source, base) == mirror.readers(copy, own_base))


def test_lost_tail_does_not_excuse_cleaned_mirrored_records() -> None:
    # Given a copy that was the source, and has an unmirrored record of key k above a mirrored one
    mirror = Turned([("k", True), ("x", True)], [], [("k", True)], [("x", True)])
    source, copy = mirror.logs
    assert mirror.first(source, copy) is None
    # When its cleaner removes the older one, then k is gone for its readers
    assert mirror.first(source, Cleaning(9, 0).of(copy)) == RecordDifference(0, 0, MISSING)
