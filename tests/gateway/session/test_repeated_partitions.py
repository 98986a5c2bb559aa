"""A produce that names a partition more than once: if the gateway decides, it writes none of its batches.

A broker appends only the last one, and acknowledges it, so the earlier ones would be lost without an error.
"""

from dataclasses import replace

import pytest

from gateway.session.commands import Cause
from gateway.session.produce.judgement import entries
from gateway.session.snapshot import Port
from ha_core.model.access import access_rule
from ha_core.plan.access.rights import Rights
from ha_core.wire import ErrorCode
from tests.gateway.session import crossings
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import CLIENT_PID, PRODUCE, moved, produce, produced, state
from tests.gateway.session.talk import EAST, WEST, Talk

INVALID = int(ErrorCode.INVALID_REQUEST)


def numbered(sequence: int) -> bytes:
    return batch(producer_id=CLIENT_PID, epoch=0, sequence=sequence)


REPEATED = (("orders", 0, numbered(0)), ("orders", 0, numbered(1)))


def after_the_cut() -> Talk:
    return Talk(state(moved()), Port("west", 1))


def outcomes(talk: Talk) -> list[tuple[str, int, int]]:
    (answer,) = talk.answers()
    return [(key[0].decode(), entry["error_code"], entry["base_offset"]) for key, entry in entries(answer)]


@pytest.mark.parametrize("version", range(3, 10))
def test_a_moved_partition_named_twice_is_refused_once_and_the_connection_continues(version: int) -> None:
    talk = after_the_cut()
    talk.ask(PRODUCE, version, produce(*REPEATED))
    # Then neither batch is written, and the client gets one refusal for the partition
    assert not talk.asked(WEST)
    assert outcomes(talk) == [("orders", INVALID, -1)]
    assert talk.session.context.shared.counts.refusals["repeated"] == 1
    assert talk.closed is None
    # And the next batch of the producer waits for neither
    asked = talk.forwarded(PRODUCE, version, produce(REPEATED[0]), to=WEST)
    talk.answer(WEST, asked, produced(("orders", 0, 0, 7)))
    assert outcomes(talk) == [("orders", 0, 107)]


def test_other_partitions_of_the_request_are_written() -> None:
    talk = after_the_cut()
    asked = talk.forwarded(PRODUCE, 9, produce(REPEATED[0], ("other", 0, numbered(0)), REPEATED[1]), to=WEST)
    assert asked.topics == ["other"]
    talk.answer(WEST, asked, produced(("other", 0, 0, 5)))
    assert outcomes(talk) == [("orders", INVALID, -1), ("other", 0, 5)]


def test_batches_for_a_partition_with_a_cut_ahead_reach_neither_cluster() -> None:
    talk = Talk(state(crossings.topic()))
    talk.ask(PRODUCE, 9, produce(*REPEATED))
    assert not talk.asked(EAST)
    assert not talk.asked(crossings.TARGET_LANE)
    assert outcomes(talk) == [("orders", INVALID, -1)]


def test_with_acks_0_the_connection_ends_because_no_answer_can_refuse() -> None:
    talk = after_the_cut()
    talk.ask(PRODUCE, 9, produce(*REPEATED, acks=0))
    assert not talk.asked(WEST)
    assert talk.cause is Cause.REFUSED_WITHOUT_ANSWER
    assert "names the partition more than once" in talk.why


def test_a_user_without_the_right_to_the_topic_gets_only_that_error() -> None:
    whose = {"principal": "User:anonymous", "operation": "all", "effect": "allow"}
    rule = access_rule({**whose, "resource_type": "topic", "name": "other"})
    talk = Talk(replace(state(moved()), rights=Rights((), (rule,))), Port("west", 1))
    talk.ask(PRODUCE, 9, produce(*REPEATED))
    assert outcomes(talk) == [("orders", int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), -1)]


def test_the_broker_decides_about_an_unmoved_topic() -> None:
    talk, sent = Talk(state()), produce(*REPEATED)
    asked = talk.forwarded(PRODUCE, 9, sent, to=EAST)
    assert asked.body["topic_data"] == sent["topic_data"]
