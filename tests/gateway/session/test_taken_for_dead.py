"""What waits for a cluster that an operation takes for dead ends without an answer, and holds it up no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.session.commands import Cause, Refresh
from gateway.session.life import Over
from gateway.session.snapshot import Port, Snapshot, fences
from ha_core.model import Fence, Group, Topic, View
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import LARGE, PRODUCE, half, moved, produce, produced, state
from tests.gateway.session.talk import CLUSTERS, EAST, WEST, Talk

FENCE = Fence(operation="op-1", taken_for_dead="east")
FENCED = Topic(name="orders", fence=FENCE)


def fenced(revision: int = 2) -> Snapshot:
    found: Snapshot = state(FENCED, revision=revision)
    return found


def holds_back(talk: Talk) -> bool:
    (scope,) = talk.session.snapshot.fences.scopes.values()
    return talk.session.holds_back(scope.topics, scope.groups, 2, scope.quiet)


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
    # Given a write on its way to a broker that answers nothing, when its topic is fenced by a forced operation
    talk = Talk(state())
    sent(talk)
    talk.follow(fenced())
    assert holds_back(talk)
    # When the cluster is given up
    give_up(talk)
    # Then the client's connection ends, nobody is told anything, and the clusters are looked at anew
    assert talk.closed is not None
    assert talk.closed.cause is Cause.TAKEN_FOR_DEAD
    assert talk.answers() == []
    assert Refresh() in talk.others


def test_a_broker_that_goes_on_after_that_has_nobody_to_tell_of_a_success() -> None:
    talk = Talk(state())
    whole(talk)
    (asked,) = talk.asked(EAST)
    talk.follow(fenced())
    give_up(talk)
    # When it wakes up, and answers what it was sent before the fence
    talk.answer(EAST, asked, produced(("orders", 0, 0, 7)))
    # Then that reaches no client, though its socket may be open still
    assert talk.answers() == []
    assert isinstance(talk.session.life, Over)


def test_an_answer_that_comes_before_that_is_given() -> None:
    talk = Talk(state())
    whole(talk)
    talk.follow(fenced())
    talk.answer(EAST, talk.asked(EAST)[0], produced(("orders", 0, 0, 7)))
    assert len(talk.answers()) == 1
    assert not holds_back(talk)


def test_who_waits_for_another_cluster_only_goes_on() -> None:
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


def test_a_fence_says_of_topics_and_of_groups_which_cluster_its_operation_does_without() -> None:
    group = Group(name="billing", fence=FENCE.changed(operation="op-2"))
    found = fences(View(2, CLUSTERS, topics={"orders": FENCED}, groups={"billing": group}))
    assert {name: scope.taken_for_dead for name, scope in found.scopes.items()} == {"op-1": "east", "op-2": "east"}
    assert (
        fences(View(2, CLUSTERS, topics={"orders": Topic(name="orders", fence=Fence(operation="op-1"))}))
        .scopes["op-1"]
        .taken_for_dead
        is None
    )
