"""The demo's plot of a migration: recorded events reach the figure, each point in its line."""

from pathlib import Path

import pytest

from ha_core.cli.plotting import Mark
from stack.demo.migrating import LAGGING, reader_of
from stack.demo.plot import Track, draw, tracks_of
from stack.history.events import Acked, ClientStarted, Delivered
from stack.history.history import History, HistoryCut, LogDump

CUT = 5
SETTLED = 108.0


def recorded() -> History:
    """Ten records of one partition, a second apart; the cut at 5, two of those above it in the origin, too.

    The reader gets them from second 107 on, a second apart.
    """
    producer = [Acked("p", 100.0 + n, "invoices", 0, n, f"p-{n}") for n in range(10)]
    reader = [Delivered(LAGGING, 107.0 + n, "invoices", 0, n, f"p-{n}", "audit") for n in range(10)]
    return History(
        {
            "p": (ClientStarted("p", 99.0, "producer", "test", ("invoices",)), *producer),
            LAGGING: (ClientStarted(LAGGING, 99.0, "consumer", "test", ("invoices",), "audit"), *reader),
        },
        (HistoryCut("invoices", 0, CUT, "east", "west", origin_end=CUT, target_base=0, ahead=True),),
        (),
        (
            LogDump("east", "invoices", 0, 0, CUT + 2, {n: f"p-{n}" for n in range(CUT + 2)}),
            LogDump("west", "invoices", 0, 0, 5, {n: f"p-{n + CUT}" for n in range(5)}),
        ),
    )


def test_a_track_has_every_acknowledged_record_with_the_cluster_that_holds_it() -> None:
    (track,) = tracks_of(recorded(), LAGGING)

    assert track.held["east"] == [(100.0 + n, n) for n in range(CUT)]
    assert track.held["west"] == [(100.0 + n, n) for n in range(CUT, 10)]
    assert track.surplus == [(105.0, 5), (106.0, 6)]
    assert track.read == [(107.0 + n, n) for n in range(10)]


def test_a_track_leaves_out_records_that_no_cluster_holds() -> None:
    history = recorded()
    east, west = history.logs
    short = LogDump("west", "invoices", 0, 0, 4, {n: value for n, value in west.records.items() if n < 4})

    (track,) = tracks_of(History(history.clients, history.cuts, (), (east, short)), LAGGING)

    assert [offset for _, offset in track.held["west"]] == [5, 6, 7, 8]


def test_the_figure_shows_tracks_cut_and_marks(tmp_path: Path) -> None:
    # Given tracks of two partitions
    (track,) = tracks_of(recorded(), LAGGING)
    other = Track(1, 7, "east", "west", {"east": [(100.0, 6)], "west": []})
    marks = (Mark(101.0, "proposed"), Mark(SETTLED, "settled"))
    # When they are drawn
    figure = draw((track, other), marks, tmp_path / "new" / "plot.png", "invoices")
    # Then each has a panel with its data, in seconds since the first mark
    first, second = figure.axes
    lines = {str(line.get_label()): line for line in first.lines}
    drawn = {label: list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for label, line in lines.items()}  # type: ignore[arg-type]  # of our making: lists
    assert drawn["acknowledged, held by east"] == [(n - 1, n) for n in range(CUT)]
    assert drawn["acknowledged, held by west"] == [(n - 1, n) for n in range(CUT, 10)]
    assert drawn["also in east: surplus, never read"] == [(4, 5), (5, 6)]
    assert drawn["read by the lagging consumer"] == [(6 + n, n) for n in range(10)]
    assert [y for _, y in drawn["cut"]] == [CUT, CUT]
    assert {text.get_text() for text in first.texts} == {"cut 5", "proposed", "settled"}
    assert second.get_title() == "partition 1"
    assert (first.get_xlabel(), first.get_ylabel()) == ("seconds since the cut was proposed", "client offset")
    assert (tmp_path / "new" / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_drawing_a_migration_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no migration of invoices was recorded"):
        draw((), (Mark(1.0, "proposed"),), tmp_path / "plot.png", "invoices")


def test_the_reader_line_has_its_lag_and_the_time_it_crossed_every_cut() -> None:
    reader = reader_of(recorded(), SETTLED)

    assert (reader.lag_records, reader.crossed_after_s) == (9 - 2, 112.0 - SETTLED)
    assert (reader.below_cut, reader.from_cut_on) == (5, 5)


def test_a_reader_below_the_cut_has_no_crossing_time() -> None:
    history = recorded()
    clients = {**history.clients, LAGGING: history.clients[LAGGING][: CUT + 1]}

    assert reader_of(History(clients, history.cuts, (), history.logs), SETTLED).crossed_after_s is None
