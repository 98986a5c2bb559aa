"""The measured part of a copy."""

import pytest

from bench.copying_speed import Bounds, Look, measured
from bench.ground import BenchError

BOUNDS = Bounds(warm_share=0.25, warm_cpu_s=6.0, warm_s=10.0, last_share=0.95, window_s=5.0)
RECORDS = 1_000


def steady(records_s: float, cores: float, seconds: int, first_s: int = 0) -> list[Look]:
    """A sample each second; nothing is copied before `first_s`, and CPU time is used from 0 on."""
    return [
        Look(100.0 + s, round(min(max(s - first_s, 0) * records_s, RECORDS)), s * cores) for s in range(seconds + 1)
    ]


def test_no_speed_is_measured_before_the_first_record() -> None:
    assert measured(steady(10, 1, seconds=60, first_s=99), RECORDS, BOUNDS) is None


def test_a_slow_copier_is_measured_for_the_window_once_its_jvm_is_warm() -> None:
    # Given a copier that starts at second 20, of which the first 6 CPU-seconds do not count
    looks = steady(10, 1, seconds=60, first_s=20)

    # Then a window of 5 s ends at least 12 s later, and excludes the time before
    assert measured(looks[: 20 + 12], RECORDS, BOUNDS) is None
    assert measured(looks[: 20 + 13], RECORDS, BOUNDS) == (5.0, 50, 5.0)


def test_a_copier_on_a_busy_machine_counts_as_warm_after_a_while() -> None:
    looks = steady(10, 0.1, seconds=60)

    assert measured(looks[:16], RECORDS, BOUNDS) is None
    speed = measured(looks[:17], RECORDS, BOUNDS)
    assert speed is not None
    assert (speed.seconds, speed.records) == (5.0, 50)


def test_a_fast_copier_is_measured_between_the_first_quarter_and_the_last_records() -> None:
    speed = measured(steady(200, 0.5, seconds=5), RECORDS, BOUNDS)

    assert speed == (2.0, 400, 1.0)


def test_a_copy_between_two_samples_has_no_speed() -> None:
    with pytest.raises(BenchError, match="too few to measure"):
        measured(steady(1_000, 1, seconds=2), RECORDS, BOUNDS)


def test_a_copy_that_does_not_grow_in_the_window_has_no_speed() -> None:
    # Given a copier that stops after 300 of 1,000 records
    looks = [Look(100.0 + s, min(s * 100, 300), float(s)) for s in range(30)]

    with pytest.raises(BenchError, match=r"stayed at 300 of 1000 records for 2\d"):
        measured(looks, RECORDS, BOUNDS)


def test_a_copy_without_cpu_time_of_its_copier_has_no_speed() -> None:
    with pytest.raises(BenchError, match="no CPU time for 400 records"):
        measured(steady(200, 0, seconds=5), RECORDS, BOUNDS)
