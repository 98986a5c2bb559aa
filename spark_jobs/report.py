"""What a job leaves for others: a small JSON summary that DAGs read, and a table for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

MOST_ROWS = 40
MOST_CELL = 60


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], total: int) -> str:
    """At most `MOST_ROWS` rows of plain text; `total` says how many there are."""
    cells = [[_cell(value) for value in row] for _, row in zip(range(MOST_ROWS), rows, strict=False)]
    lines = [list(columns), *cells]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    more = f"… and {total - len(cells):,} more" if total > len(cells) else ""
    return "\n".join(filter(None, [title, *shown, more]))


def _cell(value: object) -> str:
    if value is None:
        return "-"
    text = f"{value:,.1f}" if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)
    text = " ".join(text.split())
    return text if len(text) <= MOST_CELL else text[: MOST_CELL - 1] + "…"


def write_whole(file: Path, text: str) -> None:
    """Writes the file whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f"{file.name}.unfinished")
    unfinished.write_text(text, "utf-8")
    unfinished.replace(file)


def to_json(summary: dict[str, Any]) -> str:
    return json.dumps(summary, indent=1, sort_keys=True, allow_nan=False) + "\n"
