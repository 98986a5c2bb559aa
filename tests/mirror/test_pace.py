"""Limits on bytes in a second are kept over time, whatever comes at once; and what comes is measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.mirror.pace import Bucket, RateMeter, Throttle


@given(st.floats(1e3, 1e9), st.lists(st.integers(1, 10_000_000), min_size=1, max_size=60), st.floats(0, 5))
def test_no_more_comes_than_the_limit_but_for_the_last_answer(limit: float, answers: list[int], begin: float) -> None:
    # Given someone who asks as soon as something may be asked for
    bucket, now = Bucket(limit, begin), begin
    for amount in answers:
        now += bucket.wait_s(now)
        bucket.spend(amount, now)
    # Then all but the last answer fit into the time
    assert sum(answers[:-1]) <= limit * (now - begin) * 1.0001 + 1
    # And no time is lost
    assert now - begin <= sum(answers[:-1]) / limit * 1.0001 + 1e-6


def test_what_was_not_used_is_kept_for_a_moment_only() -> None:
    bucket = Bucket(1000, 0.0)
    bucket.spend(1250, 60.0)
    assert bucket.wait_s(60.0) == pytest.approx(1.0)


def test_a_clock_that_goes_back_changes_nothing() -> None:
    bucket = Bucket(1000, 100.0)
    bucket.spend(1000, 100.0)
    assert bucket.wait_s(50.0) == pytest.approx(1.0)
    assert bucket.wait_s(50.5) == pytest.approx(0.5)


SLOW, OTHER = ("link-1", "slow"), ("link-1", "other")


def test_a_mirror_waits_for_its_own_limit_and_for_that_of_all_whatever_else_its_link_has() -> None:
    throttle = Throttle(0.0)
    throttle.limit(1000, {SLOW: 100}, 0.0)
    throttle.spend(SLOW, 100, 0.0)
    assert throttle.wait_s(SLOW, 0.0) == pytest.approx(1.0)
    assert throttle.wait_s(OTHER, 0.0) == pytest.approx(0.1)
    # What is owed is not forgiven where limits are set again
    throttle.limit(1000, {SLOW: 100, OTHER: 5}, 0.5)
    assert throttle.wait_s(SLOW, 0.5) == pytest.approx(0.5)
    throttle.limit(None, {}, 0.5)
    assert throttle.wait_s(SLOW, 0.5) == 0


def test_who_is_allowed_less_waits_no_longer_for_what_was_taken_before_and_who_is_allowed_more_pays_it_sooner() -> None:
    bucket = Bucket(1_000_000, 0.0)
    bucket.spend(2_000_000, 0.0)
    bucket.change(1_000, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(2.0)
    bucket.change(4_000, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(0.5)
    # And what nobody counted is not owed
    bucket.change(None, 0.0)
    bucket.spend(10**9, 0.0)
    bucket.change(1_000, 0.0)
    assert bucket.wait_s(0.0) == 0


def test_an_answer_has_half_a_second_of_what_is_allowed_at_most_and_is_never_tiny() -> None:
    throttle = Throttle(0.0)
    assert throttle.at_once(OTHER, 3) > 1 << 40
    throttle.limit(10_000_000, {SLOW: 1_000_000}, 0.0)
    assert throttle.at_once(OTHER, 4) == 1_250_000
    assert throttle.at_once(SLOW, 4) == 125_000
    assert throttle.at_once(SLOW, 400) == 65_536


def test_a_rate_is_right_from_the_beginning_and_forgets() -> None:
    meter = RateMeter(0.0)
    for tenth in range(20):
        meter.add(100, tenth / 10)
    assert meter.per_s(2.0) == pytest.approx(1000, rel=0.1)
    assert meter.per_s(100.0) < 1
    assert meter.total == 2000
    assert RateMeter(5.0).per_s(5.0) == 0
