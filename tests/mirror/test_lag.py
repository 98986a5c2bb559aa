"""RPO, and the estimate of bytes that are not copied yet."""

from hypothesis import given
from hypothesis import strategies as st

from ha_core.mirror.lag import MOST_SEEN, LagTracker


def test_truncated_records_of_the_source_do_not_count() -> None:
    lag_tracker = LagTracker()
    lag_tracker.saw(10.0, end=100, copied=50)
    lag_tracker.saw(11.0, end=60, copied=50)
    assert lag_tracker.since(60) == 11.0


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=1, max_size=400))
def test_rpo_is_never_underestimated(steps: list[tuple[int, int]]) -> None:
    # Given a source that grows, and a copy that follows it
    lag_tracker, end, copied = LagTracker(), 0, 0
    ends: list[tuple[float, int]] = []
    for at, (more, taken) in enumerate(steps):
        end += more
        ends.append((float(at), end))
        copied = min(copied + taken, end)
        lag_tracker.saw(float(at), end, copied)
        # Then everything that existed at the reported time is copied
        since = lag_tracker.since(copied)
        level = [seen for seen, its in ends if its <= copied]
        assert since is None or since in level
        # And with few ends remembered, it is the last such time
        if at < MOST_SEEN:
            assert since == (level[-1] if level else None)


def test_remaining_bytes_are_estimated_from_recent_fetches() -> None:
    lag_tracker = LagTracker()
    assert lag_tracker.bytes_of(0) == 0
    assert lag_tracker.bytes_of(7) is None
    lag_tracker.fetched(10, 1_000)
    assert lag_tracker.bytes_of(7) == 700
    # When records become larger
    for _ in range(200):
        lag_tracker.fetched(1_000, 10_000_000)
    # Then the estimate grows
    assert lag_tracker.bytes_of(1) in range(9_000, 10_100)
