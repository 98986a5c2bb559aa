"""Requests to a cluster that an operation has taken for dead end without an answer, and hold the operation up no
more."""

from collections.abc import Callable

import pytest

from gateway.session.commands import Cause, Close, Drop, Refresh
from gateway.session.lifecycle import Over
from gateway.session.snapshot import Port, Snapshot, fences
from ha_core.model import Fence, Group, Topic, View
from ha_core.model.extent import identity
from tests.gateway.session import crossings
from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import COMMIT, bound, commit
from tests.gateway.session.crossings import BASE, CUT, TARGET_LANE
from tests.gateway.session.messages import FETCH, LARGE, PRODUCE, fetch, fetched, half, moved, produce, produced, state
from tests.gateway.session.talk import CLUSTERS, EAST, WEST, Talk

FENCE = Fence(operation="op-1", taken_for_dead="east")
FENCED = Topic(name="orders", fence=FENCE)
METADATA = 3
OF_NO_TOPIC = {
    "topics": [],
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}


def fenced(revision: int = 2) -> Snapshot:
    snapshot: Snapshot = state(FENCED, revision=revision)
    return snapshot


def holds_back(talk: Talk) -> bool:
    (scope,) = talk.session.context.snapshot.fences.scopes.values()
    return talk.session.holds_back(scope.topics, scope.groups, 2, scope.quiet, scope.taken_for_dead)


def give_up(talk: Talk) -> None:
    talk.take(talk.session.give_up("east", talk.now))


def whole(talk: Talk) -> None:
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))


def without_an_answer(talk: Talk) -> None:
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch()), acks=0))


def half_sent(talk: Talk) -> None:
    half(talk, ("orders", 0, LARGE), acks=-1)


@pytest.mark.parametrize("sent", [whole, without_an_answer, half_sent])
def test_a_write_to_a_broker_that_hangs_ends_with_its_connection_and_without_an_answer(
    sent: Callable[[Talk], None],
) -> None:
    # Given a write in flight to a broker that does not answer, when its topic is fenced by a forced operation
    talk = Talk(state())
    sent(talk)
    talk.follow(fenced())
    assert holds_back(talk)
    # When the cluster is given up
    give_up(talk)
    # Then the broker's connection ends, and the client's, without an answer, and the clusters are surveyed again
    assert Drop(EAST) in talk.others
    assert talk.cause is Cause.TAKEN_FOR_DEAD
    assert talk.answers() == []
    assert Refresh() in talk.others


def test_a_late_success_of_a_broker_that_was_given_up_reaches_no_client() -> None:
    talk = Talk(state())
    whole(talk)
    (asked,) = talk.asked(EAST)
    talk.follow(fenced())
    give_up(talk)
    # When it resumes, and answers requests from before the fence
    talk.answer(EAST, asked, produced(("orders", 0, 0, 7)))
    # Then that reaches no client, though its socket may still be open
    assert talk.answers() == []
    assert isinstance(talk.session.context.life, Over)


def test_an_answer_that_comes_before_the_cluster_is_given_up_is_sent() -> None:
    talk = Talk(state())
    whole(talk)
    talk.follow(fenced())
    talk.answer(EAST, talk.asked(EAST)[0], produced(("orders", 0, 0, 7)))
    assert len(talk.answers()) == 1
    assert not holds_back(talk)


def test_a_client_that_waits_only_for_another_cluster_continues() -> None:
    # Given a client of the west, to which a topic has moved that is fenced now
    talk = Talk(state(moved(100, 7)), Port("west", 1))
    talk.ask(PRODUCE, 9, produce(("orders", 0, batch())))
    talk.follow(state(moved(100, 7, fence=FENCE), revision=2))
    assert holds_back(talk)
    # When the east is given up
    give_up(talk)
    # Then it gets its answer
    talk.answer(WEST, talk.asked(WEST)[0], produced(("orders", 0, 0, 7)))
    assert len(talk.answers()) == 1
    assert talk.closed is None


def ask_for_metadata(talk: Talk) -> Callable[[], None]:
    """A request that is answered when the result is called; later ones wait for their turn."""
    talk.ask(METADATA, 8, OF_NO_TOPIC)
    (question,) = talk.questions
    body = {"throttle_time_ms": 0, "brokers": [], "cluster_id": None, "controller_id": 1, "topics": []}
    return lambda: talk.composed(question, body)


def test_requests_to_a_live_cluster_are_awaited_after_the_client_was_cut_off() -> None:
    # Given three batches at an open cut: the first is done, its answer queued after another one; the second is in
    # flight to the target; the origin hangs with the third
    talk = Talk(state(crossings.topic()))
    answer_metadata = ask_for_metadata(talk)
    for sequence in (0, 10, 20):
        crossings.ask(talk, crossings.records(sequence, 10))
    first, second, _ = talk.asked(EAST)
    crossings.answer(talk, EAST, first, CUT - 10)
    crossings.answer(talk, EAST, second, CUT)
    (write,) = talk.asked(TARGET_LANE)
    # When a forced end of the crossing gives the origin up
    talk.follow(state(crossings.topic(fence=FENCE), revision=2))
    give_up(talk)
    # Then it still waits for the target, from which the operation is to learn where the producer's batches begin there
    assert Drop(EAST) in talk.others
    assert holds_back(talk)
    assert not talk.session.context.life.connected
    answer_metadata()
    assert talk.closed is None
    # And only until that has answered
    crossings.answer(talk, TARGET_LANE, write, BASE)
    assert not holds_back(talk)
    assert talk.closed == Close(Cause.TAKEN_FOR_DEAD, "east owes an answer, and an operation takes it for dead")
    assert talk.answers() == []


def test_a_live_cluster_that_breaks_is_no_longer_awaited() -> None:
    talk = Talk(state(crossings.topic()))
    for sequence in (0, 10):
        crossings.ask(talk, crossings.records(sequence, 10))
    crossings.answer(talk, EAST, talk.asked(EAST)[0], CUT)
    talk.follow(state(crossings.topic(fence=FENCE), revision=2))
    give_up(talk)
    assert holds_back(talk)
    talk.lose(TARGET_LANE)
    talk.wait(0.25)
    assert not holds_back(talk)


def test_the_live_clusters_answer_to_a_request_that_waits_for_both_is_dropped() -> None:
    # Given a fetch from both clusters, and a commit after it in the live one
    talk = Talk(bound("west", moved(100, 7)), Port("west", 1))
    talk.ask(FETCH, 12, fetch(("orders", 0, 50), ("other", 0, 3)))
    talk.ask(COMMIT, 7, commit())
    assert talk.asked(EAST)
    read, committed = talk.asked(WEST)
    # When the east is given up
    talk.follow(bound("west", moved(100, 7), group=Group(name="billing", fence=FENCE)))
    give_up(talk)
    # Then the west's answer to the fetch is skipped, and the fence waits for the commit
    talk.answer(WEST, read, fetched(("other", 0, 9, b"")))
    assert holds_back(talk)
    assert talk.closed is None
    talk.answer(WEST, committed, {"topics": []})
    assert not holds_back(talk)
    assert talk.cause is Cause.TAKEN_FOR_DEAD
    assert talk.answers() == []


def answered_behind_another(fence: Fence) -> tuple[Talk, Callable[[], None]]:
    """A produce to a topic with a map that the east has answered, queued after another answer, when the topic is
    fenced."""
    topic = Topic(name="orders", writer="east", partitions={0: identity("east")})
    talk = Talk(state(topic))
    answer_metadata = ask_for_metadata(talk)
    whole(talk)
    talk.answer(EAST, talk.asked(EAST)[0], produced(("orders", 0, 0, 7)))
    talk.follow(state(topic.changed(fence=fence), revision=2))
    return talk, answer_metadata


def test_an_answer_of_the_given_up_cluster_that_waits_for_its_turn_is_never_sent() -> None:
    # Given an answer that confirms a record in a log which the operation will leave behind
    talk, answer_metadata = answered_behind_another(FENCE)
    # Then the operation waits for it
    assert holds_back(talk)
    # When the cluster is given up
    give_up(talk)
    # Then it waits no more, and the client sends the record again, to the topic's new place
    assert not holds_back(talk)
    answer_metadata()
    assert talk.cause is Cause.TAKEN_FOR_DEAD
    assert talk.answers() == []


def test_an_answer_whose_turn_comes_before_the_cluster_is_given_up_is_sent() -> None:
    talk, answer_metadata = answered_behind_another(FENCE)
    answer_metadata()
    assert not holds_back(talk)
    give_up(talk)
    assert len(talk.answers()) == 2
    assert talk.closed is None


@pytest.mark.parametrize("fence", [Fence(operation="op-1"), FENCE.changed(taken_for_dead="west")])
def test_an_answer_of_a_cluster_that_the_operation_reads_to_its_end_may_wait_for_its_turn(fence: Fence) -> None:
    talk, answer_metadata = answered_behind_another(fence)
    assert not holds_back(talk)
    answer_metadata()
    assert len(talk.answers()) == 2


def test_a_fence_names_the_cluster_taken_for_dead_for_topics_and_groups() -> None:
    group = Group(name="billing", fence=FENCE.changed(operation="op-2"))
    found = fences(View(2, CLUSTERS, topics={"orders": FENCED}, groups={"billing": group}))
    assert {name: scope.taken_for_dead for name, scope in found.scopes.items()} == {"op-1": "east", "op-2": "east"}
    assert (
        fences(View(2, CLUSTERS, topics={"orders": Topic(name="orders", fence=Fence(operation="op-1"))}))
        .scopes["op-1"]
        .taken_for_dead
        is None
    )
