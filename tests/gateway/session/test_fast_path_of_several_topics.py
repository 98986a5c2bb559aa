"""Requests that name varying topics: cached decisions for them, and their lifetime."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.session.fast import fast_path
from gateway.session.pending import Passed
from ha_core.wire import encode, encode_request
from ha_core.wire.templates.several_topics_fetch import SeveralTopicsFetchTemplate
from ha_core.wire.templates.several_topics_produce import SeveralTopicsProduceTemplate
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, PRODUCE, fetch, fetched, moved, produce, state
from tests.gateway.session.talk import EAST, Talk


def passes(talk: Talk, *topics: str, session: tuple[int, int] = (0, -1)) -> bool:
    """True if a fetch of these takes the fast path."""
    talk.correlation += 1
    body = encode(FETCH, 12, "request", fetch(*((name, 0, 1) for name in topics), session=session))
    data = bytearray(encode_request(FETCH, 12, talk.correlation, "app", body))
    talk.versions.append((talk.correlation, FETCH, 12))
    if fast_path.requests(talk.session, data, len(data), talk.now):
        talk.upstream.setdefault(EAST, bytearray()).extend(data)
        return True
    talk.take(talk.session.receive(data, len(data), talk.now))
    return False


def answered(talk: Talk, session_id: int = 0) -> None:
    for asked in talk.asked(EAST):
        talk.answer(EAST, asked, fetched(session_id=session_id))
    talk.answers()


def test_only_waiting_fetches_of_a_topic_that_moves_are_answered() -> None:
    # Given a reader of two topics, which then waits for one of them at a time
    talk = Talk(state())
    passes(talk, "orders", "other")
    answered(talk)
    assert passes(talk, "other")
    assert passes(talk, "orders")
    # When one of them moves
    talk.follow(state(moved(), revision=2))
    # Then the fetch of the other one continues to wait
    first, second = talk.session.queue
    assert isinstance(first, Passed)
    assert first.reads == (b"other",)
    assert not isinstance(second, Passed)


def test_a_fetch_session_that_begins_again_with_fewer_topics_has_only_those() -> None:
    # Given a reader whose session began with two topics
    talk = Talk(state())
    passes(talk, "orders", "other", session=(0, 0))
    answered(talk, session_id=5)
    # When it begins again with one of them
    assert not passes(talk, "other", session=(0, 0))
    answered(talk, session_id=6)
    # Then only that one is in it, also when it repeats that, or continues
    for session in ((0, 0), (6, 1), (6, 2)):
        passes(talk, "other", session=session)
        assert talk.session.fetch_session is not None
        assert talk.session.fetch_session.topics == [b"other"], session
        answered(talk, session_id=6)


def test_fetches_of_a_session_wait_for_all_its_topics_whatever_they_name() -> None:
    talk = Talk(state())
    passes(talk, "orders", "other", session=(0, 0))
    answered(talk, session_id=5)
    passes(talk, "orders", "other", session=(5, 1))
    answered(talk, session_id=5)
    # When a fetch names one of them
    assert passes(talk, "other", session=(5, 2))
    # Then it waits for the other one, too
    (waits,) = talk.session.queue
    assert isinstance(waits, Passed)
    assert waits.reads == [b"orders", b"other"]
    talk.follow(state(moved(), revision=2))
    assert not talk.session.queue


PATTERNS = [SeveralTopicsProduceTemplate, SeveralTopicsFetchTemplate]
LONG = [f"{number:03}" * 33 for number in range(150)]
"""Names of which a pattern holds a hundred."""


def asks(talk: Talk, pattern: Any, *topics: str) -> None:
    """By a request that is decoded."""
    if pattern is SeveralTopicsProduceTemplate:
        talk.ask(PRODUCE, 9, produce(*((name, 0, batch()) for name in topics)))
    else:
        talk.ask(FETCH, 12, fetch(*((name, 0, 5) for name in topics)))


def full(talk: Talk, pattern: Any, names: int = 100) -> Any:
    """A pattern of this many long names."""
    asks(talk, pattern, *LONG[:90])
    asks(talk, pattern, *LONG[90:names])
    (flow,) = talk.session.flows
    assert len(flow.names) == names
    return flow.like


@pytest.mark.parametrize("pattern", PATTERNS)
def test_single_topics_that_a_full_pattern_leaves_out_do_not_evict_it(pattern: Any) -> None:
    # Given a client with more topics than a pattern holds
    talk = Talk(state())
    known = full(talk, pattern)
    # When it asks for one of the left-out topics at a time
    for name in LONG[100:110]:
        asks(talk, pattern, name)
    # Then the pattern of all others stays, beside the newest of them
    likes = [flow.like for flow in talk.session.flows]
    assert known in likes
    assert [flow.topics or flow.named for flow in talk.session.flows if flow.like is not known] == [
        (name.encode(),) for name in reversed(LONG[107:110])
    ]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_nearly_full_pattern_takes_names_that_fit_and_loses_none(pattern: Any) -> None:
    # Given a client with a pattern that has room for a short name, and single topics for which it has none
    talk = Talk(state())
    full(talk, pattern, 99)
    for name in LONG[100:103]:
        asks(talk, pattern, name * 2)
    # When it names some of the pattern's topics and one with a short name
    for number in range(2):
        asks(talk, pattern, *LONG[number : number + 3], f"{number}")
    # Then that pattern has these as well
    (first, *_) = talk.session.flows
    assert isinstance(first.like, pattern)
    assert first.names == {name.encode() for name in [*LONG[:99], "0", "1"]}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_client_that_changes_to_other_topics_gets_a_pattern_of_those_after_a_while(
    monkeypatch: pytest.MonkeyPatch, pattern: Any
) -> None:
    monkeypatch.setattr("ha_core.wire.templates.several_topics._MOST_LEFT_OUT", 20)
    # Given a client with more topics than a pattern holds
    talk = Talk(state())
    known = full(talk, pattern)
    # When it names only others
    for _ in range(20):
        asks(talk, pattern, *LONG[100:110])
    assert [flow.like for flow in talk.session.flows] == [known], "they may be few of many requests"
    asks(talk, pattern, *LONG[100:110])
    # Then there is a pattern of these
    (flow,) = talk.session.flows
    assert flow.names == {name.encode() for name in LONG[100:110]}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_client_that_changes_to_single_topics_is_matched_by_all_of_them_after_a_while(
    monkeypatch: pytest.MonkeyPatch, pattern: Any
) -> None:
    monkeypatch.setattr("ha_core.wire.templates.several_topics._MOST_LEFT_OUT", 20)
    # Given a client with more topics than a pattern holds
    talk = Talk(state())
    known = full(talk, pattern)
    # When it names others one at a time, as many as there are flows
    for _ in range(8):
        for name in LONG[100:104]:
            asks(talk, pattern, name)
    # Then the pattern evicts none of them
    assert known not in [flow.like for flow in talk.session.flows]
    names = {name for flow in talk.session.flows for name in flow.names}
    assert names == {name.encode() for name in LONG[100:104]}


def test_a_client_that_begins_a_session_with_each_fetch_is_matched_by_repeated_topics() -> None:
    # Given a reader for whose session a broker has no room, and that names varying topics
    talk = Talk(state())
    for topics in (["orders", "other"], ["other", "third"], ["third", "orders"]):
        assert not passes(talk, *topics, session=(0, 0))
        answered(talk)
        # Then no decision is cached that would match none of the next ones
        assert talk.session.flows == ()
    # When it names the same topics as before
    assert not passes(talk, "third", "orders", session=(0, 0))
    answered(talk)
    # Then the next one is not decoded
    assert passes(talk, "third", "orders", session=(0, 0))


@pytest.mark.parametrize("others", [["third", "orders"], ["other", "orders"], ["orders", "other", "third"], ["orders"]])
def test_a_client_that_alternates_between_the_topics_of_its_sessions_is_matched_by_both(others: list[str]) -> None:
    # Given a reader for whose session a broker has no room, and that has named each list twice
    talk = Talk(state())
    for topics in (["orders", "other"], others) * 2:
        passes(talk, *topics, session=(0, 0))
        answered(talk)
    # When it continues
    for topics in (["orders", "other"], others) * 2:
        # Then none is decoded, and the session has the named topics
        assert passes(talk, *topics, session=(0, 0)), topics
        assert talk.session.fetch_session is not None
        assert [name.decode() for name in talk.session.fetch_session.topics] == topics
        answered(talk)


def test_long_lists_of_former_sessions_make_room_for_present_ones() -> None:
    # Given a reader for whose session a broker has no room, and that began with a hundred topics, and with others
    talk = Talk(state())
    lists = [[f"{number}{name[1:]}" for name in LONG[:100]] for number in range(3)]
    for topics in lists:
        for _ in range(2):
            passes(talk, *topics, session=(0, 0))
            answered(talk)
    assert [flow.named[0].decode() for flow in talk.session.flows] == [topics[0] for topics in reversed(lists)]
    # When it alternates between two topics
    for topic in ("orders", "other"):
        assert not passes(talk, topic, session=(0, 0))
        answered(talk)
    # Then both are matched
    for topic in ("orders", "other", "orders"):
        assert passes(talk, topic, session=(0, 0)), topic
        answered(talk)
