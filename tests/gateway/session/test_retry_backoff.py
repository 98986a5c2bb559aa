"""Delay of refusals: none as long as a client may only be late, longer ones for a client that retries in a loop."""

from gateway.session.retry_backoff import AT_ONCE, DELAYS_S
from gateway.session.snapshot import Port
from ha_core.model import Fence, Topic
from ha_core.wire import ErrorCode
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import PRODUCE, entry, moved, produce, produced, state
from tests.gateway.session.talk import EAST, WEST, Talk


def refused_at_once(talk: Talk, topic: str = "orders", partition: int = 0) -> bool:
    talk.ask(PRODUCE, 9, produce((topic, partition, batch())))
    found = talk.answers()
    if not found:
        talk.wait(DELAYS_S[-1])
        (answer,) = talk.answers()
        assert entry(answer)["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    return bool(found)


def test_a_producers_batches_in_flight_at_a_cut_are_refused_at_once_so_that_they_come_again_in_order() -> None:
    # Given a producer with requests in flight to the old cluster
    talk = Talk(state(), Port("east", 1))
    talk.follow(state(moved(), revision=2))
    # When they are refused one after the other, none waits for the one before
    assert [refused_at_once(talk) for _ in range(AT_ONCE)] == [True] * AT_ONCE
    # Then only a client that retries in a loop has to wait, longer each time
    for delay_s in DELAYS_S:
        talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
        talk.wait(delay_s * 0.9)
        assert not talk.answers()
        talk.wait(delay_s * 0.2)
        assert len(talk.answers()) == 1


def test_a_partition_that_is_requested_in_a_loop_delays_no_other() -> None:
    talk = Talk(state(moved(), moved().model_copy(update={"name": "other"})), Port("east", 1))
    for _ in range(AT_ONCE + 1):
        last = refused_at_once(talk)
    assert not last
    assert refused_at_once(talk, partition=1)
    assert refused_at_once(talk, "other")


def test_a_forwarded_produce_ends_a_row_of_refusals_for_mapped_topics_as_well() -> None:
    # Given a topic that was moved to this cluster, and a row of refusals for a fence that stood too long
    fenced = moved(100, 7, fence=Fence(operation="op-1"))
    talk = Talk(state(moved(100, 7)), Port("west", 1))
    for number in range(2, AT_ONCE + 4):
        # When refusals and successes follow each other, in one view as in another
        talk.lease.valid_until = 0.0
        assert refused_at_once(talk), number
        talk.lease.valid_until = 1e9
        asked = talk.forwarded(PRODUCE, 9, produce(("orders", 0, batch())), to=WEST)
        talk.answer(WEST, asked, produced(("orders", 0, 0, 7)))
        assert entry(talk.answers()[0])["base_offset"] == 100
    # Then a refusal is still sent at once, also after a fence has come and gone
    talk.follow(state(fenced, revision=3))
    talk.follow(state(moved(100, 7), revision=4))
    talk.lease.valid_until = 0.0
    assert refused_at_once(talk)


def test_a_new_view_ends_the_row_of_refusals() -> None:
    talk = Talk(state(moved()), Port("east", 1))
    while refused_at_once(talk):
        pass
    talk.follow(state(moved(), Topic(name="other"), revision=2))
    assert refused_at_once(talk)


def test_forwarded_requests_of_the_same_kind_end_the_row_too() -> None:
    talk = Talk(state(), Port("east", 1), lease=False)
    while refused_at_once(talk):
        pass
    talk.lease.valid_until = 1e9
    asked = talk.forwarded(PRODUCE, 9, produce(("orders", 0, batch())), to=EAST)
    talk.answer(EAST, asked, produced(("orders", 0, 0, 7)))
    talk.answers()
    talk.lease.valid_until = 0.0
    assert refused_at_once(talk)
