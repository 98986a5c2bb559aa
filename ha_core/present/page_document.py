"""A page as a JSON document, bounded in size, which one task leaves for another one and for the page of a run."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ha_core.present.page import MAX_ROWS, Marked, Page, Table

MAX_BLOCKS = 200
"""Texts and tables of a page."""
MAX_TEXT = 4_000
"""Characters of a text. Commands with many names are long, and half a command is none."""


def document(page: Page) -> list[Any]:
    """A text is a text, or a mark and a text; a table is a mapping."""
    blocks = [*islice(page, MAX_BLOCKS + 1)]
    found: list[Any] = [_table(block) if isinstance(block, Table) else _text(block) for block in blocks[:MAX_BLOCKS]]
    return [*found, "… and more: the task's log has all of it."] if len(blocks) > MAX_BLOCKS else found


def page_of(blocks: Sequence[Any]) -> Iterator[str | Table]:
    """The page of a document."""
    for block in blocks:
        if not isinstance(block, Mapping):
            yield _text_of(block)
            continue
        rows = [[_text_of(cell) for cell in row] for row in block["rows"]]
        yield Table(tuple(block["columns"]), rows, title=block["title"])
        if block["left_out"]:
            yield f"… and {block['left_out']:,} more rows: the task's log has them."


def _table(table: Table) -> dict[str, Any]:
    return {
        "title": table.title,
        "columns": [*table.columns],
        "rows": [[_text(cell) for cell in row] for row in table.rows[:MAX_ROWS]],
        "left_out": max(0, len(table.rows) - MAX_ROWS),
    }


def _text(cell: object) -> Any:
    text = str(cell)
    plain = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    return [cell.mark, plain] if isinstance(cell, Marked) else plain


def _text_of(block: Any) -> str:
    return Marked(block[1], block[0]) if isinstance(block, list | tuple) else str(block)
