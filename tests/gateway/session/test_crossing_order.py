"""The target takes any first sequence of a producer: what crosses a cut has to come in order, whatever was refused."""

from __future__ import annotations

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
