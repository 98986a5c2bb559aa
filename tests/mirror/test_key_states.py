"""Of compacted topics readers see the last state of each key: it is the same in both, whatever compaction has taken."""

from __future__ import annotations

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
    """:param value: of each record; None: a value of its own."""
    values = (b"%d" % one.offset if value is None else value for one in some)
    rows = (
        Record.of(one.offset, MS, one.key.encode(), v if one.live else None)
        for one, v in zip(some, values, strict=True)
    )
    return Held([packed(row.offset, [row]) for row in rows], log_start=log_start)


def shown(some: Log) -> dict[str, int]:
    """What a reader from the start on has in the end: key → the record that its value is of."""
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
    """Of a copy of the offsets below `end`, each in its place.

    :param arrived: records behind them that were copied meanwhile; None: those that are there.
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
def test_of_keys_nothing_is_said_when_the_time_was_over_before_all_was_looked_at(steps: int) -> None:
    # Given a copy that has no trace of a key
    source, copy = held(log("a b a c b")), held(log(". b . c b"))
    (span,) = ranges(CopyMap.of(Progress(WRITER, 0, 0).with_batches([Copied(0, 5)])), 0, 5, 1 << 40)
    # When the time is over after so many steps
    asked = iter([False] * steps + [True] * 100)
    found = Comparison(span, source, copy, BOTH).run(over=lambda: next(asked))
    # Then it is told only by who has seen all of it
    missing = RecordDifference(2, 2, MISSING)
    assert (found.first, found.cut_short) in {(None, True), (missing, False)}
    assert steps > 0 or found.cut_short


@pytest.mark.parametrize(
    ("source", "copy", "first"),
    [
        ("a b a c b", ". . a c b", None),
        ("a b a c b", ". b a . b", RecordDifference(3, 3, MISSING)),
        ("a b a- c", ". b . c", None),
        ("a b a- c", ". b a- c", None),
        (". b . c", "a b a- c", None),
        (". b . c", ". b a- c", None),
        ("a b a- c", "a b . c", RecordDifference(2, 2, DELETED.format(0))),
        (". b a- c", "a b . c", RecordDifference(2, 2, DELETED.format(0))),
        ("a a a- a- c", "a a . . c", RecordDifference(3, 3, DELETED.format(1))),
        (". b . c", "a b . c", RecordDifference(0, 0, SURPLUS)),
        (". b . c", "a b a c", RecordDifference(2, 2, SURPLUS)),
        (
            "a b . c",
            "a b a- c",
            RecordDifference(2, 2, "the source has lost this tombstone, and has the key's record at 0 still"),
        ),
        (". b a- c", "a b . .", RecordDifference(2, 2, DELETED.format(0))),
        (". . a- . b", "a b . c b", RecordDifference(2, 2, DELETED.format(0))),
    ],
    ids=[
        "later ones are there",
        "none is there",
        "deleted, and the tombstone is gone in the copy",
        "deleted, and the tombstone is there",
        "deleted, and all is gone in the source",
        "deleted, and only the copy's tombstone is left",
        "lost tombstone",
        "lost tombstone of what is gone in the source",
        "lost tombstones",
        "deleted in the source only",
        "deleted in the source only, of several records",
        "lost tombstone in the source",
        "the first of two differences",
        "the first of two differences of another kind",
    ],
)
def test_what_compaction_may_have_taken_is_told_from_what_was_lost(
    source: str, copy: str, first: RecordDifference | None
) -> None:
    end = len(source.split())
    for followed in (1, 2, 100):
        assert compare(log(source), log(copy), end, followed=followed).first == first


@pytest.mark.parametrize(
    ("source", "copy", "first"),
    [
        ("a b c b | b", "a b c . | b", None),
        ("a b c b | b", "a b c . |", RecordDifference(3, 3, MISSING)),
        ("a b c b | b-", ". b c . | b-", RecordDifference(0, 0, MISSING)),
        (". b c b | a", "a b c b |", None),
        (". b c b | .", "a b c b | .", RecordDifference(0, 0, SURPLUS)),
        (". b c b | .", "a b c b | a-", None),
        ("a b c a- | a", "a b c . | a", None),
        ("a b c a- | a", "a b c . |", RecordDifference(3, 3, DELETED.format(0))),
        ("a b c b | b- b", "a . c . | .", RecordDifference(3, 3, MISSING)),
    ],
    ids=[
        "a later one was copied meanwhile",
        "a later one was not copied yet, and this one is lost",
        "a later one of another key",
        "compacted by what is not copied yet",
        "the tombstone went before it was copied",
        "the tombstone was copied before it went",
        "it lives again",
        "it lives again, and the copy does not know yet",
        "deleted by what is not copied yet",
    ],
)
def test_what_came_later_explains_what_is_gone_below_it(source: str, copy: str, first: RecordDifference | None) -> None:
    end = len(source.partition("|")[0].split())
    whole = [log(words.replace("|", "")) for words in (source, copy)]
    found = compare(whole[0], whole[1], end)
    assert found.first == first


def test_what_was_copied_meanwhile_explains_what_is_gone_also_if_it_is_gone_itself() -> None:
    # Given a copy without the last value of a key, and a source in which a tombstone came behind it
    source, copy = log("a b c b d b- b"), log("a . c .")
    # When the copy has got two records since, then it may have had the tombstone; when one or none, it has not
    assert compare(source, copy, 4, arrived=2).first is None
    for arrived in (0, 1):
        assert compare(source, copy, 4, arrived=arrived).first == RecordDifference(3, 3, MISSING)


def test_only_a_compacted_copy_may_lack_what_its_source_has() -> None:
    source, copy = log("a b a c"), log(". b a c")
    assert compare(source, copy, 4, compacted=Compacted(source=False, copy=True)).first is None
    missing = RecordDifference(0, 0, "the copy does not have it")
    assert compare(source, copy, 4, compacted=Compacted(source=True, copy=False)).first == missing
    # Of one that is not compacted everything is there that the source once had
    assert compare(copy, source, 4, compacted=Compacted(source=True, copy=False)).first is None
    surplus = compare(log(". b . c"), source, 4, compacted=Compacted(source=True, copy=False)).first
    assert surplus == RecordDifference(2, 2, SURPLUS)


def test_what_retention_has_taken_is_no_deletion() -> None:
    # Given logs that are deleted from their starts on as well
    everything = log("a b c d a- c")
    # Then what lies below the start of one is no difference, however that shows
    assert compare(everything[3:], everything, 6, starts=(3, 0)).first is None
    assert compare(everything, everything[3:], 6, starts=(0, 3)).first is None
    # but for a tombstone that the copy has lost, of a record that it still has
    lost = log("a b c d . c")
    assert compare(everything[3:], lost, 6, starts=(3, 0)).first == RecordDifference(4, 4, DELETED.format(0))


def test_a_key_is_different_only_if_it_still_is_when_it_is_looked_at_again() -> None:
    # Given a copy that was compacted while it was read: its value was read, and the tombstone was gone then
    source, read = log("a b a- c"), log("a b . c")
    looks: list[Log] = [read, log(". b . c")]
    assert compare(source, read, 4, by_now=lambda: (source, looks.pop(0))).first is None
    # When the value stays, then it is one
    assert compare(source, read, 4, by_now=lambda: (source, read)).first == RecordDifference(2, 2, DELETED.format(0))


def test_no_more_keys_are_followed_at_a_time_than_are_allowed_and_all_are_judged() -> None:
    # Given hundreds of keys that only the source has still, of which each has a later record behind all of them
    keys, at_a_time = [f"k{number}" for number in range(400)], 50
    first = tuple(One(at, key, True) for at, key in enumerate(keys))
    second = tuple(One(len(keys) + at, key, True) for at, key in enumerate(keys))
    # When they are followed some at a time
    found = compare(first + second, second, 2 * len(keys), followed=at_a_time)
    # Then each is found again, in whichever part of the keys it is, and counted once
    assert (found.first, found.gone_in_copy, found.compared) == (None, 400, 400)
    # and one that is missing is found among them
    left = tuple(one for one in second if one.key != "k199")
    assert compare(first + second, left, 2 * len(keys), followed=at_a_time).first == RecordDifference(599, 599, MISSING)


def test_the_parts_that_a_walk_has_no_room_for_and_its_own_are_all_keys() -> None:
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
def test_two_logs_are_equal_exactly_if_their_readers_have_the_same_in_the_end(
    written: list[tuple[str, bool]], in_source: int, in_copy: int, followed: int
) -> None:
    # Given any part of the records in the one, and any in the other
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
    """A pass of a broker's cleaner: below `below` the last record of each key is left, and below `old` no tombstone."""

    below: int
    old: int

    def of(self, some: Log) -> Log:
        last = {one.key: one.offset for one in some if one.offset < self.below}
        kept = (one for one in some if one.offset >= self.below or last[one.key] == one.offset)
        return tuple(one for one in kept if one.live or one.offset >= min(self.old, self.below))


def cleaned(some: Log, passes: Iterable[Cleaning]) -> Log:
    for one in passes:
        some = one.of(some)
    return some


passes: Any = st.lists(st.builds(Cleaning, st.integers(0, 14), st.integers(0, 14)), max_size=3)


@given(entries, st.integers(1, 12), st.integers(0, 12), passes, passes, passes, passes, st.integers(1, 3))
@settings(max_examples=400)
@example([("a", True), ("b", True), ("a", False), ("a", True)], 2, 3, [], [], [], [Cleaning(3, 3)], 1)
def test_copies_of_what_was_cleaned_on_both_sides_in_any_way_at_any_time_are_equal(
    written: list[tuple[str, bool]],
    until: int,
    more: int,
    in_source: list[Cleaning],
    in_copy: list[Cleaning],
    later_in_source: list[Cleaning],
    later_in_copy: list[Cleaning],
    followed: int,
) -> None:
    # Given a copy of the first records, and some that are copied while it is compared
    whole = of(written)
    end, copied = min(until, len(whole)), min(until + more, len(whole))
    source, copy = cleaned(whole, in_source), cleaned(whole[:end], in_copy)
    # which are there in the source until they are copied, and as long as the copier may still need their tombstones
    kept = {one.offset for one in whole[copied:] if not one.live}
    shown_by = [one for one in source if one.offset < end]
    now_source, now_copy = cleaned(source, later_in_source), cleaned(copy + whole[end:copied], later_in_copy)
    now_source = tuple(sorted({*now_source, *(one for one in whole if one.offset in kept)}))
    # When they are compared while both clusters clean
    found = compare(
        tuple(shown_by), copy, end, by_now=lambda: (now_source, now_copy), arrived=copied - end, followed=followed
    )
    # Then
    assert found.first is None


class Turned(NamedTuple):
    """A mirror that was turned round: what either log has of its own lies between what was mirrored before and what was
    mirrored since."""

    before: list[tuple[str, bool]]
    own_in_source: list[tuple[str, bool]]
    own_in_copy: list[tuple[str, bool]]
    since: list[tuple[str, bool]]

    @property
    def bases(self) -> tuple[int, int]:
        """Where it goes on in the source, and in the copy, behind a marker in each."""
        return len(self.before) + len(self.own_in_source) + 1, len(self.before) + len(self.own_in_copy) + 1

    @property
    def logs(self) -> tuple[Log, Log]:
        of_source, of_copy = (
            tuple(One(at + (at >= base - 1), *row) for at, row in enumerate([*self.before, *own, *self.since]))
            for base, own in zip(self.bases, (self.own_in_source, self.own_in_copy), strict=True)
        )
        return of_source, of_copy

    def first(self, source: Log, copy: Log) -> RecordDifference | None:
        """What their comparison finds."""
        base, own_base = self.bases
        runs = (Run(0, 0, len(self.before)),)
        progress = Progress(WRITER, base, own_base, runs=runs, base=own_base, source_base=base)
        progress = progress.with_batches([Copied(base, len(self.since))] if self.since else [])
        (span,) = ranges(CopyMap.of(progress), 0, progress.source, 1 << 40)
        return Comparison(span, held(source, value=b"v"), held(copy, value=b"v"), BOTH).run().first

    def readers(self, some: Log, base: int) -> dict[str, int]:
        """As `shown`, to those who are led to it: key → which of the mirrored records it is."""
        before = len(self.before)
        behind = (one._replace(offset=one.offset - base + before) for one in some if one.offset >= base)
        return shown((*(one for one in some if one.offset < before), *behind))


tails = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=3)
turned: Any = st.builds(Turned, entries, tails, tails, tails)


@given(turned, st.integers(0, 1 << 24), st.integers(0, 1 << 24))
@settings(max_examples=400)
def test_what_is_a_logs_own_says_nothing_of_what_its_readers_have(mirror: Turned, in_source: int, in_copy: int) -> None:
    # Given any part of the records in the one, and any in the other
    source, copy = (
        tuple(one for one in some if mask >> one.offset & 1)
        for some, mask in zip(mirror.logs, (in_source, in_copy), strict=True)
    )
    # When they are compared
    first = mirror.first(source, copy)
    # Then they are equal exactly if who is led to the one has the same as who is led to the other
    base, own_base = mirror.bases
    assert (first is None) == (mirror.readers(source, base) == mirror.readers(copy, own_base))


def test_a_lost_tail_does_not_explain_that_its_cleaner_took_what_was_mirrored() -> None:
    # Given a copy that was the source, and holds a record of key k that was never mirrored above one that was
    mirror = Turned([("k", True), ("x", True)], [], [("k", True)], [("x", True)])
    source, copy = mirror.logs
    assert mirror.first(source, copy) is None
    # When its cleaner takes the older one, then k is gone for whoever is led there
    assert mirror.first(source, Cleaning(9, 0).of(copy)) == RecordDifference(0, 0, MISSING)
