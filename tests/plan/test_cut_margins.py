"""Distance of a cut after logs were faster than the previous one."""

from random import Random

import pytest

from ha_core.plan.migration.cuts import outrun_margin


@pytest.mark.parametrize("seed", range(20))
def test_the_margin_after_an_outrun_cut_covers_records_spread_at_random(seed: int) -> None:
    # Given a producer that gives its records to any of fifty partitions, a hundred until gateways serve a cut
    random = Random(seed)

    def burst() -> list[int]:
        grown = [0] * 50
        for _ in range(100):
            grown[random.randrange(50)] += 1
        return grown

    # When cuts are chosen by the growth of one such period
    margin = outrun_margin(burst(), [0.0] * 50, attempt=1)
    # Then the next brings no partition to its cut
    assert max(burst()) < margin


def test_without_known_growth_the_margin_of_a_cut_grows_with_each_attempt() -> None:
    margins = [outrun_margin([], [], attempt) for attempt in range(1, 5)]
    assert margins == [7, 10, 17, 28]


def test_the_margin_of_a_cut_of_a_fast_topic_follows_its_rates() -> None:
    assert outrun_margin([0, 0], [1_000.0, 3_000.0], attempt=1) >= 2 * 2_000
