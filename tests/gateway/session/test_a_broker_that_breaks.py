"""A broker's connection breaks: its client retries, and requests to other brokers are awaited first."""

from typing import Any

import pytest

from gateway.session.commands import Cause, Close
from ha_core.model import Fence, Topic
from ha_core.wire import ErrorCode, encode, encode_response
from tests.gateway.session import crossings
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    EAST_PORT,
    EASTS,
    END,
    HEARTBEAT,
    INIT,
    JOIN,
    add,
    bound,
    end,
    heartbeat,
)
from tests.gateway.session.crossings import BASE, CUT, TARGET_LANE
from tests.gateway.session.messages import LARGE, PRODUCE, half, produce, produced, state
from tests.gateway.session.talk import EAST, Talk

LOST = Close(Cause.UPSTREAM_LOST, "east:1: gone")


def at_an_open_cut() -> Talk:
    """A batch in flight to the target, and another one that the origin has not answered."""
    talk = Talk(state(crossings.topic()))
    for sequence in (0, 10):
        crossings.ask(talk, crossings.records(sequence, 10))
    crossings.answer(talk, EAST, talk.asked(EAST)[0], CUT)
    return talk


def holds_back(talk: Talk) -> bool:
    return talk.session.holds_back(*crossings.SCOPE, since=2)


def test_a_write_in_flight_to_the_target_holds_a_fence_back_when_the_origin_is_lost() -> None:
    # Given a cut across which a batch is in flight
    talk = at_an_open_cut()
    (write,) = talk.asked(TARGET_LANE)
    # When the origin's connection breaks
    talk.lose(EAST)
    # Then the client is cut off, and a fence waits for the target
    assert not talk.session.context.life.connected
    talk.follow(state(crossings.topic(fence=Fence(operation="op")), revision=2))
    assert holds_back(talk)
    assert talk.closed is None
    # And only until the target has answered; no client gets that answer
    crossings.answer(talk, TARGET_LANE, write, BASE)
    assert not holds_back(talk)
    assert talk.closed == LOST
    assert talk.answers() == []


def test_a_write_whose_target_is_lost_as_well_is_resent_as_for_any_client() -> None:
    talk = at_an_open_cut()
    talk.asked(TARGET_LANE)
    talk.lose(EAST)
    talk.lose(TARGET_LANE)
    talk.wait(0.25)
    (again,) = talk.asked(TARGET_LANE)
    crossings.answer(talk, TARGET_LANE, again, BASE)
    assert talk.closed == LOST


def test_a_client_of_only_the_lost_broker_is_closed_at_once_and_gets_the_answers_in_flight() -> None:
    talk = Talk(state(crossings.topic()))
    crossings.ask(talk, crossings.records(0, 10))
    talk.lose(EAST)
    assert talk.closed == LOST
    assert talk.session.context.life.connected


def test_a_request_half_sent_to_the_lost_broker_is_given_up() -> None:
    # Given a write in flight to the target, and the beginning of a request to the origin
    talk = at_an_open_cut()
    half(talk, ("other", 0, LARGE), acks=-1)
    talk.lose(EAST)
    # Then neither the half-sent request is awaited, nor its followers
    assert talk.session.intake.reading is None
    crossings.answer(talk, TARGET_LANE, talk.asked(TARGET_LANE)[0], BASE)
    assert talk.closed == LOST


def test_no_answer_follows_a_torn_one_while_the_client_reads_earlier_bytes() -> None:
    # Given an answer whose beginning the broker has sent, and after it one that is held for a fence
    talk = Talk(state(Topic(name="orders", fence=Fence(operation="op"))))
    for name in ("other", "orders"):
        talk.ask(PRODUCE, 9, produce((name, 0, batch())))
    (write,) = talk.asked(EAST)
    answer = encode_response(
        PRODUCE, 9, write.correlation_id, encode(PRODUCE, 9, "response", produced(("other", 0, 0, 5)))
    )
    beginning = bytearray(answer[:-20])
    talk.take(talk.session.receive_upstream(EAST, beginning, len(beginning), talk.now))
    # When the broker's connection breaks, and the fence is lifted before the client has read everything
    talk.lose(EAST)
    assert talk.closed == LOST
    talk.follow(state(Topic(name="orders"), revision=2))
    talk.wait(10)
    # Then the client does not take the held answer for the rest of the torn one
    assert bytes(talk.to_client) == answer[:-20]


_INIT = {"transactional_id": "tx", "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1}
_JOIN = {"group_id": "billing", "member_id": "", "protocol_type": "consumer", "protocols": []}


@pytest.mark.parametrize(
    ("api_key", "request_"),
    [
        (INIT, _INIT),
        (ADD_OFFSETS, {"transactional_id": "tx", "producer_id": EASTS, "producer_epoch": 0, "group_id": "billing"}),
        (END, end(EASTS)),
        (JOIN, _JOIN),
        (HEARTBEAT, heartbeat()),
    ],
)
def test_a_client_whose_coordinator_is_gone_gets_an_error_and_keeps_its_connection(
    api_key: int, request_: dict[str, Any]
) -> None:
    """franz-go takes a connection that closes at its first request for one that requires a login, and gives up."""
    talk = Talk(bound("east"), EAST_PORT)
    talk.ask(api_key, 3, request_)
    assert talk.asked(EAST)
    talk.lose(EAST)

    (answer,) = talk.answers()
    assert answer["error_code"] == ErrorCode.NOT_COORDINATOR
    assert talk.closed is None
    # And the gateway forwards the next request of that connection
    talk.ask(api_key, 3, request_)
    assert talk.asked(EAST)


def test_adding_partitions_at_a_lost_coordinator_gets_not_coordinator() -> None:
    talk = Talk(bound("east"), EAST_PORT)
    talk.ask(ADD_PARTITIONS, 3, add(EASTS))
    talk.lose(EAST)

    (answer,) = talk.answers()
    (topic,) = answer["results_by_topic"]
    assert topic["results_by_partition"][0]["partition_error_code"] == ErrorCode.NOT_COORDINATOR
    assert talk.closed is None


def test_a_client_is_disconnected_if_its_batch_was_in_flight_to_a_lost_coordinator() -> None:
    talk = Talk(bound("east"), EAST_PORT)
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.ask(HEARTBEAT, 3, heartbeat())
    talk.lose(EAST)

    assert talk.closed == LOST
    assert talk.answers() == []
