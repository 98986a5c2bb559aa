"""Produce to a topic with a cut ahead, played without I/O: cut 100, and the target's log begins at 7."""

import pytest

from gateway.session.produce.producer_order import LOST_S
from gateway.session.snapshot import Port
from ha_core.model import Extent, Fence
from ha_core.model.producer import upstream_id
from ha_core.wire import ErrorCode
from tests.gateway.session.batch import batch
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
    settled,
    takes,
    told,
    topic,
)
from tests.gateway.session.messages import (
    CLIENT_PID,
    FETCH,
    PRODUCE,
    fetch,
    produce,
    state,
)
from tests.gateway.session.talk import EAST, WEST, Talk

LARGE = b"r" * 40_000
IN_WEST = upstream_id(CLIENT_PID, 1)


def test_records_at_or_above_the_cut_go_to_the_target_under_the_writer_epochs_producer_id() -> None:
    talk = Talk(state(topic()))
    for sequence, offset, there in ((0, 100, 7), (3, 140, 12)):
        ask(talk, records(sequence, 3))
        ((asked, first),) = arrived(talk, EAST)
        assert first.producer_id == CLIENT_PID
        assert told(talk, EAST, asked, offset) == []
        ((write, batch),) = arrived(talk, TARGET_LANE)
        assert (batch.producer_id, batch.base_sequence, batch.records_count) == (IN_WEST, sequence, 3)
        assert told(talk, TARGET_LANE, write, there) == [(TAKEN, CUT + there - BASE)]


def test_a_batch_that_straddles_the_cut_goes_to_the_target_whole_each_time() -> None:
    talk = Talk(state(topic()))
    writes = []
    for _ in range(2):  # the client's retry gets the same offset from the origin, as a duplicate
        asked = sent(talk, records(20, 10))
        answer(talk, EAST, asked, 96)
        ((write, batch),) = arrived(talk, TARGET_LANE)
        assert (batch.producer_id, batch.base_sequence, batch.records_count) == (IN_WEST, 20, 10)
        writes.append(write.records)
        # Then its records are where the target has put them, whichever write came first
        assert told(talk, TARGET_LANE, write, BASE + 40) == [(TAKEN, CUT + 40)]
    assert writes[0] == writes[1]


def test_a_batch_that_ends_right_below_the_cut_stays_in_the_origin() -> None:
    talk = Talk(state(topic()))
    asked = sent(talk, records(20, 10))
    assert told(talk, EAST, asked, CUT - 10) == [(TAKEN, CUT - 10)]
    assert not arrived(talk, TARGET_LANE)


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_the_origin_gets_acks_all_whatever_the_client_requests(acks: int) -> None:
    talk = Talk(state(topic()))
    asked = sent(talk, records(-1, 2, producer_id=-1), acks=acks)
    assert asked.body["acks"] == -1
    assert talk.session.busy
    answer(talk, EAST, asked, 100)
    ((write, batch),) = arrived(talk, TARGET_LANE)
    assert (write.body["acks"], batch.producer_id) == (-1, -1)
    assert told(talk, TARGET_LANE, write, BASE) == ([] if acks == 0 else [(TAKEN, CUT)])
    assert not talk.session.in_flight.queue


def test_a_transactional_batch_above_the_cut_is_refused_because_its_transaction_is_in_the_origin() -> None:
    talk = Talk(state(topic()))
    body = produce(("orders", 0, records(0, producer_id=talk.session.context.shared.shown(EAST, 70))))
    asked = talk.forwarded(PRODUCE, 9, {**body, "transactional_id": "t"}, to=EAST)
    assert told(talk, EAST, asked, 100) == [(REFUSED, -1)]
    assert not talk.asked(TARGET_LANE)


def test_batches_after_one_that_the_target_refused_are_not_sent_there() -> None:
    # Given a target that would accept any first sequence of a producer that it does not know
    talk = Talk(state(topic()))
    for sequence in (0, 1):
        ask(talk, records(sequence))
    for (asked, _), offset in zip(arrived(talk, EAST), (100, 101), strict=True):
        answer(talk, EAST, asked, offset)
    answers(talk, TARGET_LANE, -1, int(ErrorCode.NOT_ENOUGH_REPLICAS))
    assert not talk.asked(TARGET_LANE)
    assert outcome(talk) == [(int(ErrorCode.NOT_ENOUGH_REPLICAS), -1), (REFUSED, -1)]
    # Then both come again, in order, and the origin knows them
    for sequence in (0, 1):
        ask(talk, records(sequence))
    for (asked, _), offset in zip(arrived(talk, EAST), (100, 101), strict=True):
        answer(talk, EAST, asked, offset)
    for sequence in (0, 1):
        ((write, batch),) = arrived(talk, TARGET_LANE)
        assert batch.base_sequence == sequence
        answer(talk, TARGET_LANE, write, BASE + sequence)
    assert outcome(talk) == [(TAKEN, 100), (TAKEN, 101)]


@pytest.mark.parametrize("change", ["lease lost", "fenced by the next move", "its cluster was given up by force"])
def test_the_target_is_not_written_when_the_state_changed_during_the_origins_write(change: str) -> None:
    talk = Talk(state(topic()))
    asked = sent(talk, records(0))
    if change == "lease lost":
        talk.lease.valid_until = 0.0
    elif change == "fenced by the next move":
        talk.follow(state(topic(None, fence=Fence(operation="op-2")), revision=2))
    else:
        before, after = topic(None).partitions[0]
        forced = {0: (before.changed(known_end=CUT), after)}
        talk.follow(state(topic(None).model_copy(update={"partitions": forced}), revision=2))
    assert told(talk, EAST, asked, 100) == [(REFUSED, -1)]
    assert not talk.asked(TARGET_LANE)


def test_a_batch_in_flight_at_the_end_of_the_crossing_still_arrives_and_the_next_one_waits_for_it() -> None:
    talk = Talk(state(topic()))
    asked = sent(talk, records(0))
    talk.follow(settled())
    # When the client has learned of the new leader, and sends the next batch there over another connection
    other = Talk(settled(), Port("west", 1), producer_orders=talk.session.context.shared.producer_orders)
    ask(other, records(1))
    assert outcome(other) == [(REFUSED, -1)]
    answer(talk, EAST, asked, 100)
    assert takes(talk, TARGET_LANE, BASE) == [(TAKEN, 100)]
    ask(other, records(1))
    assert takes(other, WEST, BASE + 1) == [(TAKEN, 101)]


def test_a_batch_whose_connection_broke_is_not_awaited_forever() -> None:
    talk = Talk(state(topic()))
    ask(talk, records(0))
    other = Talk(settled(), Port("west", 1), producer_orders=talk.session.context.shared.producer_orders)
    other.now += LOST_S + 1
    ask(other, records(1))
    assert len(arrived(other, WEST)) == 1


def test_a_straddling_batch_that_is_retried_after_the_crossing_is_written_to_the_target() -> None:
    # Given the gateway was killed between the writes to origin and target, and the crossing has ended since
    talk = Talk(settled(last=19), Port("west", 1))
    ask(talk, records(20, 10))
    ((asked, batch),) = arrived(talk, WEST)
    assert (batch.producer_id, batch.base_sequence, batch.records_count) == (IN_WEST, 20, 10)
    assert told(talk, WEST, asked, BASE) == [(TAKEN, CUT)]


def test_producers_are_routed_to_the_origin_while_the_cut_lies_ahead() -> None:
    talk = Talk(state(topic()), Port("west", 1))
    ask(talk, records(0))
    assert outcome(talk) == [(REFUSED, -1)]


@pytest.mark.parametrize("pieces", [1, 9])
@pytest.mark.parametrize("stage", ["proposed", "open"])
def test_partitions_added_during_a_crossing_are_written_after_it(stage: str, pieces: int) -> None:
    # Given a topic of one partition, whose second one was created past the gateways
    step = len(LARGE) // pieces + 1000
    talk = Talk(state(topic(stage)), chunks=lambda data: [data[at : at + step] for at in range(0, len(data), step)])
    large = produce(("orders", 1, batch(payload=LARGE)))

    # When a producer writes to it, in one piece or in many
    talk.ask(PRODUCE, 9, large)

    # Then no write is confirmed: the operation's end may make the target the writer a moment later
    assert talk.asked(EAST) == []
    talk.follow(state(topic(None, writer="east"), revision=2))
    assert outcome(talk) == [(REFUSED, -1)]
    talk.ask(PRODUCE, 9, large)
    assert len(talk.asked(EAST)) == 1


def test_a_request_in_pieces_is_gathered_before_it_is_sent_because_it_may_go_twice() -> None:
    talk = Talk(state(topic()), chunks=lambda data: [data[at : at + 7] for at in range(0, len(data), 7)])
    ask(talk, records(0, 10))
    ((asked, batch),) = arrived(talk, EAST)
    answer(talk, EAST, asked, 95)
    ((_, rest),) = arrived(talk, TARGET_LANE)
    assert (batch.records_count, rest.records_count) == (10, 10)


def test_a_reader_of_both_sides_is_not_sent_away_and_waits_long_on_neither() -> None:
    crossing = topic().model_copy(
        update={
            "partitions": {
                0: topic().partitions[0],
                1: (
                    Extent(cluster="east", start=0, end=5000, base=0, writer_epoch=0),
                    Extent(cluster="west", start=5000, base=0, writer_epoch=1),
                ),
            }
        }
    )
    talk = Talk(state(crossing))
    request = fetch(("orders", 0, 120))
    request["topics"][0]["partitions"].append(
        {**request["topics"][0]["partitions"][0], "partition": 1, "fetch_offset": 4}
    )
    talk.ask(FETCH, 11, request)
    ((_, _, _, here),) = talk.asked(EAST)
    ((_, _, _, there),) = talk.asked(WEST)
    assert [here["max_wait_ms"], there["max_wait_ms"]] == [20, 20]
    assert there["topics"][0]["partitions"][0]["fetch_offset"] == 27


def test_a_client_that_reads_from_the_target_over_the_same_connection_reads_its_own_batch() -> None:
    talk = Talk(state(topic()))
    asked = sent(talk, records(0))
    talk.ask(FETCH, 11, fetch(("orders", 0, 100)))
    # When the batch crosses the cut
    answer(talk, EAST, asked, 100)
    assert not talk.asked(WEST)
    answers(talk, TARGET_LANE, BASE)
    # Then the target is asked for it once it has it
    talk.broker_answers(WEST, {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": []})
    assert len(talk.answers()) == 2


def test_a_proposed_cut_waits_only_for_requests_sent_before_it() -> None:
    # Given a batch that passed before the gateway knew the cut: whatever offset it gets will be acknowledged
    talk = Talk(state(revision=1))
    before = sent(talk, records(0))
    talk.follow(state(topic("proposed"), revision=2))
    scope = frozenset({b"orders"}), frozenset[bytes](), 2
    assert talk.session.holds_back(*scope)
    # When it is answered, the operation may go on, although others follow by the new rules
    ask(talk, records(1))
    answer(talk, EAST, before, 40)
    assert not talk.session.holds_back(*scope)
    assert len(arrived(talk, EAST)) == 1


def test_a_proposed_cut_waits_for_batches_without_an_answer_too() -> None:
    talk = Talk(state(revision=1))
    ask(talk, records(-1, producer_id=-1), acks=0)
    assert len(arrived(talk, EAST)) == 1
    talk.follow(state(topic("proposed"), revision=2))
    scope = frozenset({b"orders"}), frozenset[bytes](), 2
    assert talk.session.holds_back(*scope)
    talk.broker_answers(EAST, {"error_code": 0, "api_keys": []})
    assert not talk.session.holds_back(*scope)


def test_an_operation_on_another_topic_of_the_same_request_waits_for_its_records() -> None:
    # Given a request for a topic in a crossing, and for one that was never moved
    talk = Talk(state(topic()))
    talk.ask(PRODUCE, 9, produce(("orders", 0, records(0)), ("other", 0, records(0))))
    # Then an operation that comes later waits for both of them
    for name in (b"orders", b"other"):
        assert talk.session.holds_back(frozenset({name}), frozenset(), since=2)
    assert not talk.session.holds_back(frozenset({b"third"}), frozenset(), since=2)
