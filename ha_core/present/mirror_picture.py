"""Mirrors as a picture: a line for each, a cell for each partition, coloured by its state.

An SVG by itself, or a page of HTML with the tables below it. Neither loads other resources, and names, which clients
choose, are text in both.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from ha_core.model.shown import shown
from ha_core.operations.clusters.mirrors import MirrorRow, MirrorsNow
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.mirror.total import MirrorTotal
from ha_core.present.colours import FAINT, GREEN, GREY, INK, ORANGE, VERMILION
from ha_core.present.mirrors import LEVEL_S, copied_of, lag_of, level, mirrors_page, partitions_of, rpo_of
from ha_core.present.page import Page, size
from ha_core.present.web.blocks import blocks

MAX_MIRRORS = 100
MAX_ROWS = 2_000
MAX_CELLS = 60
"""Cells of a line. If there are more partitions several share a cell, which shows the worst."""
MAX_TITLE = 34
"""Characters. Topics' names are shortened to it, never the clusters'; a tooltip shows it whole."""
_STATES = (
    ("stopped", VERMILION, "!", "stopped: waits for an operator"),
    ("unknown", GREY, "?", "no task reports it, or an operation holds it"),
    ("behind", ORANGE, "", f"behind: more than {LEVEL_S} s could be lost, or it waits"),
    ("level", GREEN, "", "level with its source"),
)
"""The worst first. States that need action have a sign as well, for readers who do not see the colours."""
_WORST_FIRST = [name for name, *_ in _STATES]
_WIDTH, _LINE, _TOP, _LEFT = 1200, 44, 74, 20
_FONT = 'font-family="system-ui, sans-serif"'


def svg(mirrors: MirrorsNow, at: str) -> str:
    """:param at: the time of the state that it shows."""
    lines = _lines(mirrors)
    shown = lines[:MAX_MIRRORS]
    height = _TOP + _LINE * max(len(shown), 1) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="mirrors" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(_LEFT, 28, f"Mirrors, {at}", 18, INK),
        *_legend(),
    ]
    for index, line in enumerate(shown):
        parts += _line(_TOP + index * _LINE, line)
    if not shown:
        parts.append(_text(_LEFT, _TOP + 20, "no topic is mirrored", 14, FAINT))
    if len(lines) > len(shown):
        parts.append(_text(_LEFT, height - 14, f"… and {len(lines) - len(shown)} more in a better state", 12, FAINT))
    return "\n".join([*parts, "</svg>"]) + "\n"


def document(mirrors: MirrorsNow, more: Page, at: str) -> str:
    """A page of HTML.

    :param more: below the tables of the mirrors.
    """
    # Bad states must be neither cut off nor below hundreds of rows without news.
    mirrors = MirrorsNow(sorted(mirrors.rows, key=_worst), mirrors.totals)
    tables = blocks([*mirrors_page(mirrors), *more], MAX_ROWS, links={})
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Mirrors</title><style>\n'
        "body{font-family:system-ui,sans-serif;color:#222;background:#fff;margin:1rem}\n"
        "svg{max-width:100%;height:auto}table{border-collapse:collapse;margin:.5rem 0 1.5rem}\n"
        "td,th{border-bottom:1px solid #ddd;padding:.2rem .7rem;text-align:left;font-size:.85rem}\n"
        ".error,.bad{color:#a33a00;font-weight:600}.warning{color:#8a6100}.good{color:#00664b}.dim{color:#666}\n"
        f"</style></head><body>\n{svg(mirrors, at)}{tables}\n</body></html>\n"
    )


class _Line(NamedTuple):
    topic: str
    route: str
    rows: Sequence[MirrorRow]
    total: MirrorTotal

    @property
    def title(self) -> str:
        return f"{self.topic}: {self.route}"

    @property
    def short(self) -> str:
        room = max(MAX_TITLE - len(f": {self.route}"), 8)
        topic = self.topic if len(self.topic) <= room else f"{self.topic[: room - 1]}…"
        return f"{topic}: {self.route}"


def _lines(mirrors: MirrorsNow) -> list[_Line]:
    """The worst first. Unreadable mirrors have no total, but they are drawn too."""
    rows = grouped(((row.topic, row.target), row) for row in mirrors.rows)
    totals = {(mirror.topic, mirror.target): total for mirror, total in mirrors.totals}
    lines = [
        _Line(topic, f"{own[0].source} → {target}", own, totals.get((topic, target)) or MirrorTotal.of(()))
        for (topic, target), own in rows.items()
    ]
    return sorted(lines, key=lambda line: (min(map(_worst, line.rows)), -(line.total.rpo_s or 0), line.title))


def _state(row: MirrorRow) -> str:
    if row.state == "stopped":
        return "stopped"
    if row.state not in {"copying", "waiting"}:
        return "unknown"
    return "level" if level(row) else "behind"


def _worst(row: MirrorRow) -> int:
    return _WORST_FIRST.index(_state(row))


def _line(y: int, line: _Line) -> Iterator[str]:
    rows, total = line.rows, line.total
    yield f"<g><title>{escape(shown(line.title))}</title>{_text(_LEFT, y + 12, line.short, 14, INK)}</g>"
    yield _text(_LEFT, y + 29, partitions_of(total), 11, FAINT)
    share = -(-len(rows) // MAX_CELLS)
    for index, at in enumerate(range(0, len(rows), share)):
        yield from _cell(300 + index * 9, y, rows[at : at + share])
    lag = f"lag in records {lag_of(total)}, {size(total.lag_bytes)}"
    yield _text(870, y + 12, f"RPO {rpo_of(total)}, {copied_of(total)}", 14, INK)
    yield _text(870, y + 29, lag, 11, FAINT)


def _cell(x: float, y: int, rows: Sequence[MirrorRow]) -> Iterator[str]:
    worst = min(rows, key=_worst)
    _, colour, sign, words = _STATES[_worst(worst)]
    which = "partitions" if worst.partition is None else f"partition {worst.partition}"
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    text = f"{which}{more}: {worst.state}, {words}{f'. {worst.reason}' if worst.reason else ''}".replace("`", "")
    yield f'<rect x="{x:.1f}" y="{y}" width="8" height="22" fill="{colour}"><title>{escape(shown(text))}</title></rect>'
    if sign:
        yield _text(x + 2, y + 15, sign, 10, "#ffffff")


def _legend() -> Iterator[str]:
    x = _LEFT
    for _, colour, sign, words in reversed(_STATES):
        yield f'<rect x="{x}" y="42" width="8" height="14" fill="{colour}"/>'
        if sign:
            yield _text(x + 2, 53, sign, 10, "#ffffff")
        yield _text(x + 14, 53, words, 11, FAINT)
        x += 34 + 6 * len(words)


def _text(x: float, y: float, words: str, points: int, colour: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" font-size="{points}" fill="{colour}">{escape(shown(words))}</text>'
