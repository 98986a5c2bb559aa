"""Fetches that name some of the topics of one before: what is kept of each is of those that it names."""

from __future__ import annotations

from gateway.session import fast_path
from gateway.session.pending import Passed
from ha_core.wire import encode, encode_request
from tests.gateway.session.messages import FETCH, fetch, fetched, moved, state
from tests.gateway.session.talk import EAST, Talk


def passes(talk: Talk, *topics: str, session: tuple[int, int] = (0, -1)) -> bool:
    """Whether a fetch of these takes the fast path."""
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


def test_of_fetches_that_wait_those_are_told_to_ask_again_that_name_the_topic_that_moves() -> None:
    # Given a reader of two topics, who then waits for one of them at a time
    talk = Talk(state())
    passes(talk, "orders", "other")
    answered(talk)
    assert passes(talk, "other")
    assert passes(talk, "orders")
    # When one of them moves
    talk.follow(state(moved(), revision=2))
    # Then who waits for the other one goes on
    first, second = talk.session.queue
    assert isinstance(first, Passed)
    assert first.reads == (b"other",)
    assert not isinstance(second, Passed)


def test_a_fetch_session_that_begins_anew_with_fewer_topics_holds_no_more_than_those() -> None:
    # Given a reader whose session began with two topics
    talk = Talk(state())
    passes(talk, "orders", "other", session=(0, 0))
    answered(talk, session_id=5)
    # When it begins anew with one of them
    assert not passes(talk, "other", session=(0, 0))
    answered(talk, session_id=6)
    # Then that one is in it, and so it is when it does that again, or goes on
    for session in ((0, 0), (6, 1), (6, 2)):
        passes(talk, "other", session=session)
        assert talk.session.fetch_session is not None
        assert talk.session.fetch_session.topics == (b"other",), session
        answered(talk, session_id=6)


def test_fetches_of_a_session_wait_for_all_that_is_in_it_whatever_they_name() -> None:
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
    assert waits.reads == (b"orders", b"other")
    talk.follow(state(moved(), revision=2))
    assert not talk.session.queue
