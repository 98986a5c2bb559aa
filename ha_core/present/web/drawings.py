"""Drawings inside tables: a topic's partitions on the way to their cuts, and its extents. Colours have words beside."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from ha_core.model import Extent, Topic
from ha_core.plan.facts.verdict import amount
from ha_core.plan.migration.status import PartitionStatus, TopicStatus
from ha_core.present.colours import COLOURS, GREEN, GREY, ORANGE
from ha_core.present.extents import end_words, widths

MAX_CELLS = 48
"""Cells of a bar; several partitions share a cell, which shows the worst."""
MAX_PARTITIONS = 100
_WIDTH, _HEIGHT = 160, 14
_EXTENTS_WIDTH = 600


def cut_bar(status: TopicStatus) -> Markup:
    """A cell for each partition: reached its cut, has still to, or not known."""
    partitions = status.partitions
    share = -(-len(partitions) // MAX_CELLS)
    parts = [partitions[at : at + share] for at in range(0, len(partitions), share)]
    cell = _WIDTH / len(parts)
    drawn = Markup("").join(
        Markup('<rect x="{:.1f}" width="{:.1f}" height="{}" fill="{}"><title>{}</title></rect>').format(
            at * cell, max(cell - 1, 1), _HEIGHT, *_cell(part)
        )
        for at, part in enumerate(parts)
    )
    words = f"{status.reached} of {len(partitions)} partitions have reached their cuts"
    return Markup('<svg width="{}" height="{}" role="img" aria-label="{}">{}</svg>').format(
        _WIDTH, _HEIGHT, words, drawn
    )


def _cell(partitions: Sequence[PartitionStatus]) -> tuple[str, str]:
    """Colour and words of its worst partition."""

    def rank(one: PartitionStatus) -> int:
        return 2 if one.crosses and one.missing is None else 1 if one.crosses and one.missing else 0

    worst = max(partitions, key=lambda one: (rank(one), one.missing or 0))
    more = f" and {len(partitions) - 1} more" if len(partitions) > 1 else ""
    words = (
        f"has reached its cut at {worst.end_offset:,}",
        f"{amount(worst.missing or 0, 'record')} to its cut at {worst.end_offset:,}",
        f"its end is not known; its cut is at {worst.end_offset:,}",
    )[rank(worst)]
    return (GREEN, ORANGE, GREY)[rank(worst)], f"partition {worst.partition}{more}: {words}"


def extents_drawing(topic: Topic) -> Markup:
    """A bar for each partition, with the extents in numbers below it."""
    clusters = sorted({one.cluster for extents in topic.partitions.values() for one in extents} | {topic.writer or ""})
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(clusters)}
    partitions = sorted(topic.partitions.items())
    legend = Markup(" ").join(
        Markup('<svg width="14" height="12" class="key"><rect width="12" height="12" fill="{}"/></svg>{}').format(
            colours[name], name
        )
        for name in clusters
        if name
    )
    rows = Markup("").join(
        Markup("<tr><td>{}</td><td>{}</td></tr>").format(number, _extents(extents, colours))
        for number, extents in partitions[:MAX_PARTITIONS]
    )
    more = len(partitions) - MAX_PARTITIONS
    left = Markup("<p>… and {} more partitions: <code>switchyard topic {}</code></p>").format(more, topic.name)
    return (
        Markup('<p class="keys">{} · writer {}</p>').format(legend, topic.writer or "(its own cluster)")
        + Markup("<table><thead><tr><th>partition</th><th>extents</th></tr></thead><tbody>{}</tbody></table>").format(
            rows
        )
        + (left if more > 0 else Markup(""))
    )


def _extents(extents: Sequence[Extent], colours: dict[str, str]) -> Markup:
    cells = widths(extents, _EXTENTS_WIDTH)
    scale = _EXTENTS_WIDTH / max(sum(cells), 1)
    bars, x = Markup(""), 0.0
    for extent, width in zip(extents, cells, strict=True):
        bars += Markup(
            '<rect x="{:.1f}" width="{:.1f}" height="{}" fill="{}" fill-opacity="{}"><title>{}</title></rect>'
        ).format(
            x, max(width * scale - 1, 1), _HEIGHT, colours[extent.cluster], 0.3 if extent.ignored else 1, _of(extent)
        )
        x += width * scale
    words = Markup(" │ ").join(_words(extents))
    return Markup('<svg width="{}" height="{}" role="img" aria-label="extents">{}</svg><small>{}</small>').format(
        _EXTENTS_WIDTH, _HEIGHT, bars, words
    )


def _words(extents: Sequence[Extent]) -> Iterator[Markup]:
    for extent in extents:
        about_end = end_words(extent)
        mark = "bad" if extent.found_end is not None else "warning"
        yield Markup("{}").format(_of(extent)) + (
            Markup(' <span class="{}">{}</span>').format(mark, about_end) if about_end else Markup("")
        )


def _of(extent: Extent) -> str:
    end = "…" if extent.end is None else f"{extent.end:,}"
    skipped = ", skipped by readers" if extent.ignored else ""
    return f"{extent.cluster} [{extent.start:,}, {end}) → {extent.base:,}{skipped}"
