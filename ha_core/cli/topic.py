"""`switchyard topic`: where the records of a topic live, drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.text import Text

from ha_core.cli.output import COLOURS, table
from ha_core.cli.session import Session, connected
from ha_core.model import Extent, Topic
from ha_core.operations.errors import RefusedError
from ha_core.operations.inventory import overview
from ha_core.plan.returned import dead_at_the_cut
from ha_core.present.page import number

BAR_CELLS = 40
OPEN_WEIGHT = 12.0
MAX_ROWS = 1_000
FILLS = "█▓▒░▚▤"


def widths(extents: Sequence[Extent], cells: int = BAR_CELLS) -> list[int]:
    """Cells per extent, at least 1 each: logarithmic, so that a short stay between long ones is still seen."""
    weights = [OPEN_WEIGHT if e.end is None else 1 + math.log2(1 + e.end - e.start) for e in extents]
    total = sum(weights)
    return [max(1, round(cells * weight / total)) for weight in weights]


def draw(topic: Topic) -> Text:
    """One line per partition: a bar in the clusters' colours and fills, then the extents in numbers."""
    clusters = sorted({e.cluster for extents in topic.partitions.values() for e in extents} | {topic.writer or ""})
    style = {name: (COLOURS[i % len(COLOURS)], FILLS[i % len(FILLS)]) for i, name in enumerate(clusters)}
    drawing = Text()
    digits = len(str(max(topic.partitions, default=0)))
    for partition, extents in sorted(topic.partitions.items()):
        drawing.append(f"{partition:>{digits}}  ")
        drawing.append_text(_bar(extents, style))
        drawing.append("  ")
        drawing.append_text(Text(" │ ").join(_words(e, style) for e in extents))
        drawing.append("\n")
    return drawing


def _bar(extents: Sequence[Extent], style: Mapping[str, tuple[str, str]]) -> Text:
    bar = Text()
    for extent, cells in zip(extents, widths(extents), strict=True):
        colour, fill = style[extent.cluster]
        bar.append("·" * cells if extent.ignored else fill * cells, style=colour)
        bar.append("▶" if extent.end is None else "┃", style=colour if extent.end is None else "bold")
    return bar


def _words(extent: Extent, style: Mapping[str, tuple[str, str]]) -> Text:
    end = "…" if extent.end is None else str(extent.end)
    words = Text(f"{extent.cluster}", style=style[extent.cluster][0])
    words.append(f" [{extent.start}, {end}) → {extent.base} term {extent.term}", style="default")
    if extent.ignored:
        words.append(" skipped by readers", style="dim")
    if extent.found_end is not None and extent.end is not None and extent.found_end > extent.end:
        words.append(f" LOST: its log goes on to {extent.found_end}, above the cut", style="bold red")
    elif extent.found_end is not None:
        words.append(f" LOST: held up to {extent.known_end}, has up to {extent.found_end}", style="bold red")
    elif extent.known_end is not None:
        words.append(f" end not confirmed: known up to {extent.known_end}", style="yellow")
    return words


def add_to(app: typer.Typer) -> None:
    @app.command("topics", help="All topics of all clusters: where they are written, what they hold, who is behind.")
    @connected
    def topics(session: Session) -> None:
        found = overview(session.environment)
        session.out.result(found.to_json())
        columns = ("topic", "partitions", "written in", "older records in", "records", "groups", "most behind", "lag")
        rows = [
            (
                one.topic,
                one.partitions,
                ", ".join(one.written_in) + ("" if one.moved else " (never moved)"),
                ", ".join(one.older_in),
                number(one.records),
                one.groups,
                one.furthest,
                number(one.lag_records) if one.groups else "",
            )
            for one in found.topics[:MAX_ROWS]
        ]
        session.out.show(table(columns, rows) if rows else "no cluster that answers has a topic")
        if len(found.topics) > MAX_ROWS:
            session.out.show(f"… and {len(found.topics) - MAX_ROWS} more: --json has them all")
        for cluster, why in found.unasked.items():
            session.out.show(f"{cluster} cannot be asked: {why}")

    @app.command("topic", help="Where the records of a topic live: extents, drawn.")
    @connected
    def topic(session: Session, name: Annotated[str, typer.Argument(metavar="TOPIC")]) -> None:
        view = session.environment.store.load()
        found = view.topics.get(name)
        if found is None:
            holders = session.environment.clusters_with(name, view)
            if not holders:
                raise RefusedError(
                    f"Topic {name} has no map and exists in no reachable cluster "
                    f"({', '.join(sorted(view.clusters)) or 'none registered'}). Check the name."
                )
            session.out.result({"topic": name, "map": None, "clusters": holders})
            session.out.show(f"{name}: never moved, passed through as it is; exists in {', '.join(holders)}")
            return
        session.out.result({"topic": name, "map": found.model_dump(mode="json", by_alias=True, exclude_none=True)})
        title = Text(name, style="bold")
        title.append(f"  writer {found.writer or '(its own cluster)'}, revision {view.revision}", style="not bold")
        if found.fence:
            title.append(f", FENCED by operation {found.fence.operation}", style="bold red")
        if found.crossing:
            operation = found.crossing.operation
            title.append(f", crosses over ({found.crossing.state}) for operation {operation}", style="bold yellow")
        if found.transaction_fence:
            operation = found.transaction_fence.operation
            title.append(f", no transaction may begin: operation {operation} waits for open ones", style="bold red")
        session.out.show(title)
        session.out.show(draw(found) if found.partitions else Text("no map yet: client offsets are the cluster's own"))
        for text in dead_at_the_cut(found, view.masked):
            session.out.show(text)
