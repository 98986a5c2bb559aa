"""The target takes any first sequence of a producer: what crosses a cut has to come in order, whatever was refused."""

from __future__ import annotations

import pytest

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
from tests.gateway.session.messages import state
from tests.gateway.session.talk import EAST, Talk


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
