"""The cut of a move with a dead origin is above all that the origin may have acknowledged, and never moves."""

from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import Extent
from ha_core.plan.facts.clusters import PartitionEnds
from ha_core.plan.migration.cuts import FASTEST_PER_S, LEAST_RATE, MIN_AGE_S, RESERVE, UNKNOWN_RESERVE, forced_cut

FLOOR = int(MIN_AGE_S * FASTEST_PER_S)
STAY = Extent(cluster="east", start=100, end=None, base=7, writer_epoch=2)


@given(
    seen=st.integers(0, 10**6),
    age_s=st.floats(0, 10**6),
    share=st.floats(0, 1),
    committed=st.one_of(st.none(), st.integers(0, 2**62)),
)
def test_a_forced_cut_is_above_any_growth_since_the_log_was_read(
    seen: int, age_s: float, share: float, committed: int | None
) -> None:
    true_end = max(STAY.base, seen) + int(age_s * FASTEST_PER_S * share)

    at, known_end = forced_cut(STAY, PartitionEnds(0, seen=seen, seen_age_s=age_s, known=committed))

    assert STAY.to_client(true_end) < at
    assert STAY.start <= known_end < at
    assert at < 2**62


def test_an_end_seen_before_the_extent_began_counts_as_its_start() -> None:
    assert forced_cut(STAY, PartitionEnds(0, seen=3)) == (100 + RESERVE + FLOOR, 100)


def test_a_fresh_record_counts_as_some_minutes_old() -> None:
    """25,000 records a second, seen a minute ago by a recorder whose clock is a minute ahead."""
    true_end = 1_000_000 + 60 * 25_000

    at, known_end = forced_cut(STAY, PartitionEnds(0, seen=1_000_000, seen_age_s=0.0))

    assert known_end == STAY.to_client(1_000_000)
    assert at > STAY.to_client(true_end) + RESERVE


@given(
    seen=st.integers(0, 10**6),
    age_s=st.floats(0, 10**6),
    share=st.floats(0, 1),
    rate=st.integers(LEAST_RATE, FASTEST_PER_S),
)
def test_a_cut_by_an_operators_rate_is_above_any_growth_that_the_rate_allows(
    seen: int, age_s: float, share: float, rate: int
) -> None:
    true_end = max(STAY.base, seen) + int(age_s * rate * share)

    ends = PartitionEnds(0, seen=seen, seen_age_s=age_s)
    at, _ = forced_cut(STAY, ends, fastest_per_s=rate)

    assert STAY.to_client(true_end) < at <= forced_cut(STAY, ends)[0]


def test_a_slow_topic_has_a_hole_that_tools_can_bear() -> None:
    ends = PartitionEnds(0, seen=1_000_000, seen_age_s=20.0)
    at, known_end = forced_cut(STAY, ends, fastest_per_s=LEAST_RATE)

    assert at - known_end == 400_000


def test_a_record_of_unknown_age_leaves_room_for_years() -> None:
    at, known_end = forced_cut(STAY, PartitionEnds(0, seen=1_000_000, seen_age_s=None))

    assert (at - known_end, known_end) == (UNKNOWN_RESERVE, STAY.to_client(1_000_000))


@given(seen=st.integers(0, 10**6), age_s=st.floats(0, 10**5), share=st.floats(0, 1), stale=st.integers(0, 10**6))
def test_an_answer_of_a_stale_leader_does_not_lower_a_forced_cut(
    seen: int, age_s: float, share: float, stale: int
) -> None:
    true_end = max(STAY.base, seen) + int(age_s * FASTEST_PER_S * share)

    at, _ = forced_cut(STAY, PartitionEnds(0, seen=seen, seen_age_s=age_s, origin=min(stale, true_end)))

    assert STAY.to_client(true_end) < at
