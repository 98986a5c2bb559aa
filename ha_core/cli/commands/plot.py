"""`switchyard plot`: draws a migration with predicted cuts from its history."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ha_core.cli.command import CommandResult, CommandRun, OperationId, command, option
from ha_core.cli.plotting import DPI, Mark, draw_marks, figure, plain
from ha_core.model import HistoryEntry, MigrateOperation
from ha_core.operations.clusters.registered import known_operation
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.facts.verdict import amount
from ha_core.present.colours import COLOURS, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_NAMED = 9
"""Partitions in the legend: the colours of more could not be told apart."""


@dataclass
class Approach:
    """The approach of one partition's log to its cut."""

    topic: str
    partition: int
    cut: int
    """Client offset of the last proposed cut, or of the cut to which it was lowered."""
    ends: list[tuple[float, int]] = field(default_factory=list)
    """(seconds since the operation was started, the origin's log end as a client offset)."""


@command("plot", "Draw how the logs of a migration ran into their cuts.")
def plot(
    session: CommandRun, operation: OperationId, out: Annotated[Path, option("The picture, a PNG.")]
) -> CommandResult:
    environment = session.environment
    migration = known_operation(environment, operation, MigrateOperation)
    entries = environment.store.history(operation)
    approaches = approaches_of(migration, entries)
    if not approaches:
        raise RefusedError(
            f"The history of operation {operation} has no log ends and cuts to draw: only a migration with --cut "
            "predicted records them, and only if its partitions fit into a line of the history."
        )
    draw(migration, approaches, entries).savefig(out, dpi=DPI)
    count, where = len(approaches), out.resolve()
    return CommandResult(
        {"operation": operation, "plot": str(where), "partitions": count}, [f"{amount(count, 'partition')}: {where}"]
    )


def approaches_of(operation: MigrateOperation, entries: Iterable[HistoryEntry]) -> tuple[Approach, ...]:
    """One for each partition whose cut and log ends are recorded, in client offsets, whatever became of the maps. A cut
    that was lowered under a fence, because its log would not have reached it, is drawn at its final offset. Cuts that
    an executor proposed but died before recording come from the operation's document."""
    reached = operation.evidence.cuts if operation.evidence.opened else {}
    cuts = {(topic, cut.partition): cut.start for topic, these in reached.items() for cut in these}
    ends: dict[tuple[str, int], list[tuple[float, int]]] = {}
    for entry in entries:
        cuts.update(_rows(entry, "cuts"))
        cuts.update(_rows(entry, "lowered_to"))
        for key, end in _rows(entry, "client_ends").items():
            ends.setdefault(key, []).append((_at_s(operation, entry), end))
    return tuple(Approach(*key, cut, ends[key]) for key, cut in sorted(cuts.items()) if key in ends)


def draw(operation: MigrateOperation, approaches: Iterable[Approach], entries: Iterable[HistoryEntry]) -> Figure:
    """Log ends over time, counted from each partition's cut."""
    request = operation.request
    drawn = figure(9, 5.5)
    axes = drawn.subplots()
    lines = list(approaches)
    for number, approach in enumerate(lines):
        times, beyond = [at_s for at_s, _ in approach.ends], [end - approach.cut for _, end in approach.ends]
        name = f"{approach.topic}-{approach.partition}, cut {approach.cut:,}"
        axes.plot(times, beyond, marker="o", markersize=4, color=COLOURS[number % len(COLOURS)], label=name)
    axes.axhline(0, color=INK, linewidth=1, linestyle=(0, (6, 3)))
    steps = [entry for entry in entries if entry.outcome == "done" and entry.step in {"open", "settle", "finish"}]
    draw_marks(axes, [Mark(_at_s(operation, entry), entry.step) for entry in steps])
    axes.set_title(f"{operation.id}: logs in {request.origin} on their way to the cut", fontsize=12)
    axes.set_xlabel("seconds since the operation was started")
    axes.set_ylabel("log end, records from the cut (above it: surplus)")
    plain(axes)
    if len(lines) <= MAX_NAMED:
        axes.legend(frameon=False, fontsize=9)
    return drawn


def _at_s(operation: MigrateOperation, entry: HistoryEntry) -> float:
    return (datetime.fromisoformat(entry.at) - datetime.fromisoformat(operation.started)).total_seconds()


def _rows(entry: HistoryEntry, name: str) -> dict[tuple[str, int], int]:
    found = entry.detail.get(name)
    if entry.outcome not in {"done", "note"} or not isinstance(found, dict):
        return {}
    return {(topic, int(p)): int(offset) for topic, rows in found.items() for p, offset in rows.items()}
