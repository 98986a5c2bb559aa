"""The contents that a node can tell from its reads, and its reaction to a commit time."""

import pytest

from ha_core.datacache.core import digest, source
from ha_core.datacache.core.cache import Cache, CommitOutcome, ContentCommit
from ha_core.datacache.core.errors import BrokenSourceError, SourceWentBackError
from ha_core.datacache.core.source import Changes, Row
from ha_core.datacache.core.uncommitted import Interval

from .sources import History, damage, values


def read(cache: Cache, history: History, limit: int = 100) -> None:
    """Reads until the source has no more."""
    more = True
    while more:
        after_us = cache.after_us
        more = cache.accept(history.changes(after_us, limit), after_us, limit)
    cache.adopt()


def agreed(history: History, at_us: int) -> ContentCommit:
    """The proposal of a node that has read everything."""
    cache = Cache()
    read(cache, history)
    commit = cache.proposal(at_us)
    assert commit is not None
    return commit


def made(*changes: tuple[str, object], keeps_all: bool = True) -> History:
    """Changed at 1, 2, 3 …"""
    history = History(keeps_all)
    for key, value in changes:
        history.change(key, value)
    return history


def test_a_node_that_may_lack_the_version_of_a_commit_time_waits_for_a_later_one() -> None:
    # Given a source that replaces in place, and a node that has read after the change
    history = made(("a", "old"), keeps_all=False)
    commit = agreed(history, 1)
    history.change("a", "new")
    cache = Cache()
    read(cache, history)

    assert cache.holds == Interval(2, 2)
    assert cache.commit(commit) is CommitOutcome.AHEAD
    assert cache.main is None
    assert cache.commit(agreed(history, 2)) is CommitOutcome.COMMITTED


def test_a_node_that_lags_keeps_its_content_and_goes_straight_to_the_newest_commit_later() -> None:
    # Given a node that serves, and two commits that it could not follow
    history = made(("a", "old"))
    cache = Cache()
    read(cache, history)
    cache.commit(agreed(history, 1))
    history.change("a", "new")
    history.change("b", "x")
    assert cache.commit(agreed(history, 2)) is CommitOutcome.NOT_READ_YET
    assert cache.commit(agreed(history, 3)) is CommitOutcome.NOT_READ_YET
    assert cache.main is not None
    assert (cache.main.at_us, values(cache.main.rows)) == (1, {"a": {"is": "old"}})

    read(cache, history)

    assert cache.commit(agreed(history, 3)) is CommitOutcome.COMMITTED
    assert values(cache.main.rows) == {"a": {"is": "new"}, "b": {"is": "x"}}


def test_a_main_part_that_was_taken_never_changes() -> None:
    history = made(("a", "old"))
    cache = Cache()
    read(cache, history)
    cache.commit(agreed(history, 1))
    taken = cache.main
    assert taken is not None
    history.change("a", None)
    read(cache, history)

    cache.commit(agreed(history, 2))

    assert values(taken.rows) == {"a": {"is": "old"}}
    assert cache.main is not None
    assert values(cache.main.rows) == {}


def test_a_main_part_goes_back_for_no_commit() -> None:
    history = made(("a", "old"), ("a", "new"))
    cache = Cache()
    read(cache, history)
    cache.commit(agreed(history, 2))

    assert cache.commit(agreed(history, 1)) is CommitOutcome.THERE
    assert cache.main is not None
    assert cache.main.at_us == 2


def test_a_node_that_was_away_longer_than_deletions_are_kept_reads_everything_anew() -> None:
    # Given a node that serves a key, whose deletion the source has forgotten
    history = made(("a", "x"), ("b", "x"))
    cache = Cache()
    read(cache, history)
    cache.commit(agreed(history, 2))
    history.change("a", None)
    history.forget_deletions(3)

    read(cache, history)

    assert cache.reloads == 1
    assert cache.commit(agreed(history, 3)) is CommitOutcome.COMMITTED
    assert cache.main is not None
    assert values(cache.main.rows) == {"b": {"is": "x"}}


def test_a_deletion_that_is_forgotten_between_two_pages_is_not_missed() -> None:
    # Given a first page with a key that is deleted then, which is forgotten
    history = made(("a", 1), ("b", 2), ("c", 3))
    cache = Cache()
    cache.accept(history.changes(0, 2), 0, 2)
    history.change("a", None)
    history.forget_deletions(4)

    with pytest.raises(BrokenSourceError, match="up deletions while it was read"):
        read(cache, history, limit=2)
    read(cache, history, limit=2)

    assert cache.commit(agreed(history, 4)) is CommitOutcome.COMMITTED
    assert cache.main is not None
    assert values(cache.main.rows) == history.content(4)


def test_an_incomplete_first_read_does_not_count() -> None:
    history = made(("a", 1), ("b", 2), ("c", 3))
    cache = Cache()

    more = cache.accept(history.changes(0, 2), 0, 2)
    cache.adopt()

    assert more
    assert cache.holds is None


def test_an_answer_overtaken_by_a_reload_is_ignored() -> None:
    # Given an answer on its way
    history = made(("a", 1), ("b", 2))
    cache = Cache()
    read(cache, history)
    late = history.changes(cache.after_us, 100)
    cache.reload()
    before = cache.after_us

    more = cache.accept(late, 2, 100)

    assert more
    assert cache.after_us == before == 0


def test_a_reload_replaces_the_content_of_the_current_commit_time() -> None:
    # Given a main part that was damaged in memory
    history = made(("a", "x"))
    cache = Cache()
    read(cache, history)
    cache.commit(agreed(history, 1))
    assert cache.main is not None
    damage(cache.main, "a")
    assert digest.of_rows(cache.main.rows.values()) != history.digest(1)

    cache.reload()
    read(cache, history)

    assert values(cache.main.rows) == {"a": {"is": "x"}}


def test_content_that_differs_from_the_agreed_one_is_refused_and_read_anew_once() -> None:
    # Given a commit of a history that this node does not know
    theirs, ours = made(("a", "x"), ("b", "x")), made(("a", "x"))
    ours.change("b", "x", at_us=5)
    theirs.change("c", "x", at_us=5)
    cache = Cache()
    read(cache, ours)

    assert cache.commit(agreed(theirs, 5)) is CommitOutcome.REFUSED
    assert cache.reads_anew()
    read(cache, ours)
    assert cache.commit(agreed(theirs, 5)) is CommitOutcome.REFUSED

    assert not cache.reads_anew()
    assert cache.main is None
    assert cache.holds == Interval(6, 5)


def test_after_a_refusal_the_next_matching_commit_is_taken() -> None:
    ours = made(("a", "x"), ("c", "x"))
    cache = Cache()
    read(cache, ours)
    wrong = ContentCommit(2, agreed(ours, 2).fingerprint + 1)
    assert cache.commit(wrong) is CommitOutcome.REFUSED
    ours.change("d", "x")
    read(cache, ours)

    assert cache.commit(agreed(ours, 3)) is CommitOutcome.COMMITTED


def test_a_source_that_has_lost_changes_is_reported_and_the_content_stays() -> None:
    history = made(("a", "x"), ("b", "x"))
    cache = Cache()
    read(cache, history)
    cache.commit(agreed(history, 2))
    history.restore(1)

    with pytest.raises(SourceWentBackError, match="newest change is of 1, and was 2 before"):
        read(cache, history)

    cache.reload()
    with pytest.raises(SourceWentBackError):
        read(cache, history)
    assert cache.main is not None
    assert values(cache.main.rows) == {"a": {"is": "x"}, "b": {"is": "x"}}


A, B = Row("a", 5, {}), Row("b", 6, {})


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (Changes((A, B), 6, 0), "2 rows, no more than 1"),
        (Changes((), -1, 0), "newest change is of -1"),
        (Changes((), 1 << 63, 0), "a time of"),
        (Changes((A,), 4, 0), "later than the 4"),
        (Changes((A,), 9, 0), "must be the last row's time"),
        (Changes((Row("", 5, {}),), 5, 0), "a key of 0 characters"),
        (Changes((Row("k" * 3000, 5, {}),), 5, 0), "a key of 3000 characters"),
        (Changes((Row("a", 0, {}),), 0, 0), "times must increase"),
        (Changes((), 5, 1, 2), "exact_from_us 1 and deletions_from_us 2"),
        (Changes((), 5, -1, -1), "exact_from_us -1"),
    ],
)
def test_an_answer_that_breaks_a_promise_is_refused_as_a_whole(changes: Changes, error: str) -> None:
    with pytest.raises((BrokenSourceError, SourceWentBackError), match=error):
        source.check(changes, 0, 1)


def test_rows_out_of_order_are_refused() -> None:
    with pytest.raises(BrokenSourceError, match="'a' at 5 after one at 6"):
        source.check(Changes((B, A), 6, 0), 0, 10)


def test_a_digest_covers_all_rows_in_any_order() -> None:
    rows = [Row("a", 1, {"x": 1, "y": [None, "é"]}), Row("b", 2, {})]
    turned = [rows[1], Row("a", 1, {"y": [None, "é"], "x": 1})]

    assert digest.of_rows(rows) == digest.of_rows(turned)
    for other in (rows[:1], [rows[0], Row("b", 3, {})], [rows[0], Row("b", 2, {"z": 0})], [rows[0], Row("c", 2, {})]):
        assert digest.of_rows(rows) != digest.of_rows(other)


@pytest.mark.parametrize("value", [{"x": float("nan")}, {"x": object()}])
def test_a_value_that_is_not_json_is_named(value: dict[str, object]) -> None:
    with pytest.raises(BrokenSourceError, match="'a' that is not JSON"):
        digest.of_rows([Row("a", 1, value)])
