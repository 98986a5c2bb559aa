"""The picture of a migration has what its history recorded, in client offsets, and nothing else."""

from __future__ import annotations

from typing import Any

from ha_core.cli.plot import approaches_of, draw
from ha_core.model import Extent, HistoryEntry, MoveRequest, Operation, Scope, Topic

STARTED = "2026-01-01T00:00:00.000Z"
OPERATION = Operation(
    id="migrate-1",
    kind="migrate",
    by="test",
    reason="test",
    started=STARTED,
    request=MoveRequest(scope=Scope(topics=("orders",)), origin="east", target="west", reason="test", cut="predicted"),
)


def entry(second: int, step: str, **detail: Any) -> HistoryEntry:
    return HistoryEntry(at=f"2026-01-01T00:00:{second:02}.000Z", epoch=1, step=step, outcome="done", detail=detail)


def rows(offset: int) -> dict[str, dict[str, int]]:
    return {"orders": {"0": offset}}


def topic(*extents: Extent) -> dict[str, Topic]:
    return {"orders": Topic(name="orders", writer="west", partitions={0: extents})}


HISTORY = (
    entry(1, "propose", cuts=rows(700), ends=rows(100)),
    entry(2, "open", ends=rows(130)),
    entry(9, "settle", ends=rows(720)),
)
WEST = Extent(cluster="west", start=700, end=None, base=0, term=1)
EAST = Extent(cluster="east", start=0, end=700, base=0, term=0)


def test_ends_are_drawn_over_time_from_the_cut() -> None:
    approaches = approaches_of(OPERATION, HISTORY, topic(EAST, WEST))

    figure = draw(OPERATION, approaches, HISTORY)

    (axes,) = figure.axes
    line = next(line for line in axes.lines if line.get_label() == "orders-0, cut 700")
    assert list(line.get_xdata()) == [1.0, 2.0, 9.0]
    assert list(line.get_ydata()) == [-600, -570, 20]
    assert {text.get_text() for text in axes.texts} == {"open", "settle"}


def test_the_origins_own_offsets_become_client_offsets_by_the_map() -> None:
    later = Extent(cluster="east", start=600, end=700, base=80, term=2)

    (one,) = approaches_of(OPERATION, HISTORY, topic(later, WEST.model_copy(update={"term": 3})))

    assert [end for _, end in one.ends] == [620, 650, 1240]


def test_a_first_extent_that_has_aged_needs_no_map_and_a_later_one_is_left_out() -> None:
    assert approaches_of(OPERATION, HISTORY, topic(WEST))[0].ends[0] == (1.0, 100)
    assert approaches_of(OPERATION, HISTORY, topic(WEST.model_copy(update={"term": 3}))) == ()
    assert approaches_of(OPERATION, HISTORY, {}) == ()
