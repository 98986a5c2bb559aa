"""The target accepts any first sequence of a producer: batches that cross a cut have to come in order after a
refusal."""

from collections.abc import Iterator

import pytest

from gateway.session.produce.producer_order import FORGET_S, ProducerOrders
from ha_core.wire import ErrorCode
from tests.gateway.session.crossings import (
    BASE,
    CUT,
    REFUSED,
    TAKEN,
    TARGET_LANE,
    answer,
    answers,
    arrived,
    ask,
    outcome,
    records,
    sent,
    takes,
    told,
)
from tests.gateway.session.crossings import topic as crossing_topic
from tests.gateway.session.messages import CLIENT_PID, state
from tests.gateway.session.talk import EAST, Talk


def connections(count: int) -> Iterator[Talk]:
    """Connections to one gateway, over which a producer writes to a topic with a cut ahead."""
    orders = ProducerOrders()
    return (Talk(state(crossing_topic()), producer_orders=orders) for _ in range(count))


def test_a_batch_does_not_cross_before_an_earlier_one_that_was_refused_at_the_cut() -> None:
    # Given two pipelined batches, and the lease is lost for a moment when the origin has answered the first
    talk = Talk(state(crossing_topic()))
    ask(talk, records(0, 4))
    ask(talk, records(4))
    (first, _), (second, _) = arrived(talk, EAST)
    # When the first straddles the cut and is refused, and its client has sent it again
    talk.lease.valid_until = 0.0
    assert told(talk, EAST, first, CUT - 2) == [(REFUSED, -1)]
    talk.lease.valid_until = 1e9
    again = sent(talk, records(0, 4))
    # Then the second does not cross before it, for the target would take it as the beginning
    assert told(talk, EAST, second, CUT + 2) == [(REFUSED, -1)]
    assert not talk.asked(TARGET_LANE)
    # And the first does, and after it the second
    answer(talk, EAST, again, CUT - 2)
    ((write, batch),) = arrived(talk, TARGET_LANE)
    assert (batch.base_sequence, batch.records_count) == (0, 4)
    assert told(talk, TARGET_LANE, write, BASE) == [(TAKEN, CUT)]
    third = sent(talk, records(4))
    answer(talk, EAST, third, CUT + 2)
    ((write, batch),) = arrived(talk, TARGET_LANE)
    assert batch.base_sequence == 4
    assert told(talk, TARGET_LANE, write, BASE + 4) == [(TAKEN, CUT + 4)]


@pytest.mark.parametrize("why", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_batches_out_of_order_after_one_that_the_origin_refused_are_resent_after_it(why: ErrorCode) -> None:
    # Given three pipelined batches, and an origin's broker that becomes the leader after the first of them
    talk = Talk(state(crossing_topic()))
    for sequence in range(3):
        ask(talk, records(sequence))
    (first, _), (second, _), (third, _) = arrived(talk, EAST)
    answer(talk, EAST, first, -1, why)
    for later in (second, third):
        answer(talk, EAST, later, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then its client sees no gap, for which it would raise its epoch and resend batches that are in the log
    assert outcome(talk) == [(int(why), -1), (REFUSED, -1), (REFUSED, -1)]
    # And none of them goes before the first one
    ask(talk, records(1))
    assert not arrived(talk, EAST)
    assert outcome(talk) == [(REFUSED, -1)]
    for sequence in range(3):
        ask(talk, records(sequence))
        ((again, batch),) = arrived(talk, EAST)
        assert batch.base_sequence == sequence
        assert told(talk, EAST, again, sequence) == [(TAKEN, sequence)]


def test_an_unfilled_gap_is_reported_as_by_the_origin() -> None:
    talk = Talk(state(crossing_topic()))
    request = sent(talk, records(5))
    answer(talk, EAST, request, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert outcome(talk) == [(int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1)]


def test_a_batch_that_the_origin_refused_and_calls_out_of_order_itself_gets_that_error() -> None:
    # Given a batch that the origin has refused
    talk = Talk(state(crossing_topic()))
    request = sent(talk, records(5))
    answer(talk, EAST, request, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    # When it comes again, and there is a gap before it
    again = sent(talk, records(5))
    answer(talk, EAST, again, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then its client does not wait for a batch that will not come
    assert outcome(talk) == [(REFUSED, -1), (int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1)]


def test_a_late_answer_to_a_connection_that_its_client_has_left_holds_up_nothing() -> None:
    # Given a broker that has not answered, and a client that has left it, and continued over another connection
    left, talk = connections(2)
    late = sent(left, records(0))
    left.take(left.session.client_left(left.now))
    request = sent(talk, records(0))
    assert told(talk, EAST, request, 0) == [(TAKEN, 0)]
    # When the first broker reports that it no longer leads
    answer(left, EAST, late, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    # Then no batch waits for one that is in the log
    request = sent(talk, records(1))
    assert told(talk, EAST, request, 1) == [(TAKEN, 1)]


def test_a_gap_on_a_connection_that_its_client_has_left_ends_no_wait() -> None:
    # Given a batch that the origin has not answered yet, on a connection that its client has left
    left, talk = connections(2)
    late = sent(left, records(1))
    left.take(left.session.client_left(left.now))
    # And the same batch, refused on another connection
    talk.lease.valid_until = 0.0
    ask(talk, records(1))
    assert outcome(talk) == [(REFUSED, -1)]
    talk.lease.valid_until = 1e9
    # When the origin reports a gap before the old one
    answer(left, EAST, late, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then the next one does not overtake it
    ask(talk, records(2))
    assert not arrived(talk, EAST)
    assert outcome(talk) == [(REFUSED, -1)]


def test_a_gap_reported_to_one_connection_ends_no_wait_at_another_one() -> None:
    # Given a batch in flight to two brokers of the origin, one of which has refused it
    old, talk = connections(2)
    ask(old, records(1))
    ask(talk, records(1))
    ((late, _),) = arrived(old, EAST)
    assert takes(talk, EAST, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER) == [(REFUSED, -1)]
    # When the other one reports a gap before it
    answer(old, EAST, late, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then the next batch still waits for it
    ask(talk, records(2))
    assert not arrived(talk, EAST)
    assert outcome(talk) == [(REFUSED, -1)]


def test_no_batch_waits_for_a_refused_one_after_which_the_origin_has_appended_another() -> None:
    # Given a broker that lost its leadership after it had appended a batch, and has appended the next one
    talk = Talk(state(crossing_topic()))
    ask(talk, records(0))
    ask(talk, records(1))
    (first, _), (second, _) = arrived(talk, EAST)
    answer(talk, EAST, first, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert told(talk, EAST, second, 1) == [(REFUSED, -1), (TAKEN, 1)]
    # When its client takes the first one for written, as it is
    ask(talk, records(2))
    # Then the client's next batches continue
    assert takes(talk, EAST, 2) == [(TAKEN, 2)]


def test_no_batch_crosses_before_one_that_the_origin_refused_though_the_client_has_left() -> None:
    # Given two pipelined batches of a client that has left
    talk = Talk(state(crossing_topic()))
    ask(talk, records(0))
    ask(talk, records(1))
    (first, _), (second, _) = arrived(talk, EAST)
    talk.take(talk.session.client_left(talk.now))
    # When the origin refuses the first one, which it may have appended all the same, and appends the second one
    answer(talk, EAST, first, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answer(talk, EAST, second, CUT + 1)
    # Then the target does not get it as the beginning
    assert not talk.asked(TARGET_LANE)


def test_a_batch_refused_on_one_connection_is_not_awaited_when_another_one_has_written_it() -> None:
    # Given a batch in flight over two connections
    old, talk = connections(2)
    ask(old, records(0))
    ask(talk, records(0))
    ((late, _),) = arrived(old, EAST)
    ((request, _),) = arrived(talk, EAST)
    # When it is refused on the old one, and then written over the other one
    answer(old, EAST, late, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert told(talk, EAST, request, 0) == [(TAKEN, 0)]
    # Then the next one continues
    ask(talk, records(1))
    assert arrived(talk, EAST)


def test_an_answer_on_an_old_connection_does_not_end_a_dispatch_over_a_new_one() -> None:
    # Given a batch in flight over an old connection, and later over a new one with the next one after it
    old, talk = connections(2)
    late = sent(old, records(1))
    talk.now += 1.0
    ask(talk, records(1))
    ask(talk, records(2))
    (first, _), (second, _) = arrived(talk, EAST)
    # When the old one is answered first, and the origin becomes the leader between the two of the new one
    answer(old, EAST, late, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    answer(talk, EAST, first, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answer(talk, EAST, second, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then the client sees no gap
    assert outcome(talk) == [(REFUSED, -1), (REFUSED, -1)]


def test_a_batch_refused_after_its_client_has_left_is_awaited_only_for_a_while() -> None:
    # Given a target that does not answer, and queued behind that write a batch of another producer
    left, talk = connections(2)
    ask(left, records(0, producer_id=CLIENT_PID + 1))
    ask(left, records(0))
    (other, _), (request, _) = arrived(left, EAST)
    answer(left, EAST, other, CUT)
    assert arrived(left, TARGET_LANE)
    # When the client leaves, and the origin refuses that batch
    left.take(left.session.client_left(left.now))
    answer(left, EAST, request, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    # Then later batches are not held up for longer than clients take to come again
    talk.now = left.now + FORGET_S + 0.1
    ask(talk, records(1))
    assert arrived(talk, EAST)


@pytest.mark.parametrize(
    "why",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_no_batch_crosses_before_one_that_the_origin_does_not_acknowledge(why: ErrorCode) -> None:
    # Given two pipelined batches that the origin has appended above the cut, and acknowledges only the second one
    talk = Talk(state(crossing_topic()))
    ask(talk, records(0))
    ask(talk, records(1))
    (first, _), (second, _) = arrived(talk, EAST)
    answer(talk, EAST, first, -1, why)
    answer(talk, EAST, second, CUT + 1)
    # Then the second one is not acknowledged, for its client may take the first one for written, too
    assert not talk.asked(TARGET_LANE)
    assert outcome(talk) == [(int(why), -1), (REFUSED, -1)]
    # And both cross in order when they come again
    for sequence in range(2):
        again = sent(talk, records(sequence))
        answer(talk, EAST, again, CUT + sequence)
        ((write, batch),) = arrived(talk, TARGET_LANE)
        assert batch.base_sequence == sequence
        assert told(talk, TARGET_LANE, write, BASE + sequence) == [(TAKEN, CUT + sequence)]


def test_batches_out_of_order_after_one_that_is_in_flight_again_are_resent_after_it() -> None:
    # Given an origin that refuses the first of two batches, and is slow with the second
    talk = Talk(state(crossing_topic()))
    for sequence in range(2):
        ask(talk, records(sequence))
    (first, _), (second, _) = arrived(talk, EAST)
    assert told(talk, EAST, first, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER) == [(REFUSED, -1)]
    # When the first is in flight again before the origin reports the second as out of order
    ask(talk, records(0))
    answer(talk, EAST, second, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then the client sees no gap, for which it would raise its epoch
    assert outcome(talk) == [(REFUSED, -1)]
    assert takes(talk, EAST, 0) == [(TAKEN, 0)]


def test_no_batch_crosses_before_one_whose_write_is_in_flight_whatever_an_old_connection_answers() -> None:
    # Given a batch in flight over a connection that its client has left, and over a new one, which writes it to the
    # target
    left, talk, third = connections(3)
    late = sent(left, records(0))
    left.take(left.session.client_left(left.now))
    request = sent(talk, records(0))
    answer(talk, EAST, request, CUT)
    ((write, _),) = arrived(talk, TARGET_LANE)
    # When the old one is answered, and the next batch, over a third connection, gets an offset above the cut
    answer(left, EAST, late, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    request = sent(third, records(1))
    answer(third, EAST, request, CUT + 1)
    # Then it does not race with the first: the target would take it as the beginning
    assert not third.asked(TARGET_LANE)
    assert outcome(third) == [(REFUSED, -1)]
    assert told(talk, TARGET_LANE, write, BASE) == [(TAKEN, CUT)]


def test_no_batch_crosses_before_one_that_was_refused_after_one_that_is_refused_again() -> None:
    # Given a batch that the origin has below the cut, without an acknowledgement, and after it one above the cut
    old, talk = connections(2)
    for sequence in range(2):
        ask(old, records(sequence))
    (first, _), (second, _) = arrived(old, EAST)
    answer(old, EAST, first, -1, ErrorCode.REQUEST_TIMED_OUT)
    answer(old, EAST, second, CUT)
    # When the client hears of the first only, which a new leader refuses once before it acknowledges it
    for error, offset in ((ErrorCode.LEADER_NOT_AVAILABLE, -1), (ErrorCode.NONE, CUT - 1)):
        request = sent(talk, records(0))
        assert told(talk, EAST, request, offset, error) == [(int(error), offset)]
    ask(talk, records(2))
    # Then the third does not cross as the beginning: the second could not be written after it
    assert outcome(talk) == [(REFUSED, -1)]
    assert not talk.asked(EAST)


def test_a_targets_refusal_to_a_client_that_has_left_holds_up_no_written_batch() -> None:
    # Given a client that has left while its batch was in flight, has it written over another connection, and continues
    left, talk = connections(2)
    late = sent(left, records(0))
    left.take(left.session.client_left(left.now))
    request = sent(talk, records(0))
    answer(talk, EAST, request, CUT)
    assert takes(talk, TARGET_LANE, BASE) == [(TAKEN, CUT)]
    # When the target gets the old one after so many others that it does not know it any more
    answer(left, EAST, late, CUT)
    answers(left, TARGET_LANE, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then later batches continue
    ask(talk, records(1))
    assert arrived(talk, EAST)


@pytest.mark.parametrize("left", [False, True])
def test_a_batch_dispatched_after_a_refused_one_does_not_cross_before_it_however_late_its_answer_comes(
    left: bool,
) -> None:
    # Given two pipelined batches of a client that continues through another gateway, unknown to this one
    talk = Talk(state(crossing_topic()))
    for sequence in range(2):
        ask(talk, records(sequence))
    (first, _), (second, _) = arrived(talk, EAST)
    if left:
        talk.take(talk.session.client_left(talk.now))
    # When an origin with slow replicas does not acknowledge the first, and acknowledges the second seconds later
    answer(talk, EAST, first, -1, ErrorCode.REQUEST_TIMED_OUT)
    talk.wait(FORGET_S + 1)
    answer(talk, EAST, second, CUT + 1)
    # Then the target does not get the second as the beginning, while the other gateway still waits for the first
    assert not talk.asked(TARGET_LANE)


def test_a_batch_that_was_out_of_order_before_the_refused_one_came_again_is_not_reported_so_afterwards() -> None:
    # Given two batches over two connections, the first of which the origin refuses
    old, talk = connections(2)
    ask(old, records(0))
    ask(talk, records(1))
    ((first, _),) = arrived(old, EAST)
    ((second, _),) = arrived(talk, EAST)
    assert told(old, EAST, first, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER) == [(REFUSED, -1)]
    # When the first has come again and is written before the second is reported out of order
    again = sent(old, records(0))
    assert told(old, EAST, again, 0) == [(TAKEN, 0)]
    answer(talk, EAST, second, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then its client does not take it for a gap, and when it comes again it is written, too
    assert outcome(talk) == [(REFUSED, -1)]
    request = sent(talk, records(1))
    assert told(talk, EAST, request, 1) == [(TAKEN, 1)]
