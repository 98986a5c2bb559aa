"""The arithmetic of the benchmarks."""

import pytest

from bench.blackout import fence_to_cut_ms
from bench.figures import FigureTable, number, paired_ratio, percentile, slope, spread, turns


@pytest.mark.parametrize(("percent", "expected"), [(1, 1), (50, 50), (99, 99), (99.1, 100), (100, 100)])
def test_a_percentile_is_the_nearest_rank_in_any_order(percent: float, expected: float) -> None:
    values = [float(one) for one in range(100, 0, -1)]

    assert percentile(values, percent) == expected


def test_the_ninety_ninth_percentile_of_few_values_is_their_maximum() -> None:
    assert spread([3.0, 9.0, 5.0]) == {"count": 3, "p50": 5.0, "p99": 9.0, "max": 9.0}


@pytest.mark.parametrize("percent", [0, -1, 100.5])
def test_a_percent_out_of_range_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="outside"):
        percentile([1.0], percent)


def test_nothing_measured_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        percentile([], 50)


def test_a_ratio_compares_both_sides_of_a_round_before_it_takes_the_median() -> None:
    # Given a second round in which the whole machine was ten times slower
    measured, base = [90.0, 8.0, 100.0], [100.0, 10.0, 100.0]

    assert paired_ratio(measured, base) == pytest.approx(0.9)


@pytest.mark.parametrize(("measured", "base"), [([], []), ([1.0], [1.0, 2.0]), ([1.0], [0.0])])
def test_rounds_that_cannot_be_compared_have_no_ratio(measured: list[float], base: list[float]) -> None:
    with pytest.raises(ValueError, match=r"round|ratio"):
        paired_ratio(measured, base)


def test_a_slope_ignores_the_offset() -> None:
    assert slope([(100, 5_000.0), (500, 7_000.0), (1_100, 15_000.0)]) == 10.0


@pytest.mark.parametrize("points", [[], [(1, 1.0)], [(2, 1.0), (2, 5.0)]])
def test_one_point_has_no_slope(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="no slope"):
        slope(points)


def test_no_path_is_always_first() -> None:
    assert turns(("direct", "gateway"), 3) == (
        ("direct", "gateway"),
        ("gateway", "direct"),
        ("direct", "gateway"),
    )


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1234.5, "1234"), (12.345, "12.3"), (0.0012345, "0.00123"), (-1.5, "-1.50")]
)
def test_numbers_keep_three_significant_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_a_table_is_aligned_markdown() -> None:
    table = FigureTable("Title", ("a", "b"), (("long cell", "1"), ("x", "22")))

    assert table.text().splitlines() == [
        "**Title**",
        "",
        "| a         | b   |",
        "|-----------|-----|",
        "| long cell | 1   |",
        "| x         | 22  |",
    ]


def test_a_row_with_a_missing_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="row 1 has 1 cells, the header 2"):
        FigureTable("Title", ("a", "b"), (("1", "2"), ("3",))).text()


def test_fence_to_cut_is_the_time_that_clients_wait() -> None:
    steps = [("adopt", 200.0), ("fence", 4.0), ("drain", 20.0), ("ends", 18.0), ("cut", 5.0), ("verify", 9.0)]

    assert fence_to_cut_ms([{"name": name, "ms": ms} for name, ms in steps]) == 47.0
