"""Results go to standard output, progress and errors to standard error."""

import json
import sys
from dataclasses import asdict
from typing import Any

import rich.table
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from ha_core.model import Document
from ha_core.model.shown import shown, shown_json, shown_lines
from ha_core.present.page import Mark, Marked, Page, Table

WIDTH_OF_NO_TERMINAL = 400
"""Columns of tables in a file or pipe: nothing is cut off there."""
STYLES: dict[Mark, str] = {
    "strong": "bold",
    "error": "bold red",
    "bad": "bold red",
    "warning": "yellow",
    "good": "green",
    "dim": "dim",
}
COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")


class Output:
    """One command's output. With `as_json`, standard output carries one JSON document and nothing else."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        width = None if sys.stdout.isatty() else WIDTH_OF_NO_TERMINAL
        self._out = Console(file=sys.stdout, highlight=False, soft_wrap=True, width=width)
        self._err = Console(file=sys.stderr, highlight=False, soft_wrap=True)

    def result(self, data: Any) -> None:
        """Print the result for machines, if `as_json`."""
        if self.as_json:
            sys.stdout.write(shown_json(json.dumps(data, ensure_ascii=False, default=plain)) + "\n")
            sys.stdout.flush()

    def write(self, line: bytes) -> None:
        """Print bytes as they are, for results with a format of their own."""
        sys.stdout.write(line.decode())

    def show(self, renderable: Any) -> None:
        """Print the result for people, unless `as_json`."""
        if not self.as_json:
            self._out.print(renderable if not isinstance(renderable, str) else Text(shown(renderable)))

    def page(self, page: Page) -> None:
        """Print a page for people. Its errors go to standard error, with `as_json` too."""
        for block in page:
            if isinstance(block, Marked) and block.mark == "error":
                self.error(block)
            elif isinstance(block, str):
                self.show(_text(block))
            else:
                self.show(_table(block))
                if block.max_rows is not None and len(block.rows) > block.max_rows:
                    self.show(f"… and {len(block.rows) - block.max_rows} more: --json has them all")

    def progress(self, text: str) -> None:
        self._err.print(Text(shown_lines(text)))

    def error(self, text: str) -> None:
        self._err.print(Text("error: ", style="bold red") + Text(shown_lines(text)))

    def confirm(self, question: str) -> bool:
        """Ask the operator. False without a terminal."""
        if not sys.stdin.isatty():
            return False
        self._err.print(Text(f"{shown_lines(question)} [y/N] "), end="")
        return sys.stdin.readline().strip().lower() in {"y", "yes"}


def plain(thing: Any) -> Any:
    """A document, dataclass or object with `to_json` as JSON for machines."""
    if isinstance(thing, Document):
        return thing.model_dump(mode="json", exclude_none=True, exclude={"schema_"})
    return thing.to_json() if hasattr(thing, "to_json") else asdict(thing)


def _table(table: Table) -> rich.table.Table:
    title = Text(shown(table.title)) if table.title else None
    made = rich.table.Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for at, column in enumerate(table.columns):
        whole = column in table.whole
        width = max((cell_len(shown(str(row[at]))) for row in table.rows), default=None) if whole else None
        made.add_column(
            column, no_wrap=whole, min_width=width, overflow="fold"
        )  # an id that is cut off cannot be copied
    for row in table.rows[: table.max_rows]:
        made.add_row(*map(_text, row))
    return made


def _text(cell: object) -> Text:
    return Text(shown(str(cell)), style=STYLES[cell.mark] if isinstance(cell, Marked) else "")
