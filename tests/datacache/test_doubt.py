"""Claims that are ignored: times that the source does not have, further ahead than clocks are wrong."""

from ha_core.datacache.core.agreement import FAR_US, FutureTimestampFilter

NOW_US = 1_700_000_000_000_000
FAR = NOW_US + FAR_US + 1


def test_a_claimed_time_counts_until_a_later_read_has_not_found_it() -> None:
    doubt = FutureTimestampFilter()
    # The third read has begun, and may have asked before the claim was made
    assert not doubt.false({"a": FAR}, NOW_US, begun=3, done=2, wall_us=NOW_US)
    assert not doubt.false({"a": FAR}, NOW_US, begun=3, done=3, wall_us=NOW_US)
    assert not doubt.false({"a": FAR}, NOW_US, begun=4, done=3, wall_us=NOW_US)
    assert doubt.false({"a": FAR}, NOW_US, begun=4, done=4, wall_us=NOW_US) == {"a"}


def test_a_node_with_a_growing_claim_is_ignored_too() -> None:
    doubt = FutureTimestampFilter()
    for more in range(10):
        found = doubt.false({"a": FAR + more, "b": 5}, NOW_US, begun=3 + more, done=3 + more, wall_us=NOW_US)
    assert found == {"a"}


def test_a_time_that_the_source_has_counts_whatever_its_clock() -> None:
    doubt = FutureTimestampFilter()
    ahead_us = NOW_US + 100 * FAR_US
    for number in range(1, 5):
        assert not doubt.false({"a": ahead_us}, ahead_us, begun=number, done=number, wall_us=NOW_US)


def test_a_time_within_clock_error_is_waited_for_after_a_restore() -> None:
    doubt = FutureTimestampFilter()
    for number in range(1, 5):
        assert not doubt.false({"a": NOW_US}, NOW_US - FAR_US, begun=number, done=number, wall_us=NOW_US - FAR_US // 2)


def test_a_node_that_has_read_nothing_ignores_no_claim() -> None:
    doubt = FutureTimestampFilter()
    for number in range(5):
        assert not doubt.false({"a": FAR}, None, begun=number, done=number, wall_us=NOW_US)


def test_a_node_that_withdraws_its_claim_counts_again() -> None:
    doubt = FutureTimestampFilter()
    doubt.false({"a": FAR}, NOW_US, begun=1, done=1, wall_us=NOW_US)
    assert doubt.false({"a": FAR}, NOW_US, begun=2, done=2, wall_us=NOW_US)
    assert not doubt.false({"a": NOW_US}, NOW_US, begun=2, done=2, wall_us=NOW_US)
    assert not doubt.false({"a": FAR}, NOW_US, begun=2, done=2, wall_us=NOW_US)
