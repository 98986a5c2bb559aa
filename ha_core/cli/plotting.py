"""The way in which all plots are drawn: a figure without a screen, instants as dotted lines, a plain style."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ha_core.present.colours import FAINT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 150


class Mark(NamedTuple):
    """An event at one instant."""

    t: float
    text: str


def figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that is saved to a file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def draw_marks(axes: Axes, marks: Iterable[Mark], zero: float = 0.0) -> None:
    """Dotted lines with their texts at the upper end. Times count from `zero`."""
    for mark in marks:
        axes.axvline(mark.t - zero, color=FAINT, linewidth=0.8, linestyle=":")
        axes.annotate(
            mark.text,
            (mark.t - zero, 1),
            xycoords=("data", "axes fraction"),
            xytext=(-3, -5),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="top",
            fontsize=8.5,
            color="#555555",
        )


def plain(axes: Axes) -> None:
    """Faint grid, no frame, numbers in full."""
    axes.grid(visible=True, color="#ececec", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.yaxis.set_major_formatter("{x:,.0f}")
