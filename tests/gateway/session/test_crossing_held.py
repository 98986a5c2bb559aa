"""Batches at or above a cut that is only proposed: their answers wait until the state has decided.

Cut 100, and the target's log begins at 7. If a record of a producer without idempotence were refused at once, it would
be sent again, and both copies would be read once the cut is raised.
"""

import pytest

from gateway.session.commands import Cause
from gateway.session.produce.duplicate_offsets import UNKNOWN_OFFSET
from gateway.session.produce.split import PROPOSED_HOLD_S
from gateway.session.snapshot import Port
from ha_core.model import Crossing, Extent, Fence, Topic
from ha_core.wire import ErrorCode
from tests.gateway.session.crossings import (
    BASE,
    CUT,
    RAISED,
    REFUSED,
    SCOPE,
    TAKEN,
    TARGET_LANE,
    answer,
    answers,
    arrived,
    ask,
    cut_at,
    outcome,
    plain,
    records,
    takes,
    told,
    topic,
)
from tests.gateway.session.messages import FETCH, PRODUCE, entry, fetch, fetched, produce, produced, state
from tests.gateway.session.talk import EAST, WEST, Talk


def held(*, count: int = 1, at: int = CUT, crossing: str = "proposed", acks: int = -1) -> Talk:
    """A talk in which the origin has `count` records of a producer without idempotence from `at` on."""
    talk = Talk(state(topic(crossing)))
    talk.ask(PRODUCE, 9, plain(records(-1, count, producer_id=-1), acks=acks))
    ((asked, _),) = arrived(talk, EAST)
    if crossing == "open":
        talk.follow(state(topic("proposed"), revision=2))
    assert told(talk, EAST, asked, at) == []
    return talk


def test_a_record_at_a_proposed_cut_that_is_raised_is_written_once_and_acknowledged_once() -> None:
    # Given a record that the origin has appended at the cut, before that was open
    talk = held()
    # When a higher cut is proposed
    talk.follow(state(cut_at(RAISED), revision=2))
    # Then it is an ordinary record, and its producer has no reason to send another one
    assert outcome(talk) == [(TAKEN, CUT)]
    assert arrived(talk, EAST) == arrived(talk, TARGET_LANE) == []


def test_a_batch_that_straddles_the_raised_cut_as_well_stays_held() -> None:
    talk = held(count=10, at=95)
    talk.follow(state(cut_at(102), revision=2))
    assert outcome(talk) == []
    talk.follow(state(cut_at(110), revision=3))
    assert outcome(talk) == [(TAKEN, 95)]


def test_a_held_batch_goes_to_the_target_when_the_crossing_is_opened() -> None:
    talk = held(count=10, at=95)
    talk.follow(state(cut_at(102), revision=2))
    talk.follow(state(cut_at(102, "open"), revision=3))
    ((write, batch),) = arrived(talk, TARGET_LANE)
    assert batch.records_count == 10
    assert told(talk, TARGET_LANE, write, BASE) == [(TAKEN, 102)]


@pytest.mark.parametrize("mapped", [False, True])
def test_a_held_record_is_an_ordinary_one_when_the_cut_is_taken_back(mapped: bool) -> None:
    talk = held()
    origin = Extent(cluster="east", start=0, base=0, writer_epoch=0)
    document = Topic(name="orders", writer="east", partitions={0: (origin,)})
    talk.follow(state(*[document] * mapped, revision=2))
    assert outcome(talk) == [(TAKEN, CUT)]
    assert not talk.asked(TARGET_LANE)


def test_a_batch_sent_to_an_open_cut_that_is_proposed_again_is_held_as_well() -> None:
    talk = held(crossing="open")
    talk.follow(state(revision=3))
    assert outcome(talk) == [(TAKEN, CUT)]


def test_a_barrier_move_applies_when_this_gateway_missed_the_fence() -> None:
    # When several revisions arrive as one: taken back, and then moved with a fence, whose cut lies above the record
    talk = held()
    talk.follow(state(cut_at(CUT + 1, None), revision=9))
    assert outcome(talk) == [(TAKEN, CUT)]


@pytest.mark.parametrize(
    "newest",
    [
        pytest.param(Topic(name="orders", fence=Fence(operation="op-2")), id="a fence before the first map"),
        pytest.param(
            Topic(
                name="orders", writer="east", partitions={0: (Extent(cluster="east", start=0, base=0, writer_epoch=2),)}
            ),
            id="another stay in the origin",
        ),
        pytest.param(
            Topic(
                name="orders", writer="west", partitions={0: (Extent(cluster="west", start=0, base=0, writer_epoch=0),)}
            ),
            id="written elsewhere ever since",
        ),
    ],
)
def test_the_outcome_of_a_held_batch_is_not_guessed(newest: Topic) -> None:
    talk = held()
    talk.follow(state(newest, revision=9))
    assert outcome(talk) == [(REFUSED, -1)]
    assert not talk.asked(TARGET_LANE)


@pytest.mark.parametrize("newest", [cut_at(RAISED), cut_at(CUT, "open"), None], ids=["raised", "open", "taken back"])
def test_no_state_is_trusted_without_a_lease(newest: Topic | None) -> None:
    # Given the lease has run out: operations may have gone on without this gateway
    talk = held()
    talk.lease.valid_until = 0.0
    talk.follow(state(*[newest] if newest else [], revision=2))
    assert TAKEN not in [error for error, _ in outcome(talk)]
    assert not talk.asked(TARGET_LANE)
    # And its client gets an answer at the latest when it would have got one anyway
    talk.wait(PROPOSED_HOLD_S)
    assert not talk.session.in_flight.queue


def test_a_lease_that_is_regained_in_time_decides() -> None:
    talk = held()
    talk.lease.valid_until = 0.0
    talk.follow(state(cut_at(RAISED), revision=2))
    assert outcome(talk) == []
    talk.lease.valid_until = 1e9
    talk.wait(PROPOSED_HOLD_S)
    assert outcome(talk) == [(TAKEN, CUT)]


def test_a_batch_at_an_undecided_cut_is_refused_after_a_while() -> None:
    talk = held()
    talk.wait(PROPOSED_HOLD_S - 0.6)
    assert outcome(talk) == []
    assert talk.woken[-1] == pytest.approx(100 + PROPOSED_HOLD_S)
    talk.wait(0.1)
    assert outcome(talk) == [(REFUSED, -1)]


def test_a_client_with_a_shorter_timeout_is_answered_earlier() -> None:
    talk = Talk(state(topic("proposed")))
    talk.ask(PRODUCE, 9, plain(records(0), timeout_ms=1000))
    ((asked, _),) = arrived(talk, EAST)
    talk.now += 0.4
    assert told(talk, EAST, asked, CUT) == [(REFUSED, -1)]


def test_answers_keep_their_order_and_batches_below_the_cut_are_acknowledged_at_once() -> None:
    talk = Talk(state(topic("proposed")))
    for sequence in (0, 5, 10):
        talk.ask(PRODUCE, 9, plain(records(sequence, 5)))
    for (asked, _), offset in zip(arrived(talk, EAST), (94, 99, 104), strict=True):
        answer(talk, EAST, asked, offset)
    assert outcome(talk) == [(TAKEN, 94)]
    talk.follow(state(cut_at(RAISED), revision=2))
    assert outcome(talk) == [(TAKEN, 99), (TAKEN, 104)]


def test_pipelined_batches_go_to_the_target_in_order_when_the_crossing_is_opened() -> None:
    talk = Talk(state(topic("proposed")))
    for sequence in (0, 5, 10):
        talk.ask(PRODUCE, 9, plain(records(sequence, 5)))
    first, second, third = (asked for asked, _ in arrived(talk, EAST))
    answer(talk, EAST, first, 99)
    answer(talk, EAST, second, 104)
    talk.follow(state(topic("open"), revision=2))
    # Given the last one's answer from the origin comes when the cut is open already
    answer(talk, EAST, third, 109)
    for sequence, count in ((0, 5), (5, 5), (10, 5)):
        ((write, batch),) = arrived(talk, TARGET_LANE)
        assert (batch.base_sequence, batch.records_count) == (sequence, count)
        answer(talk, TARGET_LANE, write, BASE + sequence - 1)
    assert outcome(talk) == [(TAKEN, 99), (TAKEN, 104), (TAKEN, 109)]


def test_batches_after_one_that_was_refused_at_its_timeout_do_not_cross_before_it() -> None:
    talk = Talk(state(topic("proposed")))
    talk.ask(PRODUCE, 9, plain(records(0)))
    talk.now += 1.0
    talk.ask(PRODUCE, 9, plain(records(1)))
    for (asked, _), offset in zip(arrived(talk, EAST), (100, 101), strict=True):
        answer(talk, EAST, asked, offset)
    talk.wait(PROPOSED_HOLD_S - 1.0)
    assert [entry(one)["error_code"] for one in talk.answers()] == [REFUSED]
    talk.follow(state(topic("open"), revision=2))
    assert outcome(talk) == [(REFUSED, -1)]
    assert not talk.asked(TARGET_LANE)


def test_the_partitions_of_a_request_are_answered_once_all_are_decided() -> None:
    # Given two topics in crossings of two operations
    other = cut_at(CUT, name="other").model_copy(update={"crossing": Crossing(operation="m-2", state="proposed")})
    talk = Talk(state(topic("proposed"), other))
    both = produce(("orders", 0, records(0)), ("other", 0, records(0)))
    asked = talk.forwarded(PRODUCE, 9, {**both, "timeout_ms": 30_000}, to=EAST)
    talk.answer(EAST, asked, produced(("orders", 0, 0, CUT), ("other", 0, 0, CUT + 4)))
    # When one is opened and the other one proposed higher, each in a revision of its own
    talk.follow(state(topic("open"), other, revision=2))
    assert not talk.asked(TARGET_LANE)
    talk.follow(state(topic("open"), cut_at(RAISED, name="other"), revision=3))
    answers(talk, TARGET_LANE, BASE)
    talk.wait(0.25)
    found = {response["name"]: response["partition_responses"][0] for response in talk.answers()[0]["responses"]}
    assert [(found[name]["error_code"], found[name]["base_offset"]) for name in ("orders", "other")] == [
        (TAKEN, CUT),
        (TAKEN, CUT + 4),
    ]


def test_no_operation_waits_for_a_request_that_waits_for_it() -> None:
    # Given batches in flight when an open cut is proposed again, to be taken back
    talk = Talk(state(topic("open")))
    for _ in range(2):
        talk.ask(PRODUCE, 9, plain(records(-1, producer_id=-1)))
    (first, _), (second, _) = arrived(talk, EAST)
    talk.follow(state(topic("proposed"), revision=2))
    assert talk.session.holds_back(*SCOPE, 2)
    # When the origin has answered, none of them is in flight, and none will be by the former rules
    answer(talk, EAST, first, 100)
    answer(talk, EAST, second, 101)
    assert not talk.session.holds_back(*SCOPE, 2)
    # And a revision about other topics changes nothing about it
    talk.follow(state(topic("proposed"), revision=7))
    assert not talk.session.holds_back(*SCOPE, 7)
    assert not talk.asked(TARGET_LANE)


def test_a_batch_in_flight_to_the_target_is_awaited_and_the_next_one_is_judged_by_the_newest_state() -> None:
    talk = Talk(state(topic("open")))
    for _ in range(2):
        talk.ask(PRODUCE, 9, plain(records(-1, producer_id=-1)))
    for (asked, _), offset in zip(arrived(talk, EAST), (100, 101), strict=True):
        answer(talk, EAST, asked, offset)
    ((write, _),) = arrived(talk, TARGET_LANE)
    talk.follow(state(topic("proposed"), revision=2))
    assert talk.session.holds_back(*SCOPE, 2)
    assert told(talk, TARGET_LANE, write, BASE) == [(TAKEN, CUT)]
    assert not talk.session.holds_back(*SCOPE, 2)
    assert not talk.asked(TARGET_LANE)
    # And when there is no way back, because the target has the first of them, the second goes there as well
    talk.follow(state(topic("open"), revision=3))
    assert takes(talk, TARGET_LANE, BASE + 1) == [(TAKEN, CUT + 1)]


@pytest.mark.parametrize("ended", [False, True])
def test_a_record_above_an_open_cut_goes_to_the_target_once_the_fence_is_lifted(ended: bool) -> None:
    # Given an operator ends the crossing with a fence, for partitions without writes
    talk = Talk(state(topic("open")))
    talk.ask(PRODUCE, 9, plain(records(-1, producer_id=-1)))
    ((asked, _),) = arrived(talk, EAST)
    talk.follow(state(topic("open", fence=Fence(operation="m-1")), revision=2))
    assert told(talk, EAST, asked, CUT) == []
    assert not talk.session.holds_back(*SCOPE, 2)
    talk.follow(state(topic(None if ended else "open"), revision=3))
    assert takes(talk, TARGET_LANE, BASE) == [(TAKEN, CUT)]


def test_an_acks_0_client_is_cut_off_only_when_its_batch_is_finally_refused() -> None:
    talk = held(acks=0)
    assert talk.closed is None
    talk.wait(PROPOSED_HOLD_S)
    assert talk.cause is Cause.REFUSED_WITHOUT_ANSWER


def test_an_acks_0_client_continues_when_the_cut_is_raised() -> None:
    talk = held(acks=0)
    talk.follow(state(cut_at(RAISED), revision=2))
    assert (outcome(talk), talk.closed, list(talk.session.in_flight.queue)) == ([], None, [])


def test_the_batch_of_a_client_that_has_left_still_reaches_its_cluster() -> None:
    talk = held(acks=0)
    talk.take(talk.session.client_left(talk.now))
    assert talk.closed is None
    talk.follow(state(topic("open"), revision=2))
    answers(talk, TARGET_LANE, BASE)
    assert talk.cause is Cause.CLIENT_LEFT


def test_a_transactional_batch_is_held_too_and_refused_when_it_would_have_to_cross() -> None:
    for newest, expected in ((cut_at(RAISED), (TAKEN, CUT)), (topic("open"), (REFUSED, -1))):
        talk = Talk(state(topic("proposed")))
        body = plain(records(0, producer_id=talk.session.context.shared.shown(EAST, 70)))
        asked = talk.forwarded(PRODUCE, 9, {**body, "transactional_id": "t"}, to=EAST)
        assert told(talk, EAST, asked, CUT) == []
        talk.follow(state(newest, revision=2))
        assert outcome(talk) == [expected]


def test_another_answer_of_the_broker_waits_for_its_turn_meanwhile() -> None:
    talk = held()
    waiting = talk.forwarded(FETCH, 12, fetch(("other", 0, 3)), to=EAST)
    talk.answer(EAST, waiting, fetched(("other", 0, 3, b"")))
    talk.wait(0.1)
    assert not talk.answers()
    talk.follow(state(cut_at(RAISED), revision=2))
    assert len(talk.answers()) == 2


def test_no_more_is_read_from_a_client_with_many_held_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.session.in_flight.MAX_BUFFERED_BYTES", 2 * len(records(-1, 10, producer_id=-1)))
    talk = Talk(state(topic("proposed")))
    for _ in range(3):
        assert not talk.session.paused
        talk.ask(PRODUCE, 9, plain(records(-1, 10, producer_id=-1)))
    for number, (asked, _) in enumerate(arrived(talk, EAST)):
        answer(talk, EAST, asked, CUT + number)
        assert talk.session.paused
    talk.follow(state(cut_at(RAISED), revision=2))
    assert not talk.session.paused
    assert len(outcome(talk)) == 3


def test_a_record_above_a_settled_cut_goes_to_the_target_although_it_was_sent_when_the_cut_was_proposed() -> None:
    # Given an origin that answers late, after the crossing was opened and ended
    talk = Talk(state(topic("proposed")))
    talk.ask(PRODUCE, 9, plain(records(0, 4)))
    ((asked, _),) = arrived(talk, EAST)
    talk.follow(state(topic(None), revision=5))
    answer(talk, EAST, asked, CUT - 1)
    ((write, batch),) = arrived(talk, TARGET_LANE)
    assert (batch.base_sequence, batch.records_count) == (0, 4)
    answer(talk, TARGET_LANE, write, -1, int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
    assert outcome(talk) == [(int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER), UNKNOWN_OFFSET)]


def test_after_a_held_batch_the_next_one_goes_to_an_ordinary_origin() -> None:
    talk = held()
    talk.follow(state(revision=2))
    ask(talk, records(-1, producer_id=-1))
    (asked,) = talk.asked(EAST)
    assert told(talk, EAST, asked, CUT + 1) == [(TAKEN, CUT), (TAKEN, CUT + 1)]
    assert Port("east", 1) == talk.session.context.port
    assert not talk.asked(WEST)
