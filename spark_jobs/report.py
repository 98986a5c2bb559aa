"""Results of a job: a small JSON summary that DAGs read, and a table for people."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ha_core.model.shown import shown

MAX_ROWS = 40
MAX_CELL = 60


class JobOutcome(NamedTuple):
    summary: dict[str, Any]
    text: str


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], total: int) -> str:
    """At most `MAX_ROWS` rows of plain text; `total` is the number of all rows."""
    cells = [[_cell(value) for value in row] for _, row in zip(range(MAX_ROWS), rows, strict=False)]
    lines = [list(columns), *cells]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    more = f"… and {total - len(cells):,} more" if total > len(cells) else ""
    return "\n".join(filter(None, [title, *texts, more]))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    text = f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
    text = shown(" ".join(text.split()))
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"


_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def ago(then_ms: int | None, now_ms: int | None) -> str | None:
    """A relative time in the largest unit that it fills: `35 d ago`, `in 2 h`, `now` within a second."""
    if then_ms is None or now_ms is None:
        return None
    span_ms = abs(now_ms - then_ms)
    for unit, size_ms in _UNITS:
        if span_ms >= size_ms:
            span = f"{span_ms // size_ms:,} {unit}"
            return f"{span} ago" if then_ms < now_ms else f"in {span}"
    return "now"
