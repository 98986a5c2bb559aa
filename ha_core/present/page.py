"""A page: lines and tables for people, which a terminal, a task's log and an approval each show in their own way."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from ha_core.model.shown import shown

Mark = Literal["strong", "error", "bad", "warning", "good", "dim"]
"""`error`: on a terminal it goes to standard error."""
MAX_ROWS = 200
"""Rows of a table in an approval."""


class Marked(str):
    """A text with a mark, which each output shows in its own way."""

    __slots__ = ("mark",)
    mark: Mark

    def __new__(cls, text: object, mark: Mark) -> Self:
        made = super().__new__(cls, text)
        made.mark = mark
        return made


@dataclass(frozen=True, slots=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""
    line: Callable[..., str] | None = None
    """Makes a log line of the cells of a row; None: column after column."""
    max_rows: int | None = None
    """Rows on a terminal; None: all of them."""
    whole: Sequence[str] = ()
    """Columns that a terminal never cuts: names and ids to be copied."""


Page = Iterable[str | Table]


def number(value: int | None) -> str:
    return "?" if value is None else str(value)


def size(count: int | None) -> str:
    """Bytes, in the largest unit that they fill: `873 B`, `4.2 MB`."""
    if count is None:
        return "?"
    for unit, length in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count} B"


def log_lines(page: Page, max_rows: int | None = None) -> Iterator[str]:
    """The page as lines of a log, with `max_rows` rows of each table; None: all of them."""
    for block in page:
        if isinstance(block, str):
            yield shown(block)
            continue
        if block.title:
            yield f"{shown(block.title)}:"
        for row in block.rows[:max_rows]:
            cells = [shown(str(cell)) for cell in row]
            line = block.line(*cells) if block.line else _in_words(block.columns, cells)
            yield f"  {line.rstrip()}"
        if max_rows is not None and len(block.rows) > max_rows:
            yield f"  … and {len(block.rows) - max_rows} more"


def markdown(page: Page) -> str:
    return "\n\n".join(_markdown(page))


def _in_words(columns: Sequence[str], cells: Sequence[str]) -> str:
    return ", ".join(f"{column} {cell}".strip() for column, cell in zip(columns, cells, strict=True) if cell)


def _markdown(page: Page) -> Iterator[str]:
    for block in page:
        if isinstance(block, str):
            yield f"**{_cell(block)}**" if isinstance(block, Marked) else _cell(block)
            continue
        if block.title:
            yield f"{_cell(block.title)}:"
        lines = [block.columns, ["---"] * len(block.columns), *block.rows[:MAX_ROWS]]
        yield "\n".join("| " + " | ".join(_cell(str(cell)) for cell in line) + " |" for line in lines)
        if len(block.rows) > MAX_ROWS:
            yield f"… and {len(block.rows) - MAX_ROWS} more: the log of the task `plan` has them all."


def _cell(text: str) -> str:
    """Names come from clients: no line breaks, no markup."""
    plain = shown(" ".join(text.split()))
    return "".join(f"\\{c}" if c in "|`*_[]<>\\" else c for c in plain)
