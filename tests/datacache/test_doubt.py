"""Whose word is taken for nothing: a time that the source does not have, further ahead than clocks are wrong."""

from __future__ import annotations

from ha_core.datacache.core.future_timestamps import FAR_US, FutureTimestampFilter

NOW_US = 1_700_000_000_000_000
FAR = NOW_US + FAR_US + 1


def test_a_time_is_believed_until_a_read_that_began_later_has_not_found_it() -> None:
    doubt = FutureTimestampFilter()
    # The third read has begun, and may have asked before the claim was made
    assert not doubt.false({"a": FAR}, NOW_US, begun=3, done=2, wall_us=NOW_US)
    assert not doubt.false({"a": FAR}, NOW_US, begun=3, done=3, wall_us=NOW_US)
    assert not doubt.false({"a": FAR}, NOW_US, begun=4, done=3, wall_us=NOW_US)
    assert doubt.false({"a": FAR}, NOW_US, begun=4, done=4, wall_us=NOW_US) == {"a"}


def test_one_that_claims_more_each_time_is_believed_no_more_for_it() -> None:
    doubt = FutureTimestampFilter()
    for more in range(10):
        found = doubt.false({"a": FAR + more, "b": 5}, NOW_US, begun=3 + more, done=3 + more, wall_us=NOW_US)
    assert found == {"a"}


def test_what_the_source_has_is_no_lie_however_wrong_its_clock_is() -> None:
    doubt = FutureTimestampFilter()
    ahead_us = NOW_US + 100 * FAR_US
    for number in range(1, 5):
        assert not doubt.false({"a": ahead_us}, ahead_us, begun=number, done=number, wall_us=NOW_US)


def test_what_a_source_that_lost_a_day_told_before_is_waited_for() -> None:
    doubt = FutureTimestampFilter()
    for number in range(1, 5):
        assert not doubt.false({"a": NOW_US}, NOW_US - FAR_US, begun=number, done=number, wall_us=NOW_US - FAR_US // 2)


def test_who_has_read_nothing_doubts_nobody() -> None:
    doubt = FutureTimestampFilter()
    for number in range(5):
        assert not doubt.false({"a": FAR}, None, begun=number, done=number, wall_us=NOW_US)


def test_one_that_takes_it_back_is_believed_again() -> None:
    doubt = FutureTimestampFilter()
    doubt.false({"a": FAR}, NOW_US, begun=1, done=1, wall_us=NOW_US)
    assert doubt.false({"a": FAR}, NOW_US, begun=2, done=2, wall_us=NOW_US)
    assert not doubt.false({"a": NOW_US}, NOW_US, begun=2, done=2, wall_us=NOW_US)
    assert not doubt.false({"a": FAR}, NOW_US, begun=2, done=2, wall_us=NOW_US)
