"""A plot of a failover from the clients' events: acknowledged records, their clusters, and the group's progress.

Every acknowledged record is a point, at its time and its number in the order of acknowledgement: a step to the right
is a time without acknowledgements. Its colour shows the cluster that holds it for good; lost records stand out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from ha_core.cli.plotting import Mark, draw_marks, figure, plain
from ha_core.present.colours import INK
from stack.demo.plot import HOLDERS, READER, Points, apart, draw_points, save
from stack.history.events import Acked, Delivered
from stack.history.history import History
from stack.history.lost_tails import ForcedLoss, tail_records

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOST = "#C00000"
BEFORE_S, BEHIND_S = 6.0, 12.0
"""Seconds shown before the first mark, and after the last one."""


@dataclass(frozen=True)
class FailoverTrack:
    """Points of (time, number), for the whole topic."""

    origin: str
    target: str
    mirrored: Points
    """Acknowledged by the origin, and in the copy."""
    lost: Points
    after: Points
    """Acknowledged by the target."""
    read: Points
    """Records delivered to the group, each counted once."""


def acks(history: History) -> list[Acked]:
    """All acknowledgements, by time."""
    found = [event for events in history.clients.values() for event in events if isinstance(event, Acked)]
    return sorted(found, key=lambda ack: ack.t)


def track_of(history: History, loss: ForcedLoss, group: str) -> FailoverTrack:
    lying = tail_records(history, loss.tail)
    cuts = {partition: extents[-1].start for partition, extents in loss.topic.partitions.items()}
    found: dict[str, list[tuple[float, int]]] = {"mirrored": [], "lost": [], "after": []}
    for number, ack in enumerate(acks(history), 1):
        is_lost = lying.get((ack.topic, ack.partition), {}).get(ack.offset) == ack.value
        where = "lost" if is_lost else "after" if ack.offset >= cuts[ack.partition] else "mirrored"
        found[where].append((ack.t, number))
    first: dict[str, float] = {}
    for events in history.clients.values():
        for event in events:
            if isinstance(event, Delivered) and event.group == group:
                first[event.value] = min(event.t, first.get(event.value, event.t))
    read = list(zip(sorted(first.values()), count(1), strict=False))
    return FailoverTrack(loss.tail.cluster, loss.tail.target, found["mirrored"], found["lost"], found["after"], read)


def draw(track: FailoverTrack, marks: Sequence[Mark], killed: float, path: Path, topic: str) -> Figure:
    """Write the plot to `path`, a PNG, and return it. Time counts from `killed`; `marks` define the range shown."""
    drawn = figure(11, 6.4)
    axes = drawn.subplots()
    several: Mapping[str, tuple[Points, str]] = {
        f"acknowledged by {track.origin}, and in the copy": (track.mirrored, HOLDERS[0]),
        f"acknowledged by {track.origin}, and in no copy: lost": (track.lost, LOST),
        f"acknowledged by {track.target}": (track.after, HOLDERS[1]),
    }
    for label, (points, colour) in several.items():
        draw_points(axes, points, killed, colour, label, size=5 if colour == LOST else 3)
    times = [t - killed for t, _ in track.read]
    axes.plot(times, [n for _, n in track.read], color=READER, linewidth=1.4, label="read by the group")
    if track.after:
        t, number = track.after[0]
        text = f"{len(track.lost):,} records lost; first answer of {track.target} {t - killed:.1f} s after the kill"
        axes.annotate(text, (t - killed, number), xytext=(12, -16), textcoords="offset points", fontsize=9, color=INK)
    since, until = marks[0].t - BEFORE_S, marks[-1].t + BEHIND_S
    seen = [number for points, _ in several.values() for t, number in points if since <= t <= until]
    axes.set_xlim(since - killed, until - killed)
    axes.set_ylim(min(seen, default=0), 1.02 * max(seen, default=1))
    draw_marks(axes, apart(marks, until - since), killed)
    axes.set_xlabel(f"seconds since {track.origin} was killed")
    axes.set_ylabel("records since the clients began")
    plain(axes)
    drawn.suptitle(f"{topic} goes on at its copy in {track.target}: no client is restarted", fontsize=14)
    save(drawn, axes, path)
    return drawn
