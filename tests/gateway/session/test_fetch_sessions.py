"""Fetch sessions (KIP-227) of readers whose topics have moved: the broker keeps its offsets, the client has its own."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.session.snapshot import Port
from ha_core.model import Crossing, Fence, View
from ha_core.model.cluster import Mask
from ha_core.wire import ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, fetch, fetched, moved, state
from tests.gateway.session.talk import CLUSTERS, WEST, Talk, snapshot

CUT, BASE = 100, 7
"""Client offset and offset of the cluster where the topic goes on: 93 lie between the two."""
NOT_FOUND = int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)


def begun(*more: tuple[str, int, int], fast: bool = True) -> Talk:
    """A reader who is in session 5 of the cluster that the topic has come to."""
    talk = Talk(state(moved(CUT, BASE)), Port("west", 1), fast=fast)
    talk.ask(FETCH, 12, fetch(("orders", 0, 110), *more, session=(0, 0)))
    (asked,) = talk.asked(WEST)
    assert (asked.body["session_id"], asked.body["session_epoch"]) == (0, 0)
    assert asked.partition["fetch_offset"] == 17
    talk.answer(WEST, asked, fetched(("orders", 0, 17, b""), session_id=5))
    (answer,) = talk.answers()
    assert answer["session_id"] == 5
    return talk


def given(answer: dict[str, Any]) -> dict[str, Any]:
    (topic,) = answer["responses"]
    (partition,) = topic["partitions"]
    found: dict[str, Any] = partition
    return found


@pytest.mark.parametrize("fast", [False, True])
def test_what_a_session_names_and_what_it_answers_is_translated(fast: bool) -> None:
    talk = begun(fast=fast)
    for epoch in range(1, 4):
        # When the reader asks for what is new, without naming anything
        talk.ask(FETCH, 12, fetch(session=(5, 2 * epoch - 1)))
        (asked,) = talk.asked(WEST)
        assert (asked.body["session_id"], asked.body["topics"]) == (5, [])
        talk.answer(WEST, asked, fetched(("orders", 0, 18, batch(17)), session_id=5))
        # Then it is given the record at its own offset
        (answer,) = talk.answers()
        assert given(answer)["high_watermark"] == 111
        assert int.from_bytes(given(answer)["records"][:8], "big") == 110
        # And when it names the next one, the broker is asked for its own
        talk.ask(FETCH, 12, fetch(("orders", 0, 111), session=(5, 2 * epoch)))
        (asked,) = talk.asked(WEST)
        assert asked.partition["fetch_offset"] == 18
        talk.answer(WEST, asked, fetched(session_id=5))
        talk.answers()


def test_a_topic_that_never_moved_is_in_the_same_session() -> None:
    talk = begun(("other", 0, 40))
    talk.ask(FETCH, 12, fetch(("other", 0, 41), session=(5, 1)))
    (asked,) = talk.asked(WEST)
    assert asked.partition["fetch_offset"] == 41
    talk.answer(WEST, asked, fetched(("other", 0, 50, batch(41)), session_id=5))
    (answer,) = talk.answers()
    assert given(answer)["high_watermark"] == 50


def ended(talk: Talk, *named: tuple[str, int, int]) -> None:
    """The next fetch of the session is answered here, and the one that begins anew goes its way."""
    talk.ask(FETCH, 12, fetch(*named, session=(5, 1)))
    assert not talk.asked(WEST)
    (answer,) = talk.answers()
    assert answer["error_code"] == NOT_FOUND


def test_a_session_ends_when_its_topic_moves_on() -> None:
    talk = begun()
    talk.follow(state(moved(CUT, BASE + 1), revision=2))
    ended(talk)


def test_a_session_goes_on_when_something_else_changes() -> None:
    talk = begun()
    talk.follow(state(moved(CUT, BASE), revision=2))
    talk.ask(FETCH, 12, fetch(session=(5, 1)))
    assert len(talk.asked(WEST)) == 1


@pytest.mark.parametrize(
    "ahead", [{"fence": Fence(operation="op")}, {"crossing": Crossing(operation="m", state="open")}]
)
def test_a_session_ends_when_an_operation_takes_its_topic(ahead: dict[str, Any]) -> None:
    talk = begun()
    talk.follow(state(moved(CUT, BASE, **ahead), revision=2))
    ended(talk)


def test_a_session_ends_when_its_reader_goes_back_behind_the_cut() -> None:
    talk = begun()
    ended(talk, ("orders", 0, CUT - 1))
    # and the old cluster is asked then
    talk.ask(FETCH, 12, fetch(("orders", 0, CUT - 1), session=(0, 0)))
    assert not talk.asked(WEST)


def test_a_session_ends_when_its_cluster_is_taken_out_of_service() -> None:
    talk = begun()
    mask = Mask(since="t", by="me", reason="x")
    masked = CLUSTERS | {"west": CLUSTERS["west"].model_copy(update={"masked": mask})}
    talk.follow(snapshot(View(2, masked, topics={"orders": moved(CUT, BASE)})))
    ended(talk)


def test_a_session_that_began_on_another_connection_is_begun_anew() -> None:
    # Given a client that has lost its connection, and goes on with its session on the next one
    talk = Talk(state(moved(CUT, BASE)), Port("west", 1))
    # Then nobody knows here what is in it: offsets of the broker would go out as if they were the client's
    ended(talk)


def test_an_answer_that_names_what_no_reader_can_have_named_ends_the_connection() -> None:
    # Given a topic of which a second partition is written in the other cluster
    topic = moved(CUT, BASE)
    extents = topic.partitions[0]
    away = (extents[1].changed(start=0, end=50, base=0, term=0), extents[0].changed(start=50, end=None, term=1))
    talk = Talk(state(topic.changed(partitions={0: extents, 1: away})), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 110), session=(0, 0)))
    # When the broker says something of it in the session
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("orders", 1, 9, batch(3)), session_id=5))
    # Then it is not passed on with offsets that are not the client's
    assert talk.closed is not None
    assert "orders-1, which is not in it" in talk.closed.detail
    assert not talk.answers()
