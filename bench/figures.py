"""Results of benchmarks, and their arithmetic. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class FigureTable:
    """Cells are texts; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self) -> str:
        """The table as aligned Markdown."""
        lines = (self.header, *self.rows)
        for number, row in enumerate(self.rows):
            if len(row) != len(self.header):
                raise ValueError(f"{self.title}: row {number} has {len(row)} cells, the header {len(self.header)}")
        widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(self.header))]
        padded = [
            "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
            for line in lines
        ]
        rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
        return "\n".join((f"**{self.title}**", "", padded[0], rule, *padded[1:]))


@dataclass(frozen=True, slots=True)
class BenchOutcome:
    """`figures` are for machines (JSON types only); `tables` and `remarks` show them to people.

    :ivar unmeasured: rows without a figure, each with its reason; a benchmark with such rows fails.
    :ivar missed: goals that the figures miss; the benchmark fails, and shows all figures.
    """

    figures: Mapping[str, Any]
    tables: tuple[FigureTable, ...]
    remarks: tuple[str, ...] = field(default=())
    unmeasured: tuple[str, ...] = field(default=())
    missed: tuple[str, ...] = field(default=())


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of `values` do not exceed (nearest rank).

    :raises ValueError: no values, or a percent outside (0, 100].
    """
    if not values:
        raise ValueError("there is no percentile of nothing: nothing was measured")
    if not 0 < percent <= 100:
        raise ValueError(f"percent {percent} is outside (0, 100]")
    return sorted(values)[math.ceil(percent / 100 * len(values)) - 1]


def spread(values: Sequence[float]) -> dict[str, float]:
    """`{"count", "p50", "p99", "max"}` of `values`, in their unit. :raises ValueError: no values."""
    return {
        "count": len(values),
        "p50": percentile(values, 50),
        "p99": percentile(values, 99),
        "max": max(values),
    }


def paired_ratio(measured: Sequence[float], base: Sequence[float]) -> float:
    """Median over the rounds of `measured` / `base`: a disturbance in a round affects both sides of it.

    :raises ValueError: no rounds, sides of different length, or a base that is not positive.
    """
    if not measured or len(measured) != len(base):
        raise ValueError(f"{len(measured)} rounds against {len(base)}: each round needs both sides")
    if min(base) <= 0:
        raise ValueError(f"a base of {min(base)} has no ratio")
    return median(one / other for one, other in zip(measured, base, strict=True))


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Growth of the second number per unit of the first, from the first point to the last.

    :raises ValueError: fewer than two points, or the first number does not grow.
    """
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        raise ValueError(f"{list(points)} has no slope")
    (x0, y0), (x1, y1) = points[0], points[-1]
    return (y1 - y0) / (x1 - x0)


def turns(paths: Sequence[str], rounds: int) -> tuple[tuple[str, ...], ...]:
    """The order of `paths` in each round, reversed in every other round, so that neither side always comes first."""
    return tuple(tuple(paths) if number % 2 == 0 else tuple(reversed(paths)) for number in range(rounds))


def number(value: float, digits: int = 3) -> str:
    """`value` with this many significant digits, never in exponent form."""
    if value == 0 or not math.isfinite(value):
        return str(value)
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{places}f}"
