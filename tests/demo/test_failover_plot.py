"""The demo's plot of a failover: each acknowledgement in the colour of the cluster that holds it for good."""

from pathlib import Path

from ha_core.cli.plotting import Mark
from stack.demo.failover_plot import draw, track_of
from tests.history.failover import KILLED, LOSS, recorded


def test_a_track_separates_copied_lost_and_later_records() -> None:
    track = track_of(recorded(), LOSS, "billing")

    assert (track.origin, track.target) == ("east", "west")
    assert track.mirrored == [(100.0 + n, n + 1) for n in range(6)]
    assert track.lost == [(106.0, 7), (107.0, 8), (108.0, 9)]
    assert track.after == [(210.0, 10), (211.0, 11), (212.0, 12)]
    assert [number for _, number in track.read] == list(range(1, 13))


def test_the_figure_shows_the_track_around_the_kill(tmp_path: Path) -> None:
    # Given a track, and two marks
    track = track_of(recorded(), LOSS, "billing")
    marks = (Mark(105.0, "copying stands still"), Mark(KILLED, "east killed"))
    # When it is drawn
    figure = draw(track, marks, KILLED, tmp_path / "new" / "plot.png", "payments")
    # Then lost records are a line of their own, in seconds since the kill, and their number is in the text
    (axes,) = figure.axes
    lines = {str(line.get_label()): line for line in axes.lines}
    lost = lines["acknowledged by east, and in no copy: lost"]
    assert list(zip(lost.get_xdata(), lost.get_ydata(), strict=True)) == [(-94, 7), (-93, 8), (-92, 9)]  # type: ignore[arg-type]  # of our making: lists
    lost_words = "3 records lost; first answer of west 10.0 s after the kill"
    assert {text.get_text() for text in axes.texts} == {"copying stands still", "east killed", lost_words}
    assert (tmp_path / "new" / "plot.png").read_bytes().startswith(b"\x89PNG")
