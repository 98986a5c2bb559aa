"""A plot of a migration from the clients' events and the clusters' logs: no value in it is predicted.

One panel per partition: client offsets over time. Every acknowledged record is a point at its time of
acknowledgement, in the colour of the cluster that holds it for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ha_core.cli.plotting import DPI, Mark, draw_marks, figure, plain
from ha_core.present.colours import BLUE, GREEN, INK, PURPLE, SKY, VERMILION
from stack.history.events import Acked, Delivered
from stack.history.history import History, Truth, rebuild_stays

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = Sequence[tuple[float, int]]
"""(seconds since the epoch, client offset), ascending in time."""

HOLDERS = (BLUE, VERMILION, PURPLE, SKY)
"""One colour per cluster."""
READER, SURPLUS = GREEN, SKY
CLOSE = 0.04
"""Share of the time shown below which labels of marks would overlap."""


@dataclass(frozen=True)
class Track:
    """One partition."""

    partition: int
    cut: int
    origin: str
    target: str
    held: Mapping[str, Points] = field(default_factory=dict)
    """Cluster → acknowledged records that it holds for good."""
    surplus: Points = ()
    """Records at and above the cut that the origin has, too, as acknowledged: they are never read there."""
    read: Points = ()
    """Records delivered to the lagging reader."""


def tracks_of(history: History, reader: str) -> tuple[Track, ...]:
    """A track for each cut of `history`, for a topic with one cut in each partition, and both clusters' logs."""
    truth = Truth.of(history)
    events = [event for each in history.clients.values() for event in each]
    found = []
    for cut in sorted(history.cuts, key=lambda history_cut: history_cut.partition):
        spot = (cut.topic, cut.partition)
        own = rebuild_stays(history.cuts, *spot)
        acked = {
            event.value: event.t
            for event in events
            if isinstance(event, Acked) and (event.topic, event.partition) == spot
        }
        held: dict[str, list[tuple[float, int]]] = {cut.origin: [], cut.target: []}
        for offset, value in truth.records.get(spot, {}).items():
            holder = next(stay.cluster for stay in own if stay.end is None or offset < stay.end)
            if value in acked:
                held[holder].append((acked[value], offset))
        beyond = {
            value: cut.cut + offset - cut.origin_end
            for dump in history.logs
            if (dump.topic, dump.partition) == spot and dump.cluster == cut.origin
            for offset, value in dump.records.items()
            if offset >= cut.origin_end
        }
        read = [
            (event.t, event.offset)
            for event in history.clients.get(reader, ())
            if isinstance(event, Delivered) and (event.topic, event.partition) == spot
        ]
        found.append(
            Track(
                cut.partition,
                cut.cut,
                cut.origin,
                cut.target,
                {cluster: sorted(points) for cluster, points in held.items()},
                sorted((acked[value], offset) for value, offset in beyond.items() if value in acked),
                read,
            )
        )
    return tuple(found)


def draw(tracks: Sequence[Track], marks: Sequence[Mark], path: Path, topic: str) -> Figure:
    """Write the plot to `path`, a PNG, and return it. Time counts from the first mark.

    :raises ValueError: there is nothing to plot.
    """
    if not tracks or not marks:
        raise ValueError(f"no migration of {topic} was recorded")
    drawn = figure(5.2 * len(tracks) + 0.8, 6.4)
    panels = drawn.subplots(1, len(tracks), sharex=True, squeeze=False)[0]
    zero = marks[0].t
    times = [t for track in tracks for points in (*track.held.values(), track.read) for t, _ in points]
    spread_marks = apart(marks, max(times, default=0.0) - min(times, default=0.0))
    for axes, track in zip(panels, tracks, strict=True):
        _panel(axes, track, spread_marks, zero)
    panels[0].set_ylabel("client offset")
    first = tracks[0]
    drawn.suptitle(
        f"{topic} migrates from {first.origin} to {first.target}: no fence, and no offset changes", fontsize=14
    )
    save(drawn, panels[0], path)
    return drawn


def save(drawn: Figure, axes: Axes, path: Path) -> None:
    """Save the figure with the legend of `axes` below it."""
    handles, labels = axes.get_legend_handles_labels()
    legend = drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    for line in legend.get_lines():
        line.set_markersize(8)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn.savefig(path, dpi=DPI)


def apart(marks: Sequence[Mark], span_s: float) -> list[Mark]:
    """Merge marks whose labels would overlap in a plot of this length."""
    found: list[Mark] = []
    for mark in sorted(marks, key=lambda one: one.t):
        if found and mark.t - found[-1].t < span_s * CLOSE:
            found[-1] = Mark(found[-1].t, f"{found[-1].text}, {mark.text}")
        else:
            found.append(mark)
    return found


def _panel(axes: Axes, track: Track, marks: Sequence[Mark], zero: float) -> None:
    axes.set_title(f"partition {track.partition}", fontsize=11, color=INK)
    axes.set_xlabel("seconds since the cut was proposed")
    draw_points(axes, track.surplus, zero, SURPLUS, f"also in {track.origin}: surplus, never read", size=9)
    for colour, (cluster, points) in zip(HOLDERS, track.held.items(), strict=False):
        draw_points(axes, points, zero, colour, f"acknowledged, held by {cluster}", size=3)
    axes.plot(
        [t - zero for t, _ in track.read],
        [offset for _, offset in track.read],
        color=READER,
        linewidth=1.4,
        label="read by the lagging consumer",
    )
    axes.axhline(track.cut, color=INK, linewidth=1, linestyle=(0, (6, 3)), label="cut")
    axes.annotate(
        f"cut {track.cut:,}",
        (1, track.cut),
        xycoords=("axes fraction", "data"),
        xytext=(-4, -4),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=9,
        color=INK,
    )
    crossing = next(((t, offset) for t, offset in track.read if offset >= track.cut), None)
    if crossing is not None:
        axes.plot([crossing[0] - zero], [crossing[1]], "o", color=READER, markeredgecolor="white", markersize=9)
    draw_marks(axes, marks, zero)
    top = max((offset for points in (*track.held.values(), track.read) for _, offset in points), default=track.cut)
    for colour, low, high in zip(HOLDERS, (0, track.cut), (track.cut, 1.12 * top), strict=False):
        axes.axhspan(low, high, color=colour, alpha=0.05, linewidth=0)
    axes.set_ylim(0, 1.12 * top)
    plain(axes)


def draw_points(axes: Axes, points: Points, zero: float, colour: str, label: str, size: float) -> None:
    axes.plot(
        [t - zero for t, _ in points],
        [offset for _, offset in points],
        linestyle="none",
        marker="o",
        markersize=size,
        markeredgewidth=0,
        color=colour,
        label=label,
    )
