"""The arithmetic of suggested cuts."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.cuts import MAX_OFFSET, NO_CUT, Demand, SuggestedCut, suggest, upper_rate
from tests.spark_jobs.reference import spread, windows

rates = st.lists(st.floats(0, 1e9), max_size=150).map(tuple)
demands = st.builds(
    Demand,
    preparation_s=st.floats(0, 1e5),
    chance=st.floats(0.0001, 0.9999),
    default_rate=st.floats(0, 1e6),
    least_headroom=st.integers(0, 10**9),
)


def steady(rate: int, count: int) -> tuple[list[int | None], list[int | None]]:
    return [minute * 60_000 for minute in range(count)], [minute * 60 * rate for minute in range(count)]


def test_a_steady_rate_gives_the_cut_of_the_example() -> None:
    found = windows(*steady(2_000, 24))

    assert suggest(100_000, 0, found, Demand(preparation_s=300)) == SuggestedCut(700_000, 2_000, 2_000, 0, "deviation")


def test_with_enough_windows_the_headroom_comes_from_their_rank() -> None:
    # Given 99 windows, one of which was busy
    rates = (*([10.0] * 98), 500.0)
    # When one in a hundred cuts may be passed too early, the busiest window counts; when two may, it does not
    assert upper_rate(spread(rates, 0.01), Demand(chance=0.01)) == (500.0, "rank")
    assert upper_rate(spread(rates, 0.02), Demand(chance=0.02)) == (10.0, "rank")
    found = spread(rates, 0.01)._replace(mean=10.0)
    assert suggest(0, 0, found, Demand(100, 0.01)) == SuggestedCut(50_000, 10.0, 500.0, 49_000, "rank")


def test_configured_rate_is_used_and_reported_without_history() -> None:
    nothing = windows([], [])

    assert suggest(50, 0, nothing, Demand(10, default_rate=7)) == SuggestedCut(120, 7, 7, 0, "default")


@pytest.mark.parametrize("default", [7, 100_000])
def test_one_measured_window_never_loses_to_the_configured_rate(default: int) -> None:
    found = windows([0, 1_000], [0, 900])

    assert suggest(900, 0, found, Demand(10, default_rate=default)) == SuggestedCut(18_900, 900, 1_800, 9_000, "few")


def test_idle_log_does_not_get_the_configured_rate() -> None:
    found = windows([0, 1_000], [50, 50])

    assert suggest(50, 0, found, Demand(10, default_rate=1_000)) == SuggestedCut(50, 0, 0, 0, "few")


def test_the_age_of_the_end_counts_as_preparation() -> None:
    found = windows(*steady(100, 10))

    aged = suggest(1_000, 60, found, Demand(40))

    assert aged == suggest(1_000, 0, found, Demand(100))


def test_least_headroom_is_kept() -> None:
    assert suggest(10, 0, windows(*steady(0, 10)), Demand(300, least_headroom=5)).cut == 15


@pytest.mark.parametrize(("end", "age_s"), [(None, 0), (-1, 0), (5, -1), (5, math.nan), (MAX_OFFSET, 0)])
def test_partition_without_end_or_room_gets_no_cut(end: int | None, age_s: float) -> None:
    assert suggest(end, age_s, windows([], []), Demand()) == NO_CUT


@settings(deadline=None)
@given(st.integers(0, 2**50), rates, demands, st.floats(0, 1e6))
def test_a_cut_is_never_below_the_end_and_adds_up(
    end: int, found: tuple[float, ...], demand: Demand, age_s: float
) -> None:
    cut = suggest(end, age_s, spread(found, demand.chance), demand)

    if cut is not NO_CUT:
        assert cut.cut is not None
        assert cut.rate is not None
        assert cut.headroom is not None
        assert cut.headroom >= demand.least_headroom
        assert cut.cut == end + math.ceil(cut.rate * (demand.preparation_s + age_s)) + cut.headroom >= end


@settings(deadline=None)
@given(rates, demands, st.floats(0.0001, 0.9999))
def test_smaller_chance_gives_no_lower_rate(found: tuple[float, ...], demand: Demand, other: float) -> None:
    chances = sorted((demand.chance, other))
    strict, loose = (upper_rate(spread(found, chance), demand._replace(chance=chance)) for chance in chances)

    assert strict[0] >= loose[0]


@pytest.mark.parametrize("chance", [0.01, 0.05, 0.2])
def test_the_rank_keeps_its_promise_for_a_heavy_tailed_load(chance: float) -> None:
    # Given 20,000 histories of 120 windows of a load without a variance
    draw = random.Random(7)
    rounds, passed = 20_000, 0
    count = 120
    for _ in range(rounds // 10):
        load = [draw.paretovariate(1.5) for _ in range(count + 10)]
        upper, how = upper_rate(spread(load[:count], chance), Demand(chance=chance))
        assert how == "rank"
        # When the next window comes, ten times
        passed += sum(rate > upper for rate in load[count:])
    # Then it is faster in no more cases than stated, within random variation
    assert passed / rounds < chance + 4 * math.sqrt(chance / rounds * 10)
