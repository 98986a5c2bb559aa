"""Limits on bytes per second are kept over time, however bytes arrive; and rates are measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.mirror.pace import Bucket, RateMeter, Throttle


@given(st.floats(1e3, 1e9), st.lists(st.integers(1, 10_000_000), min_size=1, max_size=60), st.floats(0, 5))
def test_rate_limit_is_kept_except_for_the_last_answer(limit: float, answers: list[int], begin: float) -> None:
    # Given a caller that requests as soon as it may
    bucket, now = Bucket(limit, begin), begin
    for amount in answers:
        now += bucket.wait_s(now)
        bucket.spend(amount, now)
    # Then all but the last answer fit into the time
    assert sum(answers[:-1]) <= limit * (now - begin) * 1.0001 + 1
    # And no time is lost
    assert now - begin <= sum(answers[:-1]) / limit * 1.0001 + 1e-6


def test_unused_allowance_is_kept_for_a_moment_only() -> None:
    bucket = Bucket(1000, 0.0)
    bucket.spend(1250, 60.0)
    assert bucket.wait_s(60.0) == pytest.approx(1.0)


def test_a_clock_that_goes_back_changes_nothing() -> None:
    bucket = Bucket(1000, 100.0)
    bucket.spend(1000, 100.0)
    assert bucket.wait_s(50.0) == pytest.approx(1.0)
    assert bucket.wait_s(50.5) == pytest.approx(0.5)


SLOW, OTHER = ("link-1", "slow"), ("link-1", "other")


def test_mirror_waits_for_its_own_and_the_common_limit() -> None:
    throttle = Throttle(0.0)
    throttle.limit(1000, {SLOW: 100}, 0.0)
    throttle.spend(SLOW, 100, 0.0)
    assert throttle.wait_s(SLOW, 0.0) == pytest.approx(1.0)
    assert throttle.wait_s(OTHER, 0.0) == pytest.approx(0.1)
    # A debt is not forgiven when limits are set again
    throttle.limit(1000, {SLOW: 100, OTHER: 5}, 0.5)
    assert throttle.wait_s(SLOW, 0.5) == pytest.approx(0.5)
    throttle.limit(None, {}, 0.5)
    assert throttle.wait_s(SLOW, 0.5) == 0


def test_changed_limit_never_lengthens_the_wait_for_a_debt() -> None:
    bucket = Bucket(1_000_000, 0.0)
    bucket.spend(2_000_000, 0.0)
    bucket.change(1_000, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(2.0)
    bucket.change(4_000, 0.0)
    assert bucket.wait_s(0.0) == pytest.approx(0.5)
    # And uncounted bytes are not owed
    bucket.change(None, 0.0)
    bucket.spend(10**9, 0.0)
    bucket.change(1_000, 0.0)
    assert bucket.wait_s(0.0) == 0


def test_request_size_is_half_a_second_of_the_limit_and_never_tiny() -> None:
    throttle = Throttle(0.0)
    assert throttle.at_once(OTHER, 3) > 1 << 40
    throttle.limit(10_000_000, {SLOW: 1_000_000}, 0.0)
    assert throttle.at_once(OTHER, 4) == 1_250_000
    assert throttle.at_once(SLOW, 4) == 125_000
    assert throttle.at_once(SLOW, 400) == 65_536


def test_rate_is_correct_from_the_beginning_and_decays() -> None:
    meter = RateMeter(0.0)
    for tenth in range(20):
        meter.add(100, tenth / 10)
    assert meter.per_s(2.0) == pytest.approx(1000, rel=0.1)
    assert meter.per_s(100.0) < 1
    assert meter.total == 2000
    assert RateMeter(5.0).per_s(5.0) == 0
