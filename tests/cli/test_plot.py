"""The plot of a migration contains its recorded history, in client offsets, and nothing else."""

from typing import Any

from numpy import asarray

from ha_core.cli.commands.plot import approaches_of, draw
from ha_core.model import HistoryEntry
from ha_core.model.evidence import CrossingEvidence, Cut
from tests.kit.operations import a_migration

STARTED = "2026-01-01T00:00:00.000Z"
OPERATION = a_migration(started=STARTED)


def entry(second: int, step: str, **detail: Any) -> HistoryEntry:
    return HistoryEntry(at=f"2026-01-01T00:00:{second:02}.000Z", epoch=1, step=step, outcome="done", detail=detail)


def rows(offset: int) -> dict[str, dict[str, int]]:
    return {"orders": {"0": offset}}


HISTORY = (
    entry(1, "propose", cuts=rows(700), client_ends=rows(100)),
    entry(2, "open", client_ends=rows(130)),
    entry(9, "settle", client_ends=rows(720)),
)


def test_the_plot_draws_log_ends_relative_to_the_cut_over_time() -> None:
    approaches = approaches_of(OPERATION, HISTORY)

    figure = draw(OPERATION, approaches, HISTORY)

    (axes,) = figure.axes
    line = next(line for line in axes.lines if line.get_label() == "orders-0, cut 700")
    assert asarray(line.get_xdata()).tolist() == [1.0, 2.0, 9.0]
    assert asarray(line.get_ydata()).tolist() == [-600, -570, 20]
    assert {text.get_text() for text in axes.texts} == {"open", "settle"}


def test_the_plot_of_a_migration_ended_by_a_barrier_uses_the_lowered_cut() -> None:
    ended = (*HISTORY[:2], entry(9, "finish", lowered_to=rows(150), client_ends=rows(150)))

    (approach,) = approaches_of(OPERATION, ended)

    assert approach.cut == 150
    assert approach.ends == [(1.0, 100), (2.0, 130), (9.0, 150)]
    (axes,) = draw(OPERATION, [approach], ended).axes
    assert {text.get_text() for text in axes.texts} == {"open", "finish"}


def test_the_plot_has_a_cut_whose_executor_died_before_recording_it() -> None:
    cut = Cut(partition=0, start=700, base=0, writer_epoch=1)
    evidence = CrossingEvidence(opened="2026-01-01T00:00:02.000Z", cuts={"orders": (cut,)})

    (approach,) = approaches_of(a_migration(started=STARTED, evidence=evidence), HISTORY[1:])

    assert approach.cut == 700


def test_the_plot_leaves_out_a_partition_without_recorded_ends() -> None:
    assert approaches_of(OPERATION, [entry(1, "propose", cuts=rows(700), client_ends_left_out=9_000)]) == ()
