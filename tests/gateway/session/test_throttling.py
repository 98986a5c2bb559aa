"""Quotas of one connection, played without I/O."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.quotas.charges import Meters
from gateway.session.commands import Cause
from gateway.session.throttling import MUTE_S
from ha_core.model import Fence, Topic, View
from ha_core.model.quota import QuotaEntity, QuotaKind
from ha_core.plan.access.quotas import Quotas
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, PRODUCE, fetch, fetched, limited, moved, produce, produced, state
from tests.gateway.session.talk import CLUSTERS, EAST, Talk, snapshot, topology

METADATA = 3
ALICE = QuotaEntity(user="alice")
BYTES = 10_000
"""Bytes of one request's records."""


def records(size: int = BYTES) -> bytes:
    return batch(payload=b"x" * size)


def write(talk: Talk, version: int = 9, size: int = BYTES, topic: str = "orders", **more: Any) -> None:
    talk.ask(PRODUCE, version, produce((topic, 0, records(size)), **more))


def acknowledge(talk: Talk, topic: str = "orders") -> None:
    talk.broker_answers(EAST, produced((topic, 0, 0, 41)))


def use_up(talk: Talk, version: int = 9) -> None:
    """Nearly ten seconds' worth of a quota of 10,000 bytes a second."""
    for _ in range(9):
        write(talk, version)
        acknowledge(talk)
    assert [answer["throttle_time_ms"] for answer in talk.answers()] == [0] * 9
    assert not talk.session.paused


def test_a_produce_above_the_quota_is_forwarded_first_and_answered_with_the_throttle_time() -> None:
    # Given a user who has used the whole quota
    talk = Talk(limited(produce=BYTES))
    use_up(talk)
    # When the user writes more
    write(talk, size=20_000)
    # Then the write goes to the broker, and its answer to the client at once
    acknowledge(talk)
    (answer,) = talk.answers()
    assert answer["responses"][0]["partition_responses"][0]["base_offset"] == 41
    # with the time for which nothing more is read
    assert answer["throttle_time_ms"] == pytest.approx(1000, rel=0.15)
    assert talk.session.paused
    assert talk.woken[-1] - talk.now == pytest.approx(answer["throttle_time_ms"] / 1000, abs=0.001)


@pytest.mark.parametrize("version", range(4, 13))
def test_a_fetch_above_the_quota_has_the_throttle_time_in_its_head(version: int) -> None:
    # Given a quota of which ten seconds are used
    talk = Talk(limited(fetch=BYTES))
    asked = talk.forwarded(FETCH, version, fetch(("orders", 0, 0)), to=EAST)
    # When more is read
    sent = fetched(("orders", 0, 7, records(120_000)))
    talk.answer(EAST, asked, sent)
    # Then only a client of before KIP-219, which does not wait by itself, gets its answer later
    if version < 8:
        assert talk.answers() == []
        talk.wait(2.5)
    else:
        assert talk.session.paused
    # And the records are unchanged
    (answer,) = talk.answers()
    assert answer["throttle_time_ms"] == pytest.approx(2_000, rel=0.02)
    assert answer["responses"][0]["partitions"][0]["records"] == sent["responses"][0]["partitions"][0]["records"]


@pytest.mark.parametrize("version", [3, 5])
def test_a_client_that_does_not_wait_by_itself_gets_its_answer_when_the_time_is_over(version: int) -> None:
    # Given a client of before KIP-219
    talk = Talk(limited(produce=BYTES))
    use_up(talk, version)
    # When it exceeds its quota
    write(talk, version, size=20_000)
    acknowledge(talk)
    # Then its answer is held
    assert talk.answers() == []
    talk.wait(0.5)
    assert talk.answers() == []
    talk.wait(0.7)
    (answer,) = talk.answers()
    assert answer["throttle_time_ms"] > 900


def test_no_operation_waits_for_a_held_answer() -> None:
    # Given an answer that is held for its client
    base = limited(produce=BYTES)
    talk = Talk(base)
    use_up(talk, 5)
    write(talk, 5, size=20_000)
    acknowledge(talk)
    # When a fence is published
    fenced = Topic(name="orders", writer="east", fence=Fence(operation="op-1"))
    view = View(2, CLUSTERS, topics={"orders": fenced})
    talk.follow(limited(snapshot(view, topology(east={"orders": {0: 1}})), produce=BYTES))
    # Then no request of it is in flight
    assert not talk.session.holds_back(frozenset({b"orders"}), frozenset(), 2)
    assert not talk.session.busy


def test_each_request_pipelined_after_a_throttled_one_waits_for_its_turn() -> None:
    # Given a client that has used up its quota
    talk = Talk(limited(produce=BYTES))
    use_up(talk)
    # When it sends three requests of a second each
    for _ in range(3):
        write(talk, size=20_000)
    # Then one is handled at a time, as on a broker
    assert len(talk.asked(EAST)) == 1
    talk.wait(1.3)
    assert len(talk.asked(EAST)) == 1
    talk.wait(3.0)
    assert len(talk.asked(EAST)) == 1


def test_no_client_is_muted_for_longer_than_its_requests_live() -> None:
    # Given a client that uses half a minute's worth at once
    talk = Talk(limited(produce=BYTES))
    write(talk, size=400_000)
    acknowledge(talk)
    # Then its answer has that throttle time
    assert talk.answers()[0]["throttle_time_ms"] == pytest.approx(30_000, rel=0.02)
    # When it does not wait, it is read again soon enough
    write(talk)
    assert not talk.asked(EAST)
    talk.wait(MUTE_S + 0.01)
    acknowledge(talk)
    # and gets the remaining debt, equal to a broker's
    assert talk.answers()[0]["throttle_time_ms"] == pytest.approx(31_000, rel=0.02)
    # also when a broker has forgotten it
    talk.wait(12.0)
    write(talk)
    acknowledge(talk)
    assert talk.answers()[0]["throttle_time_ms"] == pytest.approx(15_000, rel=0.02)


def test_a_produce_without_an_answer_is_charged_and_throttled_too() -> None:
    talk = Talk(limited(produce=BYTES))
    write(talk, size=120_000, acks=0)
    assert talk.session.paused
    talk.wait(3.0)
    assert not talk.session.paused


@pytest.mark.parametrize("version", [4, 12])
def test_the_answer_may_come_byte_by_byte(version: int) -> None:
    talk = Talk(limited(fetch=BYTES), chunks=lambda data: [data[at : at + 1] for at in range(len(data))])
    asked = talk.forwarded(FETCH, version, fetch(("orders", 0, 0)), to=EAST)
    talk.answer(EAST, asked, fetched(("orders", 0, 7, records(500))))
    (answer,) = talk.answers()
    assert answer["throttle_time_ms"] == 0


def test_a_fetch_gets_at_most_ten_seconds_of_its_quota() -> None:
    talk = Talk(limited(fetch=BYTES))
    asked = talk.forwarded(FETCH, 11, fetch(("orders", 0, 0)), to=EAST)
    assert asked.body["max_bytes"] == 10 * BYTES
    # and so does one of a mapped topic
    talk = Talk(limited(state(moved()), fetch=BYTES))
    asked = talk.forwarded(FETCH, 11, fetch(("orders", 0, 0)), to=EAST)
    assert asked.body["max_bytes"] <= 10 * BYTES


def test_a_topic_with_a_quota_of_its_own_counts_for_no_other() -> None:
    # Given a small quota in one topic, and a large one of the user
    own, other = QuotaEntity("anonymous", None, "orders"), QuotaEntity("anonymous")
    quotas = Quotas({own: {QuotaKind.PRODUCE: BYTES}, other: {QuotaKind.PRODUCE: 100 * BYTES}})
    meters = Meters()
    talk = Talk(replace(state(), quotas=quotas), meters=meters)
    # When both are written to in one request
    talk.ask(PRODUCE, 9, produce(("orders", 0, records(110_000)), ("other", 0, records(200_000))))
    # Then each is charged for its own part
    used = {charge.scope.topic: charge.meter.used_s * charge.bound for charge in meters.kept()}
    assert used["orders"] == pytest.approx(110_000, rel=0.01)
    assert used[None] == pytest.approx(200_000, rel=0.01)
    # and the small one makes the client wait
    assert talk.session.paused


def test_bytes_of_several_topics_in_one_fetch_are_charged_separately() -> None:
    # Given quotas in two topics
    entities = [QuotaEntity("anonymous", None, topic) for topic in ("orders", "other")]
    meters = Meters()
    talk = Talk(
        replace(state(), quotas=Quotas({entity: {QuotaKind.FETCH: BYTES} for entity in entities})), meters=meters
    )
    # When both are read at once
    asked = talk.forwarded(FETCH, 11, fetch(("orders", 0, 0), ("other", 0, 0)), to=EAST)
    talk.answer(EAST, asked, fetched(("orders", 0, 7, records(30_000)), ("other", 0, 7, records(150_000))))
    # Then each is charged for its own, and the client waits for the one that is used up
    used = {charge.scope.topic: charge.meter.used_s * charge.bound for charge in meters.kept()}
    assert used == {"orders": pytest.approx(30_000, rel=0.01), "other": pytest.approx(150_000, rel=0.01)}
    assert talk.session.paused
    # and gets the throttle time with the next answer
    talk.answers()
    talk.wait(1.0)
    assert talk.session.paused
    talk.wait(4.1)
    assert not talk.session.paused


def test_a_removed_quota_ends_its_waits() -> None:
    talk = Talk(limited(produce=BYTES))
    write(talk, size=200_000)
    assert talk.session.paused
    talk.follow(state())
    assert not talk.session.paused
    write(talk, size=200_000)
    assert not talk.session.paused


def test_request_time_is_charged_and_waits_are_a_second_at_most() -> None:
    # Given a hundredth of a thread's time
    talk = Talk(limited(request=1.0))
    talk.ask(PRODUCE, 9, produce(("orders", 0, records())))
    talk.answers()
    # When the gateway has worked for three seconds for this client
    talk.session.throttling.unpaid_s = 3.0
    acknowledge(talk)
    # Then it waits, as on a broker
    assert talk.answers()[0]["throttle_time_ms"] == 1000
    assert talk.session.paused
    talk.wait(1.01)
    assert not talk.session.paused


def test_a_new_connection_continues_with_the_old_debt() -> None:
    # Given a client that has used its quota
    meters = Meters()
    talk = Talk(limited(produce=BYTES), meters=meters)
    write(talk, size=150_000)
    # When it connects again
    del talk
    again = Talk(limited(produce=BYTES), meters=meters)
    write(again, size=1)
    # Then it still has to wait
    assert again.session.paused


def test_without_quotas_nothing_is_counted() -> None:
    meters = Meters()
    talk = Talk(replace(state(), quotas=Quotas({ALICE: {QuotaKind.PRODUCE: 1.0}})), meters=meters)
    write(talk, size=500_000)
    acknowledge(talk)
    assert talk.answers()[0]["throttle_time_ms"] == 0
    assert not len(meters)
    assert talk.closed is None


def test_a_throttled_client_that_leaves_is_released() -> None:
    talk = Talk(limited(produce=BYTES))
    write(talk, size=200_000)
    acknowledge(talk)
    talk.take(talk.session.client_left(talk.now))
    assert talk.cause is Cause.CLIENT_LEFT
