"""Requests that name varying topics: cached decisions for them, and their lifetime."""

import pytest

from gateway.session.fast import fast_path
from gateway.session.pending import Passed
from ha_core.wire import encode, encode_request
from tests.gateway.session.messages import FETCH, fetch, fetched, moved, state
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
    first, second = talk.session.in_flight.queue
    assert isinstance(first, Passed)
    assert first.reads == (b"other",)
    assert not isinstance(second, Passed)


def test_a_fetch_session_that_begins_again_with_fewer_topics_has_only_those() -> None:
    # Given a reader whose session began with two topics
    talk = Talk(state())
    passes(talk, "orders", "other", session=(0, 0))
    answered(talk, session_id=5)
    # When it begins again with one of them
    passes(talk, "other", session=(0, 0))
    answered(talk, session_id=6)
    # Then only that one is in it, also when it repeats that, or continues
    for session in ((0, 0), (6, 1), (6, 2)):
        passes(talk, "other", session=session)
        assert talk.session.fetching.fetch_session is not None
        assert talk.session.fetching.fetch_session.topics == [b"other"], session
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
    (waits,) = talk.session.in_flight.queue
    assert isinstance(waits, Passed)
    assert waits.reads == [b"orders", b"other"]
    talk.follow(state(moved(), revision=2))
    assert not talk.session.in_flight.queue


def test_a_client_that_begins_a_session_with_each_fetch_is_matched_by_repeated_topics() -> None:
    # Given a reader for whose session a broker has no room, and that names varying topics
    talk = Talk(state())
    for topics in (["orders", "other"], ["other", "third"], ["third", "orders"]):
        passes(talk, *topics, session=(0, 0))
        answered(talk)
    # When it names the same topics as before
    passes(talk, "third", "orders", session=(0, 0))
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
        assert talk.session.fetching.fetch_session is not None
        assert [name.decode() for name in talk.session.fetching.fetch_session.topics] == topics
        answered(talk)
