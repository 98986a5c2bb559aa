"""Rates, and the waits that they demand."""

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.quotas.meter import CARRIED_S, MAX_OWED_S, QuotaMeter
from ha_core.model.quota import MIN_PERCENTAGE


@dataclass
class Sample:
    began: float
    last: float
    value: float = 0.0


@dataclass
class KafkasRate:
    """Kafka's `Rate` and `SampledStat`, sample by sample: 11 samples of a second."""

    samples: list[Sample] = field(default_factory=list)

    def take(self, amount: float, bound: float, now: float) -> float:
        if not self.samples or now - self.samples[-1].began >= 1.0:
            self.samples.append(Sample(now, now))
        self.samples[-1].value += amount
        self.samples[-1].last = now
        self.samples = [sample for sample in self.samples if now - sample.last < 11.0]
        elapsed = now - min(sample.began for sample in self.samples)
        full = int(elapsed)
        window = elapsed + max(0, 10 - full)
        rate = sum(sample.value for sample in self.samples) / window
        return (rate - bound) / bound * window if rate > bound else 0.0


@given(st.lists(st.tuples(st.floats(0.001, 4.0), st.integers(1, 400)), min_size=1, max_size=80))
def test_short_waits_equal_those_of_a_broker(uses: list[tuple[float, int]]) -> None:
    # Given a quota of 100 a second, and any use of it
    meter, broker, now = QuotaMeter(0.0), KafkasRate(), 0.0
    for pause_s, amount in uses:
        now += pause_s
        # When it is counted by the meter and by Kafka's rate
        ours, theirs = meter.spend(amount, 100.0, now), broker.take(amount, 100.0, now)
        if max(ours, theirs) > CARRIED_S:
            return  # from here on the meter remembers more than a broker
        # Then both demand the same wait
        assert ours == pytest.approx(theirs, abs=1e-6)


def test_a_new_client_may_use_ten_seconds_at_once_and_then_waits_for_each_use() -> None:
    meter = QuotaMeter(50.0)
    assert meter.spend(1000.0, 100.0, 50.0) == 0.0
    assert meter.spend(50.0, 100.0, 50.0) == pytest.approx(0.5)


def test_a_debt_that_outlasts_its_samples_remains() -> None:
    # Given a use of a minute's worth
    meter = QuotaMeter(0.0)
    assert meter.spend(6000.0, 100.0, 0.0) == pytest.approx(50.0)
    # When the samples have ended Then the next use waits for the rest of it
    assert meter.spend(1.0, 100.0, 20.0) == pytest.approx(30.01)


def test_a_debt_is_one_minute_at_most() -> None:
    meter = QuotaMeter(0.0)
    assert meter.spend(1e12, 1.0, 0.0) == MAX_OWED_S
    assert meter.owed_s(MAX_OWED_S + 1) == 0.0


def test_another_quota_clears_the_old_ones_debt() -> None:
    meter = QuotaMeter(0.0)
    meter.spend(6000.0, 100.0, 0.0)
    assert meter.spend(1.0, 1e6, 20.0) == 0.0


def test_a_smaller_share_is_used_up_sooner() -> None:
    # Given a third of a quota of 300
    meter = QuotaMeter(0.0, share=1 / 3)
    # When the share's amount for ten seconds is used, and a tenth more
    assert meter.spend(999.0, 300.0, 0.0) == 0.0
    # Then there is a wait
    assert meter.spend(101.0, 300.0, 0.0) == pytest.approx(1.0)


def test_a_changed_share_does_not_lengthen_a_wait_at_once() -> None:
    meter = QuotaMeter(0.0)
    meter.settle(1.0, known=True)
    meter.spend(1050.0, 100.0, 0.0)
    before = meter.owed_s(0.1)
    meter.settle(0.2, known=True)
    assert meter.owed_s(0.1) == before
    # but for later use
    assert meter.spend(10.0, 100.0, 0.1) == pytest.approx(before + 0.5)


def test_use_under_a_guessed_share_counts_by_the_real_one() -> None:
    # Given a third of the quota, because its users are unknown
    meter = QuotaMeter(0.0, share=1 / 3)
    assert meter.spend(600.0, 100.0, 0.0) == pytest.approx(8.0)
    # When it is known that no other gateway uses it
    meter.settle(1.0, known=True)
    # Then the use is ten seconds' worth
    assert meter.spend(390.0, 100.0, 1.0) == 0.0
    assert meter.spend(30.0, 100.0, 1.5) == 0.0
    assert meter.spend(100.0, 100.0, 1.5) == pytest.approx(0.7)


def test_a_client_that_changes_gateways_does_not_begin_anew() -> None:
    # Given a quota that was used up at another gateway
    meter = QuotaMeter(50.0, share=0.5, seed_s=10.0)
    # When its user comes to this one Then the user waits at once
    assert meter.spend(50.0, 100.0, 50.0) == pytest.approx(1.0, abs=0.01)


def test_a_share_has_no_burst_if_others_may_have_used_the_quota() -> None:
    # Given meters of a third of a quota of 90, which have paused
    steady, eager = QuotaMeter(0.0, share=1 / 3), QuotaMeter(0.0, share=1 / 3)
    for meter in (steady, eager):
        meter.spend(500, 90.0, 1.0)
        meter.presume(60.0)
    # Then nearly all of their third can be used from then on
    assert max(steady.spend(27.0, 90.0, 60.0 + second) for second in range(1, 31)) < 0.1
    # and not ten seconds' worth at once
    assert eager.spend(90.0, 90.0, 60.5) > 2.0
    # and debt is not forgotten
    owed_s = eager.owed_s(61.0)
    eager.presume(61.0)
    assert eager.owed_s(61.0) == pytest.approx(owed_s)


def test_a_meter_without_state_is_idle() -> None:
    meter = QuotaMeter(0.0)
    assert meter.idle(0.0)
    meter.spend(1.0, 100.0, 1.0)
    assert not meter.idle(11.9)
    assert meter.idle(12.1)


def test_the_smallest_possible_quota_gives_finite_numbers() -> None:
    meter = QuotaMeter(0.0)
    for second in range(30):
        wait_s = meter.spend(100.0, MIN_PERCENTAGE, float(second))
        assert 0.0 <= wait_s <= MAX_OWED_S
    assert math.isfinite(meter.used_s)
    assert math.isfinite(meter.waited)
    assert 0.0 <= meter.owed_s(31.0) <= MAX_OWED_S
