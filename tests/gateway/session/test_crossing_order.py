"""The target takes any first sequence of a producer: what crosses a cut has to come in order, whatever was refused."""

from __future__ import annotations

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
    arrived,
    ask,
    outcome,
    records,
)
from tests.gateway.session.crossings import topic as crossing_topic
from tests.gateway.session.messages import CLIENT_PID, state
from tests.gateway.session.talk import EAST, Talk


def connections(count: int) -> Iterator[Talk]:
    """As many to one gateway, by which a producer writes to a topic whose cut lies ahead."""
    orders = ProducerOrders()
    return (Talk(state(crossing_topic()), producer_orders=orders) for _ in range(count))


def test_a_batch_does_not_cross_before_an_earlier_one_that_was_refused_at_the_cut() -> None:
    # Given two pipelined batches, and the lease is away for a moment when the origin has answered the first
    talk = Talk(state(crossing_topic()))
    ask(talk, records(0, 4))
    ask(talk, records(4))
    (first, _), (second, _) = arrived(talk, EAST)
    # When the first straddles the cut and is refused, and its client has sent it again
    talk.lease.valid_until = 0.0
    answer(talk, EAST, first, CUT - 2)
    assert outcome(talk) == [(REFUSED, -1)]
    talk.lease.valid_until = 1e9
    ask(talk, records(0, 4))
    ((again, _),) = arrived(talk, EAST)
    # Then the second does not cross before it, for the target would take it as the beginning
    answer(talk, EAST, second, CUT + 2)
    assert outcome(talk) == [(REFUSED, -1)]
    assert not talk.asked(TARGET_LANE)
    # And the first does, and after it the second
    answer(talk, EAST, again, CUT - 2)
    ((write, batch),) = arrived(talk, TARGET_LANE)
    assert (batch.base_sequence, batch.records_count) == (0, 4)
    answer(talk, TARGET_LANE, write, BASE)
    assert outcome(talk) == [(TAKEN, CUT)]
    ask(talk, records(4))
    ((third, _),) = arrived(talk, EAST)
    answer(talk, EAST, third, CUT + 2)
    ((write, batch),) = arrived(talk, TARGET_LANE)
    assert batch.base_sequence == 4
    answer(talk, TARGET_LANE, write, BASE + 4)
    assert outcome(talk) == [(TAKEN, CUT + 4)]


@pytest.mark.parametrize("why", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_what_is_out_of_order_behind_a_batch_that_the_origin_refused_is_sent_again_behind_it(why: ErrorCode) -> None:
    # Given three pipelined batches, and an origin's broker that leads from behind the first of them on
    talk = Talk(state(crossing_topic()))
    for sequence in range(3):
        ask(talk, records(sequence))
    (first, _), (second, _), (third, _) = arrived(talk, EAST)
    answer(talk, EAST, first, -1, why)
    for behind in (second, third):
        answer(talk, EAST, behind, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then its client hears of no gap, for which it would raise its epoch and send again what is in the log
    assert outcome(talk) == [(int(why), -1), (REFUSED, -1), (REFUSED, -1)]
    # And none of them goes before the first one
    ask(talk, records(1))
    assert not arrived(talk, EAST)
    assert outcome(talk) == [(REFUSED, -1)]
    for sequence in range(3):
        ask(talk, records(sequence))
        ((again, batch),) = arrived(talk, EAST)
        assert batch.base_sequence == sequence
        answer(talk, EAST, again, sequence)
        assert outcome(talk) == [(TAKEN, sequence)]


def test_a_gap_that_nothing_fills_is_told_as_the_origin_says_it() -> None:
    talk = Talk(state(crossing_topic()))
    ask(talk, records(5))
    ((request, _),) = arrived(talk, EAST)
    answer(talk, EAST, request, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert outcome(talk) == [(int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1)]


def test_a_batch_that_the_origin_refused_and_calls_out_of_order_itself_is_told_so() -> None:
    # Given a batch that the origin has refused
    talk = Talk(state(crossing_topic()))
    ask(talk, records(5))
    ((request, _),) = arrived(talk, EAST)
    answer(talk, EAST, request, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    # When it comes again, and there is a gap before it
    ask(talk, records(5))
    ((again, _),) = arrived(talk, EAST)
    answer(talk, EAST, again, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then its client is not kept waiting for what will not come
    assert outcome(talk) == [(REFUSED, -1), (int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1)]


def test_a_late_answer_to_a_connection_that_its_client_has_left_holds_up_nothing() -> None:
    # Given a broker that has not answered, and a client that has left it, and gone on by another connection
    left, talk = connections(2)
    ask(left, records(0))
    ((late, _),) = arrived(left, EAST)
    left.take(left.session.client_left(left.now))
    ask(talk, records(0))
    ((request, _),) = arrived(talk, EAST)
    answer(talk, EAST, request, 0)
    assert outcome(talk) == [(TAKEN, 0)]
    # When the first broker says that it leads no more
    answer(left, EAST, late, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    # Then nothing waits for what is in the log
    ask(talk, records(1))
    ((request, _),) = arrived(talk, EAST)
    answer(talk, EAST, request, 1)
    assert outcome(talk) == [(TAKEN, 1)]


def test_a_gap_of_a_connection_that_its_client_has_left_ends_no_waiting() -> None:
    # Given a batch that the origin has not answered yet, by a connection that its client has left
    left, talk = connections(2)
    ask(left, records(1))
    ((late, _),) = arrived(left, EAST)
    left.take(left.session.client_left(left.now))
    # And the same one, refused by another one
    talk.lease.valid_until = 0.0
    ask(talk, records(1))
    assert outcome(talk) == [(REFUSED, -1)]
    talk.lease.valid_until = 1e9
    # When the origin says that there is a gap before the old one
    answer(left, EAST, late, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then the next one does not overtake it
    ask(talk, records(2))
    assert not arrived(talk, EAST)
    assert outcome(talk) == [(REFUSED, -1)]


def test_a_gap_told_to_one_connection_ends_no_waiting_at_another_one() -> None:
    # Given a batch on its way to two brokers of the origin, of which one has refused it
    old, talk = connections(2)
    ask(old, records(1))
    ask(talk, records(1))
    ((late, _),) = arrived(old, EAST)
    ((request, _),) = arrived(talk, EAST)
    answer(talk, EAST, request, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert outcome(talk) == [(REFUSED, -1)]
    # When the other one says that there is a gap before it
    answer(old, EAST, late, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then the next one waits for it all the same
    ask(talk, records(2))
    assert not arrived(talk, EAST)
    assert outcome(talk) == [(REFUSED, -1)]


def test_nothing_waits_for_a_refused_batch_behind_which_the_origin_has_taken_one() -> None:
    # Given a broker that has stopped to lead when it had appended a batch, and has taken the next one
    talk = Talk(state(crossing_topic()))
    ask(talk, records(0))
    ask(talk, records(1))
    (first, _), (second, _) = arrived(talk, EAST)
    answer(talk, EAST, first, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answer(talk, EAST, second, 1)
    assert outcome(talk) == [(REFUSED, -1), (TAKEN, 1)]
    # When its client takes the first one for written, as it is
    ask(talk, records(2))
    # Then it goes on
    ((third, _),) = arrived(talk, EAST)
    answer(talk, EAST, third, 2)
    assert outcome(talk) == [(TAKEN, 2)]


def test_nothing_crosses_before_a_batch_that_the_origin_refused_though_the_client_has_left() -> None:
    # Given two pipelined batches of a client that has left
    talk = Talk(state(crossing_topic()))
    ask(talk, records(0))
    ask(talk, records(1))
    (first, _), (second, _) = arrived(talk, EAST)
    talk.take(talk.session.client_left(talk.now))
    # When the origin refuses the first one, which it may have appended all the same, and takes the second one
    answer(talk, EAST, first, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answer(talk, EAST, second, CUT + 1)
    # Then the target does not get it as the beginning
    assert not talk.asked(TARGET_LANE)


def test_a_batch_that_one_of_two_connections_has_refused_is_not_waited_for_when_the_other_one_has_written_it() -> None:
    # Given a batch on its way by two connections
    old, talk = connections(2)
    ask(old, records(0))
    ask(talk, records(0))
    ((late, _),) = arrived(old, EAST)
    ((request, _),) = arrived(talk, EAST)
    # When it is refused by the old one, and then written by the other one
    answer(old, EAST, late, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answer(talk, EAST, request, 0)
    assert outcome(talk) == [(TAKEN, 0)]
    # Then the next one goes on
    ask(talk, records(1))
    assert arrived(talk, EAST)


def test_what_an_old_connection_hears_does_not_end_the_way_of_a_batch_by_a_new_one() -> None:
    # Given a batch on its way by an old connection, and later by a new one with the next one behind it
    old, talk = connections(2)
    ask(old, records(1))
    ((late, _),) = arrived(old, EAST)
    talk.now += 1.0
    ask(talk, records(1))
    ask(talk, records(2))
    (first, _), (second, _) = arrived(talk, EAST)
    # When the old one is answered first, and the origin begins to lead between the two of the new one
    answer(old, EAST, late, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    answer(talk, EAST, first, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    answer(talk, EAST, second, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then the client hears of no gap
    assert outcome(talk) == [(REFUSED, -1), (REFUSED, -1)]


def test_what_is_refused_when_its_client_has_left_is_not_waited_for_until_all_before_it_is_answered() -> None:
    # Given a target that does not answer, and behind that write a batch of another producer
    left, talk = connections(2)
    ask(left, records(0, producer_id=CLIENT_PID + 1))
    ask(left, records(0))
    (other, _), (request, _) = arrived(left, EAST)
    answer(left, EAST, other, CUT)
    assert arrived(left, TARGET_LANE)
    # When the client leaves, and the origin refuses that batch
    left.take(left.session.client_left(left.now))
    answer(left, EAST, request, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    # Then what follows is not held up for longer than clients take to come again
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
def test_nothing_crosses_before_a_batch_of_which_the_origin_does_not_say_that_it_has_it(why: ErrorCode) -> None:
    # Given two pipelined batches that the origin has appended above the cut, and says so of the second one only
    talk = Talk(state(crossing_topic()))
    ask(talk, records(0))
    ask(talk, records(1))
    (first, _), (second, _) = arrived(talk, EAST)
    answer(talk, EAST, first, -1, why)
    answer(talk, EAST, second, CUT + 1)
    # Then the second one is not acknowledged, for its client may take the first one for written, too
    assert not talk.asked(TARGET_LANE)
    assert outcome(talk) == [(int(why), -1), (REFUSED, -1)]
    # And both cross in their order when they come again
    for sequence in range(2):
        ask(talk, records(sequence))
        ((again, _),) = arrived(talk, EAST)
        answer(talk, EAST, again, CUT + sequence)
        ((write, batch),) = arrived(talk, TARGET_LANE)
        assert batch.base_sequence == sequence
        answer(talk, TARGET_LANE, write, BASE + sequence)
        assert outcome(talk) == [(TAKEN, CUT + sequence)]


def test_what_is_out_of_order_behind_a_batch_that_is_on_its_way_again_is_sent_again_behind_it() -> None:
    # Given an origin that refuses the first of two batches, and takes its time for the second
    talk = Talk(state(crossing_topic()))
    for sequence in range(2):
        ask(talk, records(sequence))
    (first, _), (second, _) = arrived(talk, EAST)
    answer(talk, EAST, first, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert outcome(talk) == [(REFUSED, -1)]
    # When the first is on its way again before the origin says that the second is out of order
    ask(talk, records(0))
    answer(talk, EAST, second, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then the client hears of no gap, for which it would raise its epoch
    assert outcome(talk) == [(REFUSED, -1)]
    ((again, _),) = arrived(talk, EAST)
    answer(talk, EAST, again, 0)
    assert outcome(talk) == [(TAKEN, 0)]


def test_nothing_crosses_before_a_batch_whose_write_is_on_its_way_whatever_an_old_connection_hears() -> None:
    # Given a batch on its way by a connection that its client has left, and by a new one, which writes it to the target
    left, talk, third = connections(3)
    ask(left, records(0))
    ((late, _),) = arrived(left, EAST)
    left.take(left.session.client_left(left.now))
    ask(talk, records(0))
    ((request, _),) = arrived(talk, EAST)
    answer(talk, EAST, request, CUT)
    ((write, _),) = arrived(talk, TARGET_LANE)
    # When the old one is answered, and the next batch, by a third connection, comes to lie above the cut
    answer(left, EAST, late, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    ask(third, records(1))
    ((request, _),) = arrived(third, EAST)
    answer(third, EAST, request, CUT + 1)
    # Then it does not race with the first: the target would take it as the beginning
    assert not third.asked(TARGET_LANE)
    assert outcome(third) == [(REFUSED, -1)]
    answer(talk, TARGET_LANE, write, BASE)
    assert outcome(talk) == [(TAKEN, CUT)]


def test_nothing_crosses_before_a_batch_that_was_refused_behind_one_that_is_refused_again() -> None:
    # Given a batch that the origin has below the cut, and does not say so, and behind it one above the cut
    old, talk = connections(2)
    for sequence in range(2):
        ask(old, records(sequence))
    (first, _), (second, _) = arrived(old, EAST)
    answer(old, EAST, first, -1, ErrorCode.REQUEST_TIMED_OUT)
    answer(old, EAST, second, CUT)
    # When the client hears of the first only, which a new leader refuses once before it says that it has it
    for error, offset in ((ErrorCode.LEADER_NOT_AVAILABLE, -1), (ErrorCode.NONE, CUT - 1)):
        ask(talk, records(0))
        ((request, _),) = arrived(talk, EAST)
        answer(talk, EAST, request, offset, error)
        assert outcome(talk) == [(int(error), offset)]
    ask(talk, records(2))
    # Then the third does not cross as the beginning: the second could not be written behind it
    assert outcome(talk) == [(REFUSED, -1)]
    assert not talk.asked(EAST)


def test_what_the_target_refuses_for_a_client_that_has_left_holds_up_nothing_that_is_written() -> None:
    # Given a client that has left while its batch was on its way, has it written by another connection, and goes on
    left, talk = connections(2)
    ask(left, records(0))
    ((late, _),) = arrived(left, EAST)
    left.take(left.session.client_left(left.now))
    ask(talk, records(0))
    ((request, _),) = arrived(talk, EAST)
    answer(talk, EAST, request, CUT)
    ((write, _),) = arrived(talk, TARGET_LANE)
    answer(talk, TARGET_LANE, write, BASE)
    assert outcome(talk) == [(TAKEN, CUT)]
    # When the target gets the old one after so many others that it does not know it any more
    answer(left, EAST, late, CUT)
    ((write, _),) = arrived(left, TARGET_LANE)
    answer(left, TARGET_LANE, write, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then what follows goes on
    ask(talk, records(1))
    assert arrived(talk, EAST)


@pytest.mark.parametrize("left", [False, True])
def test_what_departed_behind_a_batch_that_is_refused_does_not_cross_before_it_however_late_its_answer_comes(
    left: bool,
) -> None:
    # Given two pipelined batches of a client that goes on by another gateway, which this one knows nothing of
    talk = Talk(state(crossing_topic()))
    for sequence in range(2):
        ask(talk, records(sequence))
    (first, _), (second, _) = arrived(talk, EAST)
    if left:
        talk.take(talk.session.client_left(talk.now))
    # When an origin with slow replicas does not say that it has the first, and says so of the second seconds later
    answer(talk, EAST, first, -1, ErrorCode.REQUEST_TIMED_OUT)
    talk.wait(FORGET_S + 1)
    answer(talk, EAST, second, CUT + 1)
    # Then the target does not get the second as the beginning, while the other gateway still waits for the first
    assert not talk.asked(TARGET_LANE)


def test_what_was_out_of_order_before_the_refused_batch_came_again_is_not_told_so_afterwards() -> None:
    # Given two batches by two connections, of which the origin refuses the first
    old, talk = connections(2)
    ask(old, records(0))
    ask(talk, records(1))
    ((first, _),) = arrived(old, EAST)
    ((second, _),) = arrived(talk, EAST)
    answer(old, EAST, first, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert outcome(old) == [(REFUSED, -1)]
    # When the first has come again and is written before it is heard that the second was out of order
    ask(old, records(0))
    ((again, _),) = arrived(old, EAST)
    answer(old, EAST, again, 0)
    assert outcome(old) == [(TAKEN, 0)]
    answer(talk, EAST, second, -1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    # Then its client does not take it for a gap, and when it comes again it is written, too
    assert outcome(talk) == [(REFUSED, -1)]
    ask(talk, records(1))
    ((request, _),) = arrived(talk, EAST)
    answer(talk, EAST, request, 1)
    assert outcome(talk) == [(TAKEN, 1)]
