"""Histories as files, and the figures read from them."""

from math import isnan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stack.history.blackout import Move, blackouts
from stack.history.events import (
    Acked,
    Assigned,
    ClientStarted,
    ClientStopped,
    Committed,
    Delivered,
    Event,
    Failed,
    HistoryError,
    LibraryRemark,
    Positioned,
    Revoked,
    Sent,
    TransactionEnded,
    decode,
    encode,
    read_events,
)
from stack.history.history import History, HistoryCut, Stay, read_histories, rebuild_stays

KINDS = (
    ClientStarted,
    Sent,
    Acked,
    Failed,
    TransactionEnded,
    Delivered,
    Committed,
    Assigned,
    Revoked,
    Positioned,
    LibraryRemark,
    ClientStopped,
)


EVENTS: st.SearchStrategy[Event] = st.one_of([st.from_type(kind) for kind in KINDS])


@given(EVENTS.filter(lambda event: not isnan(event.t)))
def test_an_event_is_read_back_as_it_was_written(event: Event) -> None:
    line = encode(event)
    assert "\n" not in line
    assert decode(line) == event


def test_an_unfinished_last_line_of_a_history_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(encode(ClientStopped("one", 1.0)) + "\n" + encode(ClientStopped("one", 2.0))[:20], "utf-8")
    assert list(read_events(path)) == [ClientStopped("one", 1.0)]


def test_a_broken_line_of_a_history_is_named_with_file_and_number(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(encode(ClientStopped("one", 1.0)) + "\n{}\n", "utf-8")
    with pytest.raises(HistoryError, match=r"one\.jsonl:2"):
        read_histories([path])


def test_a_partition_that_went_there_and_back_has_three_stays() -> None:
    cuts = [
        HistoryCut("t", 0, 10, "east", "west", 10, 0),
        HistoryCut("t", 0, 15, "west", "east", 5, 10),
        HistoryCut("t", 1, 9, "a", "b", 9, 0),
    ]
    assert rebuild_stays(cuts, "t", 0) == (Stay("east", 0, 10, 0), Stay("west", 10, 15, 0), Stay("east", 15, None, 10))


def client_with(role: str, times: list[float]) -> tuple[Event, ...]:
    if role == "producer":
        return (
            ClientStarted("c", 0, "producer", "model", ("t",)),
            *(Acked("c", t, "t", 0, -1, f"c-{i}") for i, t in enumerate(times)),
        )
    return (
        ClientStarted("c", 0, "consumer", "model", ("t",), group="g"),
        *(Delivered("c", t, "t", 0, i, f"c-{i}", "g") for i, t in enumerate(times)),
    )


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_a_blackout_is_the_longest_pause_that_touches_the_move(role: str) -> None:
    times = [1.0, 3.0, 3.1, 3.2, 3.7, 3.8, 9.0]
    history = History({"c": client_with(role, times)})
    assert blackouts(history, [Move(3.05, 3.5)], settle_s=0.2) == {"c": (500.0,)}


def test_each_move_has_its_own_blackout() -> None:
    history = History({"c": client_with("producer", [1.0, 1.1, 1.4, 1.5, 2.0, 2.7, 2.8])})
    assert blackouts(history, [Move(1.15, 1.3), Move(2.1, 2.2)]) == {"c": (500.0, 700.0)}


def test_a_client_that_never_recovers_has_no_blackout_length() -> None:
    history = History({"c": client_with("producer", [1.0, 1.1])})
    assert blackouts(history, [Move(1.05, 1.3)]) == {"c": (None,)}
