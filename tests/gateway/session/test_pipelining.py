"""Pipelined requests of one connection take effect in order, whichever routes they take."""

from typing import Any

import pytest

from gateway.session.commands import Cause, Compose
from gateway.session.snapshot import Port, Snapshot
from ha_core.model import UserBindings, View
from ha_core.wire import ApiKey, encode_request
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import COMMIT, HEARTBEAT, commit, heartbeat
from tests.gateway.session.messages import (
    CHUNKINGS,
    FETCH,
    LARGE,
    PRODUCE,
    entry,
    fetch,
    fetched,
    half,
    moved,
    produce,
    produced,
    state,
)
from tests.gateway.session.talk import CLUSTERS, EAST, WEST, Talk, snapshot, topology

LIST_OFFSETS, METADATA, DELETE_RECORDS = int(ApiKey.LIST_OFFSETS), int(ApiKey.METADATA), int(ApiKey.DELETE_RECORDS)
ENDS = {"replica_id": -1, "isolation_level": 0, "topics": []}
NO_TOPICS: dict[str, Any] = {"brokers": [], "controller_id": 1, "topics": []}


def asked_elsewhere(talk: Talk) -> list[Compose]:
    questions = talk.questions
    talk.others.clear()
    return questions


@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_the_end_of_a_log_is_requested_once_earlier_writes_are_in_it(chunking: str) -> None:
    # Given a produce, followed by a request for the log's end
    talk = Talk(state(), chunks=CHUNKINGS[chunking])
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.ask(LIST_OFFSETS, 7, ENDS)
    # Then that is not forwarded before the broker has the record
    (writing,) = talk.asked(EAST)
    assert not asked_elsewhere(talk)
    assert talk.session.paused
    talk.answer(EAST, writing, produced(("orders", 0, 0, 41)))
    (asking,) = asked_elsewhere(talk)
    # And a later write waits for it in turn
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    assert not talk.asked(EAST)
    talk.composed(asking, {"topics": []})
    assert len(talk.asked(EAST)) == 1
    assert len(talk.answers()) == 2


def test_the_end_of_a_log_is_requested_once_records_without_an_answer_are_in_it() -> None:
    talk = Talk(state())
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), acks=0))
    talk.ask(LIST_OFFSETS, 7, ENDS)
    _, next_request = talk.asked(EAST)
    assert not asked_elsewhere(talk)
    talk.answer(EAST, next_request, {"error_code": 0, "api_keys": []})
    assert len(asked_elsewhere(talk)) == 1


def test_two_changes_of_one_connection_are_made_one_after_the_other() -> None:
    talk = Talk(state())
    talk.ask(DELETE_RECORDS, 2, {"topics": [], "timeout_ms": 1000})
    talk.ask(LIST_OFFSETS, 7, ENDS)
    (deleting,) = asked_elsewhere(talk)
    talk.composed(deleting, {"topics": []})
    assert len(asked_elsewhere(talk)) == 1


def test_a_write_waits_for_an_earlier_read_elsewhere() -> None:
    # Given a read of old records from the old cluster
    talk = Talk(state(moved(100, 7)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 50)))
    talk.ask(PRODUCE, 9, produce(("other", 0, batch())))
    assert not talk.asked(WEST)
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 100, batch(50))))
    assert len(talk.asked(WEST)) == 1


@pytest.mark.parametrize("acks", [0, 1])
def test_requests_to_one_broker_are_pipelined(acks: int) -> None:
    talk = Talk(state())
    for _ in range(3):
        talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), acks=acks))
        talk.ask(FETCH, 12, fetch(("orders", 0, 5)))
    half(talk, ("orders", 0, batch(payload=LARGE)), acks=acks)
    assert len(talk.asked(EAST)) == 6
    assert talk.session.intake.reading is not None
    assert not talk.session.paused


def test_half_of_a_request_waits_for_its_turn_too() -> None:
    talk = Talk(state())
    talk.ask(LIST_OFFSETS, 7, ENDS)
    (asking,) = asked_elsewhere(talk)
    rest = half(talk, ("orders", 0, batch(payload=LARGE)), acks=1)
    assert EAST not in talk.upstream
    talk.composed(asking, {"topics": []})
    talk.send(rest)
    assert len(talk.asked(EAST)) == 1


def bound_elsewhere() -> Snapshot:
    """A group that is coordinated by the west."""
    leaders = {"__consumer_offsets": dict.fromkeys(range(50), 1), "orders": {0: 1}}
    bindings = {"anonymous": UserBindings(user="anonymous", groups={"billing": "west"})}
    return snapshot(View(1, CLUSTERS, bindings), topology(east=leaders, west=leaders))


def test_a_readers_long_poll_delays_no_heartbeat_and_no_metadata() -> None:
    # Given a reader that waits for records, and whose group is in another cluster
    talk = Talk(bound_elsewhere())
    reading = talk.forwarded(FETCH, 12, fetch(("orders", 0, 5)), to=EAST)
    # When it sends a heartbeat, and asks for metadata, over the same connection
    talk.ask(HEARTBEAT, 4, heartbeat())
    talk.ask(METADATA, 8, {"topics": []})
    # Then both are forwarded at once
    (beating,) = talk.asked(WEST)
    (asking,) = asked_elsewhere(talk)
    talk.composed(asking, NO_TOPICS)
    talk.answer(WEST, beating, {"error_code": 0})
    talk.answer(EAST, reading, fetched(("orders", 0, 5, b"")))
    assert len(talk.answers()) == 3


def test_two_requests_of_one_group_are_kept_in_order() -> None:
    # Given a commit to the coordinator in another cluster
    talk = Talk(bound_elsewhere())
    talk.ask(COMMIT, 8, commit())
    # Then another request of the group follows on the same route, and a request about groups waits for it
    talk.ask(HEARTBEAT, 4, heartbeat())
    talk.ask(int(ApiKey.LIST_GROUPS), 4, {"states_filter": []})
    committing, beating = talk.asked(WEST)
    assert not asked_elsewhere(talk)
    body = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": 0}]}]}
    talk.answer(WEST, committing, body)
    talk.answer(WEST, beating, {"error_code": 0})
    assert len(asked_elsewhere(talk)) == 1


def test_requests_that_a_client_sent_before_it_left_are_executed_in_their_turn() -> None:
    # Given records without an answer after a composed request, from a client that is gone already
    talk = Talk(state())
    talk.ask(LIST_OFFSETS, 7, ENDS)
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), acks=0))
    (asking,) = asked_elsewhere(talk)
    talk.take(talk.session.client_left(talk.now))
    assert talk.closed is None
    # When their turn comes
    talk.composed(asking, {"topics": []})
    # Then they are written, as by a broker that reads everything before the end
    assert talk.asked(EAST)[0][0] == PRODUCE


def test_a_waiting_request_is_judged_by_the_rules_of_its_turn() -> None:
    # Given a produce that waits for a composed request while its topic moves
    talk = Talk(state())
    talk.ask(LIST_OFFSETS, 7, ENDS)
    (asking,) = asked_elsewhere(talk)
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.follow(state(moved(), revision=2))
    talk.composed(asking, {"topics": []})
    # Then it is not forwarded to the topic's former place
    assert not talk.asked(EAST)
    assert entry(talk.answers()[1])["error_code"] == 6


def test_requests_answered_here_wait_for_nothing() -> None:
    talk = Talk(state())
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.versions.append((7, 18, 0))
    talk.send(encode_request(18, 0, 7, "app", b""))
    assert not talk.session.paused


def test_a_request_that_came_in_pieces_before_its_client_left_is_executed_in_its_turn() -> None:
    # Given a commit in two pieces, after a request about groups, from a client that is gone already
    talk = Talk(bound_elsewhere(), chunks=lambda data: [data[:20], data[20:]])
    talk.ask(int(ApiKey.LIST_GROUPS), 4, {"states_filter": []})
    talk.ask(COMMIT, 8, commit())
    (asking,) = asked_elsewhere(talk)
    talk.take(talk.session.client_left(talk.now))
    # When its turn comes
    talk.composed(asking, {"groups": []})
    # Then it reaches the coordinator
    assert talk.asked(WEST)[0][0] == COMMIT


@pytest.mark.parametrize("behind", [True, False])
def test_a_request_that_cannot_be_answered_ends_its_connection_after_the_answers_before_it(behind: bool) -> None:
    # Given a produce, and after it a request whose body turns out to be damaged when it is decoded off the loop
    talk = Talk(state())
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.ask(METADATA, 8, {"topics": None, "allow_auto_topic_creation": False})
    (damaged,) = asked_elsewhere(talk)
    if behind:
        talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.take(talk.session.unanswerable(damaged.token, Cause.MALFORMED, "damaged", talk.now))
    assert talk.closed is None
    # When the broker has written the first
    first, *others = talk.asked(EAST)
    talk.answer(EAST, first, produced(("orders", 0, 0, 41)))
    # Then its producer gets that answer, and none after the damaged request
    (answer,) = talk.answers()
    assert entry(answer)["base_offset"] == 41
    # And later requests are awaited, for they may yet be appended
    assert len(others) == behind
    for other in others:
        assert talk.closed is None
        assert talk.session.holds_back(frozenset({b"orders"}), frozenset(), 2)
        talk.answer(EAST, other, produced(("orders", 0, 0, 42)))
    assert not talk.answers()
    assert talk.cause is Cause.MALFORMED


def test_refusals_after_a_request_that_cannot_be_answered_are_not_sent() -> None:
    talk = Talk(state())
    talk.ask(METADATA, 8, {"topics": None, "allow_auto_topic_creation": False})
    (damaged,) = asked_elsewhere(talk)
    talk.lease.valid_until = 0.0
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.take(talk.session.unanswerable(damaged.token, Cause.UPSTREAM_LOST, "failed", talk.now))
    assert not talk.answers()
    assert talk.cause is Cause.UPSTREAM_LOST
