"""Fetch sessions (KIP-227) of readers of moved topics: the broker keeps its own offsets, the client has client
offsets."""

import weakref
from collections import UserDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.session import answers
from gateway.session.pending import Passed, Ready
from gateway.session.snapshot import Port, Snapshot
from ha_core.model import Crossing, Fence, Mirror, Topic, UserBindings, View
from ha_core.model.cluster import Mask
from ha_core.wire import ErrorCode, encode_response
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import CHUNKINGS, FETCH, PRODUCE, fetch, fetched, moved, produce, state
from tests.gateway.session.talk import CLUSTERS, WEST, Talk, snapshot

CUT, BASE = 100, 7
"""Client offset and physical offset in the topic's new cluster: 93 lie between the two."""


def begun(*more: tuple[str, int, int], fast: bool = True) -> Talk:
    """A reader in session 5 of the topic's new cluster."""
    talk = Talk(state(moved(CUT, BASE)), Port("west", 1), fast=fast)
    asked = talk.forwarded(FETCH, 12, fetch(("orders", 0, 110), *more, session=(0, 0)), to=WEST)
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


def ended(talk: Talk, *named: tuple[str, int, int]) -> None:
    """The session's next fetch is answered here, and the one that begins a new session is forwarded."""
    talk.ask(FETCH, 12, fetch(*named, session=(5, 1)))
    assert not talk.asked(WEST)
    (answer,) = talk.answers()
    assert answer["error_code"] == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_continues_when_other_state_changes() -> None:
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


def test_a_session_ends_when_its_cluster_is_masked() -> None:
    talk = begun()
    mask = Mask(since="t", by="me", reason="x")
    masked = CLUSTERS | {"west": CLUSTERS["west"].model_copy(update={"masked": mask})}
    talk.follow(snapshot(View(2, masked, topics={"orders": moved(CUT, BASE)})))
    ended(talk)


def test_a_session_that_began_on_another_connection_has_to_begin_again() -> None:
    # Given a client that has lost its connection, and continues its session on the next one
    talk = Talk(state(moved(CUT, BASE)), Port("west", 1))
    # Then the gateway does not know its topics: the broker's offsets would reach the client untranslated
    ended(talk)


def test_an_answer_with_a_partition_that_no_reader_can_have_named_ends_the_connection() -> None:
    # Given a topic whose second partition is written in the other cluster
    topic = moved(CUT, BASE)
    extents = topic.partitions[0]
    away = (
        extents[1].changed(start=0, end=50, base=0, writer_epoch=0),
        extents[0].changed(start=50, end=None, writer_epoch=1),
    )
    talk = Talk(state(topic.changed(partitions={0: extents, 1: away})), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 110), session=(0, 0)))
    # When the broker's answer in the session names it
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("orders", 1, 9, batch(3)), session_id=5))
    # Then the answer is not passed on with untranslated offsets
    assert "orders-1, which is not in it" in talk.why
    assert not talk.answers()


@pytest.mark.parametrize("fast", [False, True])
def test_a_client_that_continues_the_first_of_two_sessions_has_to_begin_again(fast: bool) -> None:
    # Given a connection with a session of a moved topic, and a later one of an unmoved topic
    talk = begun(fast=fast)
    talk.ask(FETCH, 12, fetch(("other", 0, 40), session=(0, 0)))
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("other", 0, 41, b""), session_id=6))
    talk.answers()
    # Then the first one is not forwarded as if it were the second, with the broker's offsets
    ended(talk)


def test_a_client_that_continues_a_session_that_its_broker_has_not_begun_has_to_begin_again() -> None:
    talk = Talk(state(moved(CUT, BASE)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 110), session=(0, 0)))
    talk.asked(WEST)
    talk.ask(FETCH, 12, fetch(session=(5, 1)))
    assert not talk.asked(WEST)


@pytest.mark.parametrize("version", [7, 8, 9, 11, 12])
@pytest.mark.parametrize("chunks", CHUNKINGS.values(), ids=CHUNKINGS)
def test_a_session_is_known_by_its_id_however_the_answer_arrives(version: int, chunks: Any) -> None:
    # Given a session whose first answer has come in such pieces
    talk = Talk(state(moved(CUT, BASE)), Port("west", 1), chunks=chunks)
    talk.ask(FETCH, version, fetch(("orders", 0, 110), session=(0, 0)))
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("orders", 0, 17, b""), session_id=5))
    assert talk.answers()[0]["session_id"] == 5
    # Then it continues
    talk.ask(FETCH, version, fetch(session=(5, 1)))
    assert talk.asked(WEST)[0].body["session_id"] == 5


@pytest.mark.parametrize("said", [b"", b"\0" * 9])
def test_an_answer_that_is_too_short_for_its_fields_ends_the_connection(said: bytes) -> None:
    talk = Talk(state(moved(CUT, BASE)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 110), session=(0, 0)))
    talk.broker_sends(WEST, encode_response(FETCH, 12, talk.asked(WEST)[0].correlation_id, said))
    assert talk.closed is not None


def test_an_answer_with_a_moved_topic_that_the_session_has_not_named_ends_the_connection() -> None:
    more = moved(CUT, BASE).changed(name="more")
    talk = Talk(state(moved(CUT, BASE), more), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 110), session=(0, 0)))
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("more", 0, 9, batch(8)), session_id=5))
    assert talk.closed is not None
    assert not talk.answers()


def test_a_broker_drops_the_session_of_a_client_that_has_to_begin_again() -> None:
    # Given a session that has ended, since its reader goes back below the cut in one topic
    talk = begun(("other", 0, 40))
    talk.follow(state(moved(CUT, BASE + 1), revision=2))
    ended(talk)
    # When the client sends all its partitions, and names the session that it leaves
    talk.ask(FETCH, 12, fetch(("orders", 0, 110), ("other", 0, 40), session=(5, 0)))
    # Then its broker gets that id
    (asked,) = talk.asked(WEST)
    assert (asked.body["session_id"], asked.body["session_epoch"]) == (5, 0)


def test_a_session_ends_when_its_reader_is_to_read_a_copy() -> None:
    # Given a session of a topic that has a copy in the other cluster
    mirror = Mirror.of("orders", "west", "east", "link", "2026-01-01T00:00:00Z", "test")
    talk = begun()
    shown = View(2, CLUSTERS, topics={"orders": moved(CUT, BASE)}, mirrors={mirror.key: mirror})
    talk.follow(snapshot(shown))
    talk.ask(FETCH, 12, fetch(session=(5, 1)))
    talk.answer(WEST, talk.asked(WEST)[0], fetched(session_id=5))
    talk.answers()
    # When its user has to read there
    bindings = {"anonymous": UserBindings(user="anonymous", read="east")}
    talk.follow(snapshot(replace(shown, revision=3, bindings=bindings)))
    # Then it has to begin again
    ended(talk)


class Table(UserDict[str, Topic]):
    """A dict that can be referenced weakly."""


def test_a_fetch_in_flight_keeps_no_former_state_in_memory() -> None:
    # Given fetches that wait for records, each sent under another state
    talk, tables = begun(), []
    for revision in range(2, 12):
        table = Table({"orders": moved(CUT, BASE)})
        tables.append(weakref.ref(table))
        talk.follow(snapshot(View(revision, CLUSTERS, topics=table)))
        del table
        talk.ask(FETCH, 12, fetch(session=(5, revision)))
    assert len(talk.session.in_flight.queue) == 10
    # Then only the newest of these states is kept
    assert [found() is not None for found in tables] == [False] * 9 + [True]
    # And the answers are still in client offsets
    for asked in talk.asked(WEST):
        talk.answer(WEST, asked, fetched(("orders", 0, 18, batch(17)), session_id=5))
    assert {given(answer)["high_watermark"] for answer in talk.answers()} == {111}


def test_each_topic_is_checked_once_for_all_fetches_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    left = answers._left

    def counted(before: View, after: Snapshot, cluster: str, topics: Sequence[bytes]) -> Iterator[bool]:
        looked_at.append(len(topics))
        return left(before, after, cluster, topics)

    monkeypatch.setattr(answers, "_left", counted)
    # Given a client with pipelined fetches of a session of many topics, some of which name one more each
    talk = begun(*((f"topic-{number}", 0, 1) for number in range(100)))
    for epoch in range(1, 21):
        named = [(f"more-{epoch}", 0, 1)] if epoch % 2 else []
        talk.ask(FETCH, 12, fetch(*named, session=(5, epoch)))
    assert len(talk.session.in_flight.queue) == 20
    # When the state changes
    talk.follow(state(moved(CUT, BASE), revision=2))
    # Then the topics are checked once, and not once per fetch
    assert looked_at == [111]
    # And the fetches share one list of names
    assert len({id(pending.reads) for pending in talk.session.in_flight.queue if isinstance(pending, Passed)}) == 1


def test_no_more_names_in_flight_are_checked_than_one_session_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.session.fetch.fetch_session.MAX_TOPICS", 100)
    # Given a client that waits for sixty topics with each of its fetches, and has written to another one
    talk = Talk(state(), Port("west", 1))
    for number in range(3):
        talk.ask(FETCH, 12, fetch(*((f"topic-{number}-{each}", 0, 1) for each in range(60))))
    talk.ask(PRODUCE, 9, produce(("other", 0, batch())))
    # When an unrelated topic changes
    talk.follow(state(moved(CUT, BASE), revision=2))
    # Then the fetches beyond the limit are answered, and all others still wait
    assert [type(pending) for pending in talk.session.in_flight.queue] == [Passed, Ready, Ready, Passed]


@pytest.mark.parametrize("fast", [False, True])
def test_a_forwarded_session_is_translated_from_the_fetch_on_that_names_the_first_moved_topic(fast: bool) -> None:
    # Given a session of an unmoved topic, and forwarded fetches of it
    talk = Talk(state(moved(CUT, BASE)), Port("west", 1), fast=fast)
    for epoch in range(3):
        talk.ask(FETCH, 12, fetch(("other", 0, 1), session=(5 if epoch else 0, epoch)))
        talk.answer(WEST, talk.asked(WEST)[0], fetched(session_id=5))
    # When it names one that has come from elsewhere
    talk.ask(FETCH, 12, fetch(("orders", 0, 110), session=(5, 3)))
    talk.answer(WEST, talk.asked(WEST)[0], fetched(session_id=5))
    talk.answers()
    # Then that one is translated, also in fetches that name the other one, as before
    talk.ask(FETCH, 12, fetch(("other", 0, 1), session=(5, 4)))
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("orders", 0, 18, batch(17)), session_id=5))
    assert given(talk.answers()[0])["high_watermark"] == 111
