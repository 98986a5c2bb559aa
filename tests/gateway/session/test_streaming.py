"""Produce requests that are forwarded while they arrive, and those that are never answered."""

import pytest

from gateway.session.commands import Cause, ShutUpstream
from gateway.session.intake import STALLED_S
from gateway.session.lifecycle import Open
from gateway.session.snapshot import Port
from ha_core.model import Fence, Topic, View
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import (
    FETCH,
    LARGE,
    PRODUCE,
    entry,
    fetch,
    fetched,
    frame,
    half,
    moved,
    produce,
    produced,
    state,
)
from tests.gateway.session.talk import CLUSTERS, EAST, WEST, Talk, snapshot, topology

FENCED = Topic(name="orders", fence=Fence(operation="op-1"))


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_the_rest_of_a_half_sent_request_never_goes_to_another_connection(acks: int) -> None:
    # Given half of a request, whose broker connection breaks
    talk = Talk(state())
    rest = half(talk, ("orders", 0, batch(payload=LARGE)), acks=acks)
    sent = bytes(talk.upstream[EAST])
    assert sent
    talk.lose(EAST)
    # Then the client's connection ends, and no other connection gets the rest: it would be read as requests
    assert talk.cause is Cause.UPSTREAM_LOST
    talk.send(rest)
    assert talk.upstream[EAST] == sent


def test_a_client_that_leaves_after_losing_the_broker_of_its_half_sent_request_affects_no_other() -> None:
    # Given half of a request, whose broker connection has broken
    talk = Talk(state())
    half(talk, ("orders", 0, batch(payload=LARGE)), acks=-1)
    talk.lose(EAST)
    # When the client leaves before it was closed
    talk.take(talk.session.client_left(talk.now))
    # Then no command goes to the broker, which is gone
    assert ShutUpstream(EAST) not in talk.others


def test_the_end_of_a_connection_without_answers_ends_the_clients() -> None:
    # Given records with acks=0: a broker reports a new leader by closing the connection
    talk = Talk(state())
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), acks=0))
    talk.lose(EAST)
    assert talk.cause is Cause.UPSTREAM_LOST


def test_no_probe_is_sent_in_the_middle_of_an_unacknowledged_request_and_the_fence_waits_for_its_end() -> None:
    # Given half of a request without an answer
    talk = Talk(state())
    data = frame(produce(("orders", 0, batch(payload=LARGE)), acks=0))
    rest = half(talk, ("orders", 0, batch(payload=LARGE)), acks=0)
    # When its topic is fenced
    talk.follow(state(FENCED, revision=2))
    # Then nothing is written between its halves, and it holds the fence back
    assert data == bytes(talk.upstream[EAST]) + rest
    scope = (frozenset({b"orders"}), frozenset[bytes](), 2)
    assert talk.session.holds_back(*scope)
    assert not talk.session.holds_back(frozenset({b"other"}), frozenset(), 2)
    # And after it the broker is asked whether it has all
    talk.send(rest)
    written, probe = talk.asked(EAST)
    assert written.body["topic_data"] == produce(("orders", 0, batch(payload=LARGE)))["topic_data"]
    assert talk.session.holds_back(*scope)
    talk.answer(EAST, probe, {"error_code": 0, "api_keys": []})
    assert not talk.session.holds_back(*scope)
    assert not talk.to_client


def test_a_fence_waits_for_topics_that_were_not_named_yet_when_the_request_was_forwarded() -> None:
    # Given half of an unacknowledged request, whose second topic was not seen yet
    talk = Talk(snapshot(View(1, CLUSTERS), topology(east={"orders": {0: 1}, "other": {0: 1}})))
    rest = half(talk, ("other", 0, batch(payload=LARGE)), ("orders", 0, batch()), acks=0)
    # When that one is fenced
    talk.follow(state(FENCED, revision=2))
    talk.send(rest)
    # Then the fence waits for the sent part, too
    scope = (frozenset({b"orders"}), frozenset[bytes](), 2)
    assert talk.session.holds_back(*scope)
    talk.answer(EAST, talk.asked(EAST)[1], {"error_code": 0, "api_keys": []})
    assert not talk.session.holds_back(*scope)


def test_a_log_start_is_not_requested_in_the_middle_of_a_request() -> None:
    # Given a reader at the first record above a cut, and a producer in the middle of a request, on one connection
    talk = Talk(state(moved(100, 7)), Port("west", 1))
    reading = talk.forwarded(FETCH, 12, fetch(("orders", 0, 100)), to=WEST)
    data = frame(produce(("other", 0, batch(payload=LARGE)), acks=1))
    rest = half(talk, ("other", 0, batch(payload=LARGE)), acks=1)
    # When the answer makes the gateway ask for the present log start
    talk.answer(WEST, reading, fetched(("orders", 0, -1, b""), error=1))
    # Then it does so once the request is complete
    assert data == bytes(talk.upstream[WEST]) + rest
    talk.send(rest)
    assert [request[0] for request in talk.asked(WEST)] == [PRODUCE, 2]


def test_an_unacknowledged_request_with_a_partition_elsewhere_ends_the_connection_as_a_broker_does() -> None:
    # Given a topic that is here, and one that has moved away
    talk = Talk(state(moved()), Port("east", 1))
    # When a client that expects no answer writes to both
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), ("other", 0, batch()), acks=0))
    # Then the batch for the former is written, and the end of the connection reports the failure of the other
    written, probe = talk.asked(EAST)
    assert written.topics == ["other"]
    talk.answer(EAST, probe, {"error_code": 0, "api_keys": []})
    assert talk.cause is Cause.REFUSED_WITHOUT_ANSWER


SCOPE = (frozenset({b"orders"}), frozenset[bytes](), 2)


def test_a_client_that_dies_in_the_middle_of_a_request_holds_up_nothing() -> None:
    # Given half of a request, whose topic is being fenced
    talk = Talk(state())
    half(talk, ("orders", 0, batch(payload=LARGE)), acks=-1)
    talk.follow(state(FENCED, revision=2))
    assert talk.session.holds_back(*SCOPE)
    # When the client dies
    talk.take(talk.session.client_left(talk.now))
    # Then nothing is awaited: a request that was never sent whole was never executed
    assert talk.closed is not None
    assert not talk.session.holds_back(*SCOPE)


@pytest.mark.parametrize("acks", [0, -1])
def test_requests_before_the_one_in_whose_middle_a_client_died_are_still_awaited(acks: int) -> None:
    # Given a whole request, and half of another
    talk = Talk(state())
    before = talk.forwarded(PRODUCE, 9, produce(("orders", 0, batch()), acks=acks), to=EAST)
    half(talk, ("orders", 0, batch(payload=LARGE)), acks=acks)
    # When the client dies
    talk.take(talk.session.client_left(talk.now))
    talk.follow(state(FENCED, revision=2))
    # Then the broker's connection is half-closed, and the fence waits only for the first one
    assert talk.others[-1] == ShutUpstream(EAST)
    assert talk.session.holds_back(*SCOPE)
    assert talk.closed is None
    if acks:
        talk.answer(EAST, before, produced(("orders", 0, 0, 5)))
    else:
        talk.lose(EAST)  # the broker has read everything before the end, and closes the connection
    assert talk.cause is Cause.CLIENT_LEFT
    assert not talk.session.holds_back(*SCOPE)


def test_a_client_that_left_without_awaiting_answers_is_gone_once_its_records_are_in_the_log() -> None:
    # Given records without an answer, whose client leaves
    talk = Talk(state())
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), acks=0))
    talk.take(talk.session.client_left(talk.now))
    # Then the session lasts no longer than the broker needs
    _, probe = talk.asked(EAST)
    assert talk.closed is None
    talk.answer(EAST, probe, {"error_code": 0, "api_keys": []})
    assert talk.closed is not None


def test_a_request_whose_rest_does_not_come_is_given_up_when_an_operation_waits_for_it() -> None:
    # Given a client that stops in the middle of a request, after a whole one
    talk = Talk(state())
    before = talk.forwarded(PRODUCE, 9, produce(("orders", 0, batch())), to=EAST)
    rest = half(talk, ("orders", 0, batch(payload=LARGE)), acks=-1)
    talk.follow(state(FENCED, revision=2))
    talk.take(talk.session.hurry(talk.now))
    talk.take(talk.session.hurry(talk.now + STALLED_S / 2))
    assert isinstance(talk.session.context.life, Open)
    # When an operation has waited for it for a while
    talk.take(talk.session.hurry(talk.now + STALLED_S))
    # Then none of it is executed any more, whatever still comes
    sent = bytes(talk.upstream[EAST])
    talk.send(rest)
    assert talk.upstream[EAST] == sent
    # And the connection ends when the client has the answer to the first one
    assert talk.closed is None
    talk.answer(EAST, before, produced(("orders", 0, 0, 5)))
    assert entry(talk.answers()[0])["base_offset"] == 5
    assert talk.cause is Cause.STALLED
    assert not talk.session.holds_back(*SCOPE)


@pytest.mark.parametrize("acks", [0, -1])
def test_trickling_bytes_buy_a_half_sent_request_no_time_at_a_fence(acks: int) -> None:
    # Given a client that is in the middle of a request when its topic is fenced
    talk = Talk(state())
    rest = half(talk, ("orders", 0, batch(payload=LARGE)), acks=acks)
    talk.follow(state(FENCED, revision=2))
    # When it continues with a byte at a time
    for at in range(5):
        assert ShutUpstream(EAST) not in talk.others
        talk.now += STALLED_S / 4
        talk.send(rest[at : at + 1])
        talk.take(talk.session.hurry(talk.now))
    # Then the fence waits for it no longer than for one that sends nothing
    assert ShutUpstream(EAST) in talk.others
    if acks == 0:
        talk.lose(EAST)  # the broker has read everything before the end, and closes the connection
    assert not talk.session.holds_back(*SCOPE)
    assert talk.cause is Cause.STALLED


def test_a_half_sent_request_for_another_topic_is_left_alone_at_a_fence() -> None:
    talk = Talk(state())
    rest = half(talk, ("other", 0, batch(payload=LARGE)), acks=-1)
    talk.follow(state(FENCED, revision=2))
    talk.take(talk.session.hurry(talk.now))
    talk.take(talk.session.hurry(talk.now + STALLED_S))
    talk.send(rest)
    assert [request.topics for request in talk.asked(EAST)] == [["other"]]
    assert talk.closed is None


def test_owed_answers_are_sent_before_a_connection_ends_for_a_later_request() -> None:
    # Given a produce, followed in the same packet by a request that no gateway offers
    talk = Talk(state())
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    unknown = (10).to_bytes(4, "big") + (999).to_bytes(2, "big") + bytes(8)
    for later in (unknown, (3).to_bytes(4, "big") + bytes(3)):
        talk.send(later)
    assert talk.closed is None
    # When the broker has written it
    talk.broker_answers(EAST, produced(("orders", 0, 0, 5)))
    # Then its producer gets the answer first: one without idempotence would write the batch a second time
    assert entry(talk.answers()[0])["base_offset"] == 5
    assert talk.cause is Cause.UNSUPPORTED


@pytest.mark.parametrize("frame_bytes", [b"\x00\x00\x00\x03abc", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"])
def test_a_malformed_frame_does_not_discard_earlier_answers(frame_bytes: bytes) -> None:
    talk = Talk(state())
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.send(frame_bytes)
    talk.broker_answers(EAST, produced(("orders", 0, 0, 5)))
    assert entry(talk.answers()[0])["base_offset"] == 5
    assert talk.cause is Cause.MALFORMED


def test_a_leaving_session_reads_no_more_and_answers_requests_in_flight() -> None:
    talk = Talk(state())
    before = talk.forwarded(PRODUCE, 9, produce(("orders", 0, batch())), to=EAST)
    talk.take(talk.session.leave(Cause.SHUTDOWN, "", talk.now))
    assert talk.session.paused
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    assert not talk.asked(EAST)
    assert talk.closed is None
    talk.answer(EAST, before, produced(("orders", 0, 0, 5)))
    assert entry(talk.answers()[0])["base_offset"] == 5
    assert talk.cause is Cause.SHUTDOWN
