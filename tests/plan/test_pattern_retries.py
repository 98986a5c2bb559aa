"""Topics that could not be linked are tried again, without flooding brokers and the history."""

from itertools import pairwise

from ha_core.plan.mirror.pattern_retries import (
    ALONE_EVERY_S,
    BATCH_AGAIN_S,
    BATCH_LONGEST_S,
    FAILED_AGAIN_S,
    FAILED_LONGEST_S,
    REFUSED_AGAIN_S,
    REFUSED_LONGEST_S,
    LinkRetries,
)

MOST = 3
DAY_S = 86_400.0


def test_new_topics_are_linked_together_and_no_more_than_fit() -> None:
    assert LinkRetries().due(["d", "a", "c", "b"], 0.0, MOST) == ["a", "b", "c"]


def test_a_refused_topic_is_tried_again_more_and_more_rarely_and_keeps_no_other_waiting() -> None:
    retries, at_s, attempts = LinkRetries(), 0.0, []
    while at_s < 3600:
        if "bad" in (due := retries.due(["bad", "good"], at_s, MOST)):
            attempts.append(at_s)
            retries.refused("bad", "foreign-data", "west has records of its own", at_s)
        assert "good" in due
        at_s += 5.0
    pauses = [later - before for before, later in pairwise(attempts)]
    assert pauses[0] == REFUSED_AGAIN_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == REFUSED_LONGEST_S


def test_topics_of_an_undone_operation_are_tried_again_one_by_one() -> None:
    retries = LinkRetries()
    retries.failed(["a", "b"], "west does not create them", 0.0)
    # A new topic does not wait for them, but for the next operation of several
    assert retries.due(["a", "b", "new"], 0.0, MOST) == []
    assert retries.due(["a", "b", "new"], BATCH_AGAIN_S, MOST) == ["new"]
    assert retries.due(["a", "b"], FAILED_AGAIN_S, MOST) == ["a"]
    # When one of them fails again, the other one waits for its turn, and new ones do not wait for it
    retries.failed(["a"], "west does not create it", FAILED_AGAIN_S)
    assert retries.due(["a", "b", "new"], FAILED_AGAIN_S, MOST) == ["new"]
    assert retries.due(["a", "b"], FAILED_AGAIN_S + ALONE_EVERY_S, MOST) == ["b"]
    # When that one is linked it is forgotten
    retries.linked(["b"])
    assert retries.troubles.keys() == {"a"}


def test_operations_that_are_undone_grow_the_history_slowly_however_many_topics_are_due() -> None:
    retries, at_s, operations = LinkRetries(), 0.0, 0
    names = [f"topic-{number}" for number in range(1_000)]
    while at_s < DAY_S:
        if due := retries.due(names, at_s, MOST):
            operations += 1
            retries.failed(due, "a gateway does not follow", at_s)
        at_s += 5.0
    assert operations <= DAY_S / ALONE_EVERY_S + DAY_S / BATCH_LONGEST_S + 10


def test_one_topic_that_fails_for_ever_fails_once_an_hour_while_others_are_linked() -> None:
    retries, at_s, failed, linked = LinkRetries(), 0.0, 0, 0
    while at_s < DAY_S:
        due = retries.due(["bad", f"new-{at_s}"], at_s, MOST)
        if due == ["bad"]:
            failed += 1
            retries.failed(due, "no", at_s)
        elif "bad" in due:
            retries.failed(due, "no", at_s)
        elif due:
            linked += 1
            retries.linked(due)
        at_s += 60.0
    assert 20 <= failed <= DAY_S / FAILED_LONGEST_S + 10
    assert linked > 1_000


def test_topics_are_tried_at_once_when_an_operator_changes_the_patterns() -> None:
    retries = LinkRetries()
    for _ in range(5):
        retries.refused("bad", "foreign-data", "west has records of its own", 0.0)
        retries.failed(["worse"], "no", 0.0)
    assert retries.due(["bad", "worse"], 1.0, MOST) == []
    retries.at_once()
    assert retries.due(["bad", "worse"], 1.0, MOST) == ["worse"]
    assert retries.due(["bad"], 1.0, MOST) == ["bad"]


def test_topics_that_are_not_due_any_more_are_forgotten() -> None:
    retries = LinkRetries()
    retries.refused("a", "foreign-data", "", 0.0)
    retries.refused("b", "foreign-data", "", 0.0)
    retries.keep_only({"b"})
    assert retries.troubles.keys() == {"b"}
