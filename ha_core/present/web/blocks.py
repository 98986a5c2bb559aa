"""Blocks of a page as HTML. Names come from clients, so every text is escaped by `Markup`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from markupsafe import Markup

from ha_core.model.shown import shown
from ha_core.present.page import Marked, Page, Table

MAX_ROWS = 200
"""Rows of a table, so that an answer is bounded; a filter finds the others."""
LINKS: Mapping[str, str] = {
    "operation": "operation?id={}",
    "topic": "topic?name={}",
    "group": "group?name={}",
    "user": "clients?user={}",
}
"""Column of a table → address of a page about its cell."""
ITSELF = "itself"
"""In place of an address: the cell is one, of a page beside this one."""
_CODE = re.compile(r"`([^`]+)`")


def blocks(page: Page, max_rows: int = MAX_ROWS, links: Mapping[str, str] = LINKS) -> Markup:
    """The body of a document."""
    return Markup("\n").join(_blocks(page, max_rows, links))


def narrowed(page: Page, words: str) -> Iterator[str | Table]:
    """The page, with only those rows of its tables that have all `words` in their cells, in any case."""
    wanted = words.lower().split()
    for block in page:
        if isinstance(block, str) or not wanted:
            yield block
            continue
        rows = [row for row in block.rows if _has(row, wanted)]
        title = f"{block.title}: " if block.title else ""
        yield replace(block, rows=rows, title=f"{title}{len(rows):,} of {len(block.rows):,} rows have {words!r}")


def text(words: object) -> Markup:
    """Text between backticks is a command."""
    parts = _CODE.split(shown(str(words)))
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


def marked(words: object) -> Markup:
    """A class attribute for its mark."""
    return Markup(' class="{}"').format(words.mark) if isinstance(words, Marked) else Markup("")


def page_link(address: str) -> Markup:
    """The address as a link out of the frame; as text if a browser might not open a page by it."""
    if not address.startswith(("http://", "https://")):
        return text(address)
    return Markup('<a href="{}" target="_top">{}</a>').format(address, text(address))


def _has(row: Sequence[object], wanted: Sequence[str]) -> bool:
    cells = " ".join(map(str, row)).lower()
    return all(word in cells for word in wanted)


def _blocks(page: Page, max_rows: int, links: Mapping[str, str]) -> Iterator[Markup]:
    for block in page:
        if isinstance(block, str):
            yield Markup("<p{}>{}</p>").format(marked(block), text(block))
            continue
        if block.title:
            yield Markup("<h2>{}</h2>").format(text(block.title))
        head = Markup("").join(Markup("<th>{}</th>").format(column) for column in block.columns)
        rows = Markup("\n").join(_row(block.columns, row, links) for row in block.rows[:max_rows])
        yield Markup('<div class="table"><table><thead><tr>{}</tr></thead>\n<tbody>{}</tbody></table></div>').format(
            head, rows
        )
        if (more := len(block.rows) - max_rows) > 0:
            yield Markup('<p class="dim">… and {} more rows: give words to filter them</p>').format(f"{more:,}")


def _row(columns: Sequence[str], row: Sequence[object], links: Mapping[str, str]) -> Markup:
    cells = (
        Markup("<td{}>{}</td>").format(marked(cell), _cell(cell, links.get(column, "")))
        for column, cell in zip(columns, row, strict=True)
    )
    return Markup("<tr>{}</tr>").format(Markup("").join(cells))


def _cell(cell: object, link: str) -> Markup:
    if isinstance(cell, Markup):
        return cell
    if not link or not str(cell):
        return text(cell)
    if link == ITSELF:
        return page_link(str(cell))
    return Markup('<a href="{}">{}</a>').format(link.format(quote(str(cell), safe="")), text(cell))
