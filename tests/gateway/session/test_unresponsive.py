"""A reader of two clusters does not wait for the old one when that is unresponsive."""

from dataclasses import replace

from gateway.session.commands import Refresh
from gateway.session.refusal import MAX_HOLD_S
from gateway.session.snapshot import Port, Snapshot
from ha_core.model import Fence, Topic
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, PRODUCE, entry, fetch, fetched, moved, produce, state
from tests.gateway.session.talk import EAST, WEST, Talk


def without_east() -> Snapshot:
    """As found by the gateway's survey."""
    reached: Snapshot = state(moved(100, 7))
    clusters = dict(reached.topology.clusters)
    clusters["east"] = replace(clusters["east"], reachable=False)
    return replace(reached, topology=replace(reached.topology, clusters=clusters))


def reader() -> Talk:
    """It lags in the east with one topic, and is up to date in the west with another one."""
    talk = Talk(state(moved(100, 7)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 50), ("other", 0, 3)))
    return talk


def test_the_answer_of_a_healthy_cluster_does_not_wait_for_an_unresponsive_one() -> None:
    # Given a connection to the east that was cut without a RST
    talk = reader()
    talk.asked(EAST)
    talk.broker_answers(WEST, fetched(("other", 0, 9, batch(3))))
    assert not talk.answers()
    # When its answer is late, the clusters are surveyed again
    talk.wait(2.6)
    assert Refresh() in talk.others
    assert not talk.answers()
    # And when the east is unreachable, the reader gets the other records, and asks for the rest again
    talk.follow(without_east())
    talk.wait(0.1)
    (answer,) = talk.answers()
    assert (entry(answer)["error_code"], entry(answer)["records"]) == (0, b"")
    assert answer["responses"][1]["partitions"][0]["records"]
    assert talk.closed is None


def test_a_slow_cluster_is_awaited_however_long_it_takes() -> None:
    talk = reader()
    (east,) = talk.asked(EAST)
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("other", 0, 9, b"")))
    for _ in range(10):
        talk.wait(2.6)
    talk.answer(EAST, east, fetched(("orders", 0, 100, batch(50))))
    assert entry(talk.answers()[0])["records"] == batch(50, leader_epoch=-1)


def test_a_late_answer_is_dropped_and_the_next_one_is_not() -> None:
    # Given half an answer of the east, which is unresponsive then
    talk = reader()
    (east,) = talk.asked(EAST)
    talk.answer(WEST, talk.asked(WEST)[0], fetched(("other", 0, 9, b"")))
    late = fetched(("orders", 0, 100, batch(50)))
    talk.chunks = lambda data: [data[:40]]
    talk.answer(EAST, east, late)
    talk.chunks = lambda data: [data]
    talk.follow(without_east())
    talk.wait(0.1)
    assert len(talk.answers()) == 1
    # When it is back, and asked again on the same connection
    talk.follow(state(moved(100, 7), revision=1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 60)))
    talk.chunks = lambda data: [data[40:]]
    talk.answer(EAST, east, late)
    talk.chunks = lambda data: [data]
    talk.answer(EAST, talk.asked(EAST)[0], fetched(("orders", 0, 100, batch(60))))
    # Then the client gets the records that it asked for last
    (answer,) = talk.answers()
    assert entry(answer)["records"] == batch(60, leader_epoch=-1)


def test_an_earlier_due_time_is_not_lost_when_a_later_one_is_added() -> None:
    # Given a refusal that is held for its fence
    fenced = Topic(name="other", fence=Fence(operation="op-1"))
    talk = Talk(state(moved(100, 7), fenced), Port("west", 1))
    talk.ask(PRODUCE, 9, produce(("other", 0, batch())))
    assert talk.woken == [100 + MAX_HOLD_S]
    # When a read follows that may take longer
    talk.ask(FETCH, 12, fetch(("orders", 0, 50)))
    # Then the driver, which keeps only the newest time, gets the first one again
    assert talk.woken == [100 + MAX_HOLD_S] * 2
