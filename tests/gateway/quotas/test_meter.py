"""Rates, and how long they make somebody wait."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.quotas.meter import CARRIED_S, MAX_OWED_S, Meter


@dataclass
class Sample:
    began: float
    last: float
    value: float = 0.0


@dataclass
class KafkasRate:
    """As `Rate` and `SampledStat` say it, sample by sample: 11 samples of a second."""

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
def test_what_is_to_be_waited_is_what_a_broker_says_as_long_as_it_is_short(uses: list[tuple[float, int]]) -> None:
    # Given a quota of 100 a second, and any use of it
    meter, broker, now = Meter(0.0), KafkasRate(), 0.0
    for pause_s, amount in uses:
        now += pause_s
        # When it is counted here and there
        ours, theirs = meter.take(amount, 100.0, now), broker.take(amount, 100.0, now)
        if max(ours, theirs) > CARRIED_S:
            return  # from here on more is remembered than by a broker
        # Then both ask for the same
        assert ours == pytest.approx(theirs, abs=1e-6)


def test_whoever_begins_may_use_ten_seconds_at_once_and_then_waits_for_each_use() -> None:
    meter = Meter(50.0)
    assert meter.take(1000.0, 100.0, 50.0) == 0.0
    assert meter.take(50.0, 100.0, 50.0) == pytest.approx(0.5)


def test_what_is_owed_for_longer_than_samples_live_is_owed_still() -> None:
    # Given a use of a minute's worth
    meter = Meter(0.0)
    assert meter.take(6000.0, 100.0, 0.0) == pytest.approx(50.0)
    # When the samples have ended
    # Then the next one waits for the rest of it
    assert meter.take(1.0, 100.0, 20.0) == pytest.approx(30.01)


def test_nobody_owes_more_than_a_minute() -> None:
    meter = Meter(0.0)
    assert meter.take(1e12, 1.0, 0.0) == MAX_OWED_S
    assert meter.owed_s(1.0, MAX_OWED_S + 1) == 0.0


def test_another_quota_forgets_what_was_owed_by_the_old_one() -> None:
    meter = Meter(0.0)
    meter.take(6000.0, 100.0, 0.0)
    assert meter.take(1.0, 1e6, 20.0) == 0.0


def test_what_others_use_elsewhere_counts_from_then_on() -> None:
    # Given half of the quota, used here each tenth of a second
    meter, now = Meter(0.0), 0.0
    for _ in range(300):
        now += 0.1
        assert meter.take(5.0, 100.0, now) == 0.0
    # When as much is used elsewhere
    meter.elsewhere(50.0, now)
    for _ in range(300):
        now += 0.1
        meter.take(5.0, 100.0, now)
    # Then the rate is the sum, and what comes on top waits
    assert meter.rate(now) == pytest.approx(100.0, rel=0.06)
    assert meter.take(200.0, 100.0, now) == pytest.approx(2.0, abs=0.7)


def test_a_meter_is_idle_when_there_is_nothing_to_remember() -> None:
    meter = Meter(0.0)
    assert meter.idle(0.0)
    meter.take(1.0, 100.0, 1.0)
    assert not meter.idle(11.9)
    assert meter.idle(12.1)
