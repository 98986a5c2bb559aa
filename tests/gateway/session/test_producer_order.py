"""After a refused batch, its producer's later ones wait for it, however they were pipelined."""

import gc
import random
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.session.produce.judgement import ProduceJudgement
from gateway.session.produce.producer_order import FORGET_S, MAX_UNDER_WAY, ProducerOrder, ProducerOrders
from gateway.session.snapshot import Port
from ha_core.model import Fence, Topic
from ha_core.model.producer import upstream_id
from ha_core.wire import ErrorCode
from ha_core.wire.records import Batch, batches
from tests.gateway.session.batch import batch
from tests.gateway.session.crossings import arrived, outcome, records, settled
from tests.gateway.session.crossings import ask as cross
from tests.gateway.session.crossings import topic as crossing_topic
from tests.gateway.session.messages import CLIENT_PID, PRODUCE, entry, moved, produce, produced, state
from tests.gateway.session.talk import EAST, WEST, Asked, Talk

REFUSED = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def ask(talk: Talk, sequence: int, *, epoch: int = 0, producer_id: int = CLIENT_PID, topic: str = "orders") -> None:
    talk.ask(PRODUCE, 9, produce((topic, 0, batch(producer_id=producer_id, epoch=epoch, sequence=sequence))))


def codes(talk: Talk, topic: str = "orders") -> list[int]:
    """Brokers append all batches that reached them; the error code of every request that was answered."""
    for asked in talk.asked(EAST):
        talk.answer(EAST, asked, produced((topic, 0, 0, 7)))
    talk.wait(0.25)
    return [entry(answer)["error_code"] for answer in talk.answers()]


def without_lease(*sequences: int, chunked: bool = False) -> Talk:
    """A gateway without its lease has refused these, and has regained its lease."""
    talk = Talk(state(), lease=False, chunks=bytewise if chunked else whole)
    for sequence in sequences:
        ask(talk, sequence)
    assert codes(talk) == [REFUSED] * len(sequences)
    talk.lease.valid_until = 1e9
    return talk


def whole(data: bytes) -> list[bytes]:
    return [data]


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


@pytest.mark.parametrize("chunked", [False, True])
def test_batches_pipelined_after_a_refused_one_are_refused_until_that_one_comes_again(chunked: bool) -> None:
    # Given 5 was refused for want of a lease, and 6 and 7 are read when the lease is regained
    talk = without_lease(5, chunked=chunked)
    ask(talk, 6)
    ask(talk, 7)
    # Then the broker sees neither: it would call 6 out of order, and librdkafka would resend batches that are in the
    # log
    assert codes(talk) == [REFUSED, REFUSED]
    # When the client sends them again in order, all pass
    for sequence in (5, 6, 7):
        ask(talk, sequence)
    assert codes(talk) == [0, 0, 0]


def test_a_fence_that_was_undone_lets_no_batch_overtake_a_refused_one() -> None:
    talk = Talk(state(Topic(name="orders", fence=Fence(operation="op-1"))))
    ask(talk, 5)
    talk.follow(state(revision=2))
    ask(talk, 6)
    ask(talk, 5)
    ask(talk, 6)
    assert codes(talk) == [REFUSED, REFUSED, 0, 0]


def test_sequences_continue_from_zero_after_their_highest_value() -> None:
    talk = without_lease((1 << 31) - 1)
    ask(talk, 0)
    ask(talk, (1 << 31) - 1)
    ask(talk, 0)
    assert codes(talk) == [REFUSED, 0, 0]


def test_a_new_epoch_a_new_producer_and_another_topic_do_not_wait() -> None:
    talk = without_lease(5)
    ask(talk, 9, producer_id=CLIENT_PID + 1)
    ask(talk, 0, producer_id=-1, epoch=-1)
    ask(talk, 0, epoch=1)
    assert codes(talk) == [0, 0, 0]
    ask(talk, 9, topic="other")
    assert codes(talk, "other") == [0]


def test_a_batch_whose_client_went_elsewhere_is_awaited_only_for_some_seconds() -> None:
    talk = without_lease(5)
    talk.now += FORGET_S + 0.1
    ask(talk, 9)
    assert codes(talk) == [0]


def behind_a_late_answer(orders: ProducerOrders | None = None) -> Talk:
    """The refusal of 5 waits for its turn after an answer that its broker owes; its fence is lifted, and time has
    passed."""
    talk = Talk(state(Topic(name="orders", fence=Fence(operation="op-1"))), producer_orders=orders)
    ask(talk, 30, topic="other")
    ask(talk, 5)
    talk.follow(state(revision=2))
    talk.wait(FORGET_S + 1)
    assert not talk.answers()
    return talk


def test_a_batch_is_awaited_as_long_as_its_client_cannot_know_of_the_refusal() -> None:
    talk = behind_a_late_answer()
    # When the client sends the next one, unaware of the refusal, then it waits for the first
    ask(talk, 6)
    talk.broker_answers(EAST, produced(("other", 0, 0, 7)))
    talk.wait(0.25)
    assert [entry(answer)["error_code"] for answer in talk.answers()] == [0, REFUSED, REFUSED]
    # And for some seconds more from then on
    talk.now += FORGET_S - 0.5
    ask(talk, 7)
    for sequence in (5, 6, 7):
        ask(talk, sequence)
    assert codes(talk) == [REFUSED, 0, 0, 0]


@pytest.mark.parametrize("end", ["client left", "connection closed", "cut off"])
def test_a_refusal_that_cannot_be_delivered_is_awaited_only_for_some_seconds(end: str) -> None:
    orders = ProducerOrders()
    talk = behind_a_late_answer(orders)
    if end == "client left":
        talk.take(talk.session.client_left(talk.now))
    elif end == "connection closed":
        talk.session.in_flight.refusals_delivered(talk.now)
    else:
        talk.take(talk.session.give_up("east", talk.now))
    other = Talk(state(revision=2), producer_orders=orders)
    other.now = talk.now + FORGET_S + 0.1
    ask(other, 9)
    assert codes(other) == [0]


def test_a_refusal_whose_answer_was_lost_with_a_broker_is_awaited_only_for_some_seconds() -> None:
    # Given a request of which a part is refused, and another part is with a broker that dies
    orders = ProducerOrders()
    talk = Talk(state(Topic(name="orders", fence=Fence(operation="op-1"))), producer_orders=orders)
    body = produce(
        ("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=5)),
        ("other", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=3)),
    )
    talk.ask(PRODUCE, 9, body)
    talk.lose(EAST)
    # Then later batches over another connection wait, but not for long
    other = Talk(state(revision=2), producer_orders=orders)
    ask(other, 9)
    assert codes(other) == [REFUSED]
    other.now += FORGET_S
    ask(other, 9)
    assert codes(other) == [0]


def test_only_a_batch_that_holds_several_refused_ones_is_awaited() -> None:
    talk = without_lease(5, 6, 7)
    whole = batch(count=3, producer_id=CLIENT_PID, epoch=0, sequence=5)
    talk.ask(PRODUCE, 9, produce(("orders", 0, whole)))
    ask(talk, 8)
    assert codes(talk) == [0, 0]


def test_a_late_batch_of_an_older_epoch_lets_no_batch_overtake() -> None:
    # Given the first batch of a new epoch was refused
    talk = Talk(state(), lease=False)
    ask(talk, 0, epoch=1)
    assert codes(talk) == [REFUSED]
    talk.lease.valid_until = 1e9
    # When one of the epoch before comes over another connection, it is for the broker to refuse
    ask(talk, 7, epoch=0)
    assert codes(talk) == [0]
    # Then the second of the new epoch still waits for the first
    ask(talk, 1, epoch=1)
    ask(talk, 0, epoch=1)
    ask(talk, 1, epoch=1)
    assert codes(talk) == [REFUSED, 0, 0]


def test_a_request_with_many_partitions_loses_only_the_one_that_overtakes() -> None:
    talk = without_lease(5)
    body = produce(
        ("orders", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=6)),
        ("other", 0, batch(producer_id=CLIENT_PID, epoch=0, sequence=3)),
    )
    asked = talk.forwarded(PRODUCE, 9, body, to=EAST)
    assert asked.topics == ["other"]
    talk.answer(EAST, asked, produced(("other", 0, 0, 7)))
    (answer,) = talk.answers()
    found = {topic["name"]: topic["partition_responses"][0]["error_code"] for topic in answer["responses"]}
    assert found == {"orders": REFUSED, "other": 0}


def test_a_moved_topic_waits_as_well_and_its_batches_are_renamed_only_when_they_pass() -> None:
    talk = Talk(state(moved(0), revision=1), Port("west", 1), lease=False)
    ask(talk, 5)
    assert codes(talk) == [REFUSED]
    talk.lease.valid_until = 1e9
    for sequence in (6, 5, 6):
        ask(talk, sequence)
    passed = [batch_of(asked) for asked in talk.asked(WEST)]
    assert [(one.producer_id, one.base_sequence) for one in passed] == [
        (upstream_id(CLIENT_PID, 1), 5),
        (upstream_id(CLIENT_PID, 1), 6),
    ]


def batch_of(asked: Asked) -> Batch:
    records = asked.records
    (found,) = batches(records, 0, len(records))
    return found


def test_a_batch_whose_connection_broke_across_a_cut_is_accepted_at_once_when_it_comes_again() -> None:
    # Given two pipelined batches in flight across a cut, whose broker dies; meanwhile the crossing ends
    talk = Talk(state(crossing_topic()))
    for sequence in (0, 1):
        cross(talk, records(sequence))
    talk.lose(EAST)
    other = Talk(settled(), Port("west", 1), producer_orders=talk.session.context.shared.producer_orders)
    # When the second comes first, it waits: the target would take it for the beginning
    cross(other, records(1))
    assert outcome(other) == [(REFUSED, -1)]
    # And when their client sends both again in order, neither waits for the dead connection
    for sequence in (0, 1):
        cross(other, records(sequence))
    assert [batch.base_sequence for _, batch in arrived(other, WEST)] == [0, 1]


def talks_of(*users: str, orders: ProducerOrders, known: Any = None, at: str = "east") -> Iterator[Talk]:
    """A connection of each user to one gateway, at the port of a cluster's broker."""
    for user in users:
        talk = Talk(known or state(), Port(at, 1), producer_orders=orders)
        talk.session.client.recognise(user)
        yield talk


def test_a_refused_batch_of_one_user_holds_up_no_other_users_producer() -> None:
    # Given a batch that was refused, which carries the producer id of another user
    orders = ProducerOrders()
    stranger, again, victim = talks_of("stranger", "stranger", "victim", orders=orders)
    stranger.lease.valid_until = 0.0
    ask(stranger, 0)
    assert codes(stranger) == [REFUSED]
    # Then later batches of that id wait for it at each connection of that user, and at none of the other user
    ask(again, 5)
    ask(victim, 5)
    assert codes(again) == [REFUSED]
    assert codes(victim) == [0]
    # Nor does the other user's batch end the wait for it
    ask(victim, 0)
    ask(again, 6)
    assert codes(victim) == [0]
    assert codes(again) == [REFUSED]


def test_a_batch_of_one_user_in_flight_across_a_cut_holds_up_no_other_users_producer() -> None:
    orders = ProducerOrders()
    (stranger,) = talks_of("stranger", orders=orders, known=state(crossing_topic()))
    cross(stranger, records(0))
    other, victim = talks_of("stranger", "victim", orders=orders, known=settled(), at="west")
    for talk in (other, victim):
        cross(talk, records(1))
    assert outcome(other) == [(REFUSED, -1)]
    assert [batch.base_sequence for _, batch in arrived(victim, WEST)] == [1]


def test_a_batch_refused_by_a_port_without_a_broker_is_not_awaited() -> None:
    orders = ProducerOrders()
    lost, producer = Talk(state(), Port(), producer_orders=orders), Talk(state(), producer_orders=orders)
    ask(lost, 0)
    assert codes(lost) == [REFUSED]
    ask(producer, 5)
    assert codes(producer) == [0]
    # Nor does one that comes by such a port end the wait for it
    (refused,) = talks_of("app", orders=orders)
    lost.session.client.recognise("app")
    refused.lease.valid_until = 0.0
    ask(refused, 5)
    assert codes(refused) == [REFUSED]
    ask(lost, 5)
    assert codes(lost) == [REFUSED]
    refused.lease.valid_until = 1e9
    ask(refused, 6)
    assert codes(refused) == [REFUSED]


def test_a_refused_batch_is_awaited_when_its_user_has_no_connection_left() -> None:
    orders = ProducerOrders()
    (talk,) = talks_of("app", orders=orders)
    talk.lease.valid_until = 0.0
    ask(talk, 5)
    assert codes(talk) == [REFUSED]
    del talk
    gc.collect()
    (talk,) = talks_of("app", orders=orders)
    ask(talk, 6)
    assert codes(talk) == [REFUSED]


def test_users_without_awaited_batches_are_forgotten() -> None:
    orders = ProducerOrders()
    for number in range(10):
        (talk,) = talks_of(f"user-{number}", orders=orders)
        talk.lease.valid_until = 0.0
        ask(talk, 5)
        assert codes(talk) == [REFUSED]
        cross(talk, records(0))
    # When their time is over and another one comes
    later, seen = talk.now + 1000.0, weakref.WeakSet(orders._waiting)
    assert len(seen) == 10
    del talk
    orders.of("late", later)
    gc.collect()
    assert not seen


def test_an_awaited_batch_in_one_topic_causes_no_look_at_another(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given a producer of one topic, and one of another in which a batch was refused
    talk = without_lease(5)
    judged: list[ProduceJudgement] = []

    def judge(verdict: ProduceJudgement, *arguments: Any, way: Any = ProduceJudgement.judge) -> None:
        judged.append(verdict)
        way(verdict, *arguments)

    monkeypatch.setattr(ProduceJudgement, "judge", judge)
    for sequence in range(3):
        ask(talk, sequence, producer_id=CLIENT_PID + 1, topic="other")
    # Then the batches of the first are forwarded without examination
    assert codes(talk, "other") == [0, 0, 0]
    assert not judged
    # and those of the second are examined, until all refused ones have come
    for sequence in (6, 5, 6):
        ask(talk, sequence)
    assert codes(talk) == [REFUSED, 0, 0]
    assert len(judged) == 3
    assert not talk.session.client.producer_order.topics


def test_the_set_of_topics_with_awaited_batches_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given batches that are refused, come again and are forgotten in any order, and little room for them
    monkeypatch.setattr("gateway.session.produce.producer_order.MAX_REMEMBERED", 6)
    order, chance, now = ProducerOrder(set()), random.Random(1), 0.0
    for _ in range(3000):
        key, now = (chance.choice([b"a", b"b", b"c"]), chance.randrange(3)), now + chance.choice([0.0, 0.1, 3.0])
        data = batch(producer_id=chance.randrange(3), epoch=chance.randrange(2), sequence=chance.randrange(9))
        (one,) = batches(data, 0, len(data))
        if chance.random() < 0.5:
            order.admit(key, one, now)
        elif (refused := order.refused(key, one, now)) is not None:
            order.delivered([refused], now)
        watched = order.watches([key[0]], now)
        # Then the set has exactly the topics with awaited batches
        assert order.topics == Counter(topic for (topic, _), _ in order.waited_for)
        assert watched == any(topic == key[0] for (topic, _), _ in order.waited_for)


def test_impossible_topic_names_are_not_kept() -> None:
    talk = Talk(state(), lease=False)
    for number in range(20):
        talk.ask(PRODUCE, 9, produce((f"{number}" + "x" * 30_000, 0, batch(producer_id=CLIENT_PID, sequence=number))))
    assert not talk.session.client.producer_order.waited_for


def test_only_the_process_that_refused_a_batch_knows_the_order() -> None:
    """So connections of one client must not be spread over processes, as by the kernel at a shared port."""
    # Given a fence that was undone, and two connections of one client in two processes that share nothing
    fenced = state(Topic(name="orders", fence=Fence(operation="op-1")))
    refusing, other = Talk(fenced), Talk(fenced)
    ask(refusing, 5)
    for talk in (refusing, other):
        talk.follow(state(revision=2))
    # When the next batch comes over the second connection
    ask(other, 6)
    # Then it overtakes the one that was refused at the first
    assert codes(other) == [0]
    # While at one process it waits, whichever connection it comes over
    orders = ProducerOrders()
    refusing, other = Talk(fenced, producer_orders=orders), Talk(fenced, producer_orders=orders)
    ask(refusing, 5)
    for talk in (refusing, other):
        talk.follow(state(revision=2))
    ask(other, 6)
    assert codes(other) == [REFUSED]


def test_the_latest_refused_batches_of_very_many_producers_are_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.session.produce.producer_order.MAX_REMEMBERED", 6)
    order, key = ProducerOrder(set()), (b"orders", 0)
    # Given more producers than are remembered, each of which has a batch refused
    for producer_id in range(50):
        (one,) = batches(data := batch(producer_id=producer_id, epoch=0, sequence=5), 0, len(data))
        order.refused(key, one, 0.0)
    # Then the last ones are kept in order, and the first ones no longer
    waiting = []
    for producer_id in range(50):
        (later,) = batches(data := batch(producer_id=producer_id, epoch=0, sequence=6), 0, len(data))
        waiting.append(order.waits(key, later, 1.0))
    assert waiting == [False] * 44 + [True] * 6
    assert order.topics == {b"orders": 6}


def test_only_the_latest_unacknowledged_dispatches_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.session.produce.producer_order.MAX_REMEMBERED", 6)
    order, key = ProducerOrder(set()), (b"orders", 0)

    def depart(producer_id: int, sequence: int) -> Batch:
        data = batch(producer_id=producer_id, epoch=0, sequence=sequence)
        (one,) = batches(data, 0, len(data))
        order.dispatched(key, one, 0.0)
        return one

    # Given a producer whose connection breaks with each batch, within some seconds
    for sequence in range(1000):
        last = depart(1, sequence)
    # Then little of it is kept, the latest first of all
    assert order.is_under_way(key, last)
    assert len(order.under_way[key, 1]) == MAX_UNDER_WAY
    # And little of many such producers as well
    for producer_id in range(2, 50):
        last = depart(producer_id, 0)
    assert order.is_under_way(key, last)
    assert len(order.under_way) == 6
